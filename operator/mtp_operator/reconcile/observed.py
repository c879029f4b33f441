"""What was seen of the cluster, as values with types. Making them from JSON never raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mtp_operator.reconcile import read
from mtp_operator.render import labels
from mtp_trainer.contract import Progress, Stage


@dataclass(frozen=True)
class PodView:
    """A pod with one container of interest."""

    name: str = ""
    uid: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    ip: str = ""
    ready: bool = False
    deleting: bool = False
    disrupted: bool = False
    created: datetime | None = None
    scheduled: datetime | None = None
    unschedulable: str | None = None
    waiting_reason: str = ""
    waiting_message: str = ""
    started: datetime | None = None
    finished: datetime | None = None
    exit_code: int | None = None
    terminated_reason: str = ""
    termination_message: str = ""
    last_exit_code: int | None = None
    last_reason: str = ""
    last_message: str = ""
    template_hash: str = ""

    @property
    def running(self) -> bool:
        """Whether its container runs now."""
        return self.started is not None and self.finished is None and self.exit_code is None


@dataclass(frozen=True)
class JobView:
    """A stage's Job."""

    name: str = ""
    uid: str = ""
    created: datetime | None = None
    suspended: bool = False
    queued: bool = False
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    complete: bool = False
    completed: datetime | None = None
    failed_reason: str | None = None
    failed_message: str = ""

    @property
    def finished(self) -> bool:
        """Whether no pod of it will run any more."""
        return self.complete or self.failed_reason is not None


@dataclass(frozen=True)
class DeploymentView:
    """A serving's Deployment."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    observed_generation: int = 0
    wanted_replicas: int = 0
    replicas: int = 0
    updated: int = 0
    available: int = 0
    ready: int = 0
    deadline_exceeded: str | None = None
    replica_failure: str | None = None


@dataclass(frozen=True)
class Problem:
    """Why the last attempt to create something failed."""

    reason: str
    message: str


@dataclass(frozen=True)
class FineTuneObserved:
    """Children of a run, by stage; only those that it owns."""

    jobs: Mapping[Stage, JobView] = field(default_factory=dict)
    pods: Mapping[Stage, tuple[PodView, ...]] = field(default_factory=dict)
    config_maps: frozenset[str] = frozenset()
    workspace_claim: bool = False
    progress: Progress | None = None
    problem: Problem | None = None


def pod_view(pod: read.Json, container: str) -> PodView:
    """A pod from its JSON; ``container`` is the one whose state counts."""
    statuses = [s for s in read.objects(pod, "status", "containerStatuses") if read.text(s, "name") == container]
    status: read.Json = statuses[0] if statuses else {}
    terminated = read.mapping(status, "state", "terminated")
    scheduled = read.condition(pod, "PodScheduled")
    is_scheduled = read.text(scheduled, "status") == "True"
    return PodView(
        name=read.text(pod, "metadata", "name"),
        uid=read.text(pod, "metadata", "uid"),
        phase=read.text(pod, "status", "phase"),
        reason=read.text(pod, "status", "reason"),
        message=read.text(pod, "status", "message"),
        ip=read.text(pod, "status", "podIP"),
        ready=read.text(read.condition(pod, "Ready"), "status") == "True",
        deleting=bool(read.text(pod, "metadata", "deletionTimestamp")),
        disrupted=read.text(read.condition(pod, "DisruptionTarget"), "status") == "True",
        created=read.time(pod, "metadata", "creationTimestamp"),
        scheduled=read.time(scheduled, "lastTransitionTime") if is_scheduled else None,
        unschedulable=read.text(scheduled, "message") if read.text(scheduled, "reason") == "Unschedulable" else None,
        waiting_reason=read.text(status, "state", "waiting", "reason"),
        waiting_message=read.text(status, "state", "waiting", "message"),
        started=read.time(status, "state", "running", "startedAt") or read.time(terminated, "startedAt"),
        finished=read.time(terminated, "finishedAt"),
        exit_code=_exit_code(terminated),
        terminated_reason=read.text(terminated, "reason"),
        termination_message=read.text(terminated, "message"),
        last_exit_code=_exit_code(read.mapping(status, "lastState", "terminated")),
        last_reason=read.text(status, "lastState", "terminated", "reason"),
        last_message=read.text(status, "lastState", "terminated", "message"),
        template_hash=read.texts(pod, "metadata", "annotations").get(labels.TEMPLATE_HASH, ""),
    )


def _exit_code(terminated: read.Json) -> int | None:
    code = terminated.get("exitCode")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def job_view(job: read.Json) -> JobView:
    """A Job from its JSON."""
    complete, failed = read.condition(job, "Complete"), read.condition(job, "Failed")
    has_failed = read.text(failed, "status") == "True"
    return JobView(
        name=read.text(job, "metadata", "name"),
        uid=read.text(job, "metadata", "uid"),
        created=read.time(job, "metadata", "creationTimestamp"),
        suspended=read.flag(job, "spec", "suspend"),
        queued=labels.KUEUE_QUEUE in read.texts(job, "metadata", "labels"),
        active=max(0, read.integer(job, "status", "active")),
        succeeded=max(0, read.integer(job, "status", "succeeded")),
        failed=max(0, read.integer(job, "status", "failed")),
        complete=read.text(complete, "status") == "True",
        completed=read.time(complete, "lastTransitionTime"),
        failed_reason=(read.text(failed, "reason") or "Failed") if has_failed else None,
        failed_message=read.text(failed, "message"),
    )


def deployment_view(deployment: read.Json) -> DeploymentView:
    """A Deployment from its JSON."""
    progressing = read.condition(deployment, "Progressing")
    failure = read.condition(deployment, "ReplicaFailure")
    return DeploymentView(
        annotations=read.texts(deployment, "metadata", "annotations"),
        generation=read.integer(deployment, "metadata", "generation"),
        observed_generation=read.integer(deployment, "status", "observedGeneration"),
        wanted_replicas=read.integer(deployment, "spec", "replicas"),
        replicas=read.integer(deployment, "status", "replicas"),
        updated=read.integer(deployment, "status", "updatedReplicas"),
        available=read.integer(deployment, "status", "availableReplicas"),
        ready=read.integer(deployment, "status", "readyReplicas"),
        deadline_exceeded=read.text(progressing, "message")
        if read.text(progressing, "reason") == "ProgressDeadlineExceeded"
        else None,
        replica_failure=read.text(failure, "message") if read.text(failure, "status") == "True" else None,
    )
