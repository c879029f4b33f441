"""Where a run stands. Plan and status both follow from this, so that they can't disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mtp_operator.api.conditions import FineTuneReason
from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.reconcile.fine_tune_run import FineTuneRun, InvalidSpec
from mtp_operator.reconcile.observed import FineTuneObserved, JobView, PodView
from mtp_operator.reconcile.pods import (
    Cause,
    failed,
    interrupted,
    newest_first,
    running_seconds,
    start_overdue,
    why_failed,
    why_waiting,
)
from mtp_operator.reconcile.refusals import fine_tune_refusal
from mtp_operator.reconcile.results import Unreadable, read_result
from mtp_trainer.contract import EvaluateResult, FailureResult, Stage, StageResult

RESULT_GRACE_SECONDS = 60
"""A Job can be seen as complete a moment before its pod's message is; only then is the message taken for lost."""


@dataclass(frozen=True)
class Assessment:
    """Where a run stands.

    Attributes:
        results: results read now, of stages that the status doesn't remember yet.
        done: stages that ended well.
        current: the stage to work on; ``None`` when all are done.
        failure: why the run ends now without success.
        blocked: why nothing can be done, though the run hasn't ended; somebody has to act.
        cause: what the current stage is doing or waiting for.
    """

    cause: Cause
    results: Mapping[Stage, StageResult] = field(default_factory=dict)
    done: frozenset[Stage] = frozenset()
    current: Stage | None = None
    failure: Cause | None = None
    blocked: Cause | None = None

    @property
    def succeeded(self) -> bool:
        """Whether every stage is done."""
        return self.current is None and self.failure is None and self.blocked is None


@dataclass(frozen=True)
class _StageLook:
    result: StageResult | None = None
    failure: Cause | None = None
    blocked: Cause | None = None
    cause: Cause | None = None


def assess(run: FineTuneRun, observed: FineTuneObserved, now: datetime) -> Assessment:
    """Where the run stands. Never raises, whatever was observed."""
    if isinstance(run.spec, InvalidSpec):
        cause = Cause(FineTuneReason.NOT_SUPPORTED, run.spec.message)
        return Assessment(cause, current=Stage.PREPARE, blocked=cause)
    refusal = fine_tune_refusal(run.owner.name, run.spec)
    if refusal is not None:
        cause = Cause(FineTuneReason.NOT_SUPPORTED, refusal)
        return Assessment(cause, current=Stage.PREPARE, failure=cause)
    results: dict[Stage, StageResult] = {}
    done: set[Stage] = set()
    for stage in Stage:
        if run.remembers(stage):
            done.add(stage)
            continue
        job = observed.jobs.get(stage)
        pods = observed.pods.get(stage, ())
        look = _look_at(run.spec, stage, job, pods, now)
        if look.result is not None:
            results[stage] = look.result
            done.add(stage)
            gate = gate_failure(run.spec, look.result)
            if gate is not None:
                return Assessment(gate, results, frozenset(done), stage, failure=gate)
            continue
        cause = look.failure or look.blocked or look.cause or Cause(FineTuneReason.ACCEPTED, "")
        return Assessment(cause, results, frozenset(done), stage, look.failure, look.blocked)
    return Assessment(Cause(FineTuneReason.COMPLETED, "the tuned head is published"), results, frozenset(done))


def gate_failure(spec: MTPFineTuneSpec, result: StageResult) -> Cause | None:
    """Why the gate ends the run; ``None`` when it passed, or only warns."""
    if not isinstance(result, EvaluateResult) or result.gate.passed or spec.evaluation.gate.on_failure == "Warn":
        return None
    return gate_cause(result)


def gate_cause(result: EvaluateResult) -> Cause:
    """The gate's own reason and sentences."""
    reason = {r.value: r for r in FineTuneReason}.get(result.gate.reason or "", FineTuneReason.GATE_FAILED)
    return Cause(reason, "; ".join(result.gate.failures) or "a rule of the gate fails")


def _look_at(
    spec: MTPFineTuneSpec, stage: Stage, job: JobView | None, pods: Sequence[PodView], now: datetime
) -> _StageLook:
    if job is None:
        if spec.suspend:
            return _StageLook(cause=Cause(FineTuneReason.SUSPENDED, f"{stage} begins when spec.suspend is unset"))
        return _StageLook(cause=Cause(FineTuneReason.ACCEPTED, f"the Job of {stage} is to be created"))
    succeeded = [pod for pod in newest_first(pods) if pod.exit_code == 0 or pod.phase == "Succeeded"]
    if succeeded:
        return _read_success(stage, succeeded[0])
    if job.complete:
        return _lost_result(stage, job, now)
    if job.failed_reason is not None:
        return _StageLook(failure=_job_failure(spec, stage, job, pods))
    return _look_at_unfinished(spec, stage, job, pods, now)


def _read_success(stage: Stage, pod: PodView) -> _StageLook:
    result = read_result(stage, pod.termination_message)
    if isinstance(result, Unreadable):
        message = f"pod {pod.name} ended well, but {result.message}; is the trainer image one of this release?"
        return _StageLook(failure=Cause(FineTuneReason.UNEXPECTED, message))
    if isinstance(result, FailureResult):
        message = f"pod {pod.name} ended with exit code 0 and the result of a failure: {result.message}"
        return _StageLook(failure=Cause(FineTuneReason.UNEXPECTED, message))
    return _StageLook(result=result)


def _lost_result(stage: Stage, job: JobView, now: datetime) -> _StageLook:
    if job.completed is not None and now - job.completed <= timedelta(seconds=RESULT_GRACE_SECONDS):
        return _StageLook(cause=Cause(FineTuneReason.RUNNING, f"waiting for the result of {stage}"))
    message = (
        f"Job {job.name} is complete, but its pod is gone and its result with it; "
        f"delete the Job, and {stage} runs again"
    )
    return _StageLook(blocked=Cause(FineTuneReason.UNEXPECTED, message))


def _job_failure(spec: MTPFineTuneSpec, stage: Stage, job: JobView, pods: Sequence[PodView]) -> Cause:
    ends = [pod for pod in newest_first(pods) if failed(pod) and not interrupted(pod)]
    last = why_failed(ends[0], stage) if ends else None
    if job.failed_reason == "DeadlineExceeded":
        return Cause(FineTuneReason.DEADLINE_EXCEEDED, job.failed_message or f"Job {job.name} ran for too long")
    retries = spec.failure_policy.max_retries
    if job.failed_reason == "BackoffLimitExceeded" and retries > 0:
        detail = f"{last.reason}: {last.message}" if last is not None else job.failed_message
        return Cause(
            FineTuneReason.RETRIES_EXHAUSTED, f"{stage} failed, and so did its {retries} retries; the last: {detail}"
        )
    return last or Cause(
        FineTuneReason.UNEXPECTED, f"Job {job.name} failed ({job.failed_reason}): {job.failed_message}"
    )


def _look_at_unfinished(
    spec: MTPFineTuneSpec, stage: Stage, job: JobView, pods: Sequence[PodView], now: datetime
) -> _StageLook:
    deadline = spec.active_deadline_seconds
    if deadline is not None and running_seconds(pods, now) > deadline:
        message = f"{stage} ran longer than activeDeadlineSeconds {deadline}; raise it in a new run"
        return _StageLook(failure=Cause(FineTuneReason.DEADLINE_EXCEEDED, message))
    if spec.suspend:
        return _StageLook(cause=_suspension(stage, job))
    if job.suspended:
        if job.queued:
            return _StageLook(cause=Cause(FineTuneReason.QUEUED, f"Job {job.name} waits in its queue"))
        return _StageLook(cause=Cause(FineTuneReason.PENDING, f"Job {job.name} is being resumed"))
    alive = [pod for pod in newest_first(pods) if not failed(pod) and not pod.deleting]
    if any(pod.running for pod in alive):
        return _StageLook(cause=Cause(FineTuneReason.RUNNING, f"{stage} runs in Job {job.name}"))
    for pod in alive:
        waiting = why_waiting(pod)
        if waiting is None:
            continue
        patience = spec.failure_policy.startup_timeout_seconds
        if start_overdue(pod, patience, now):
            message = f"{waiting.message}, {patience} s after it got its node (failurePolicy.startupTimeoutSeconds)"
            return _StageLook(failure=Cause(FineTuneReason.STARTUP_TIMEOUT, message))
        return _StageLook(cause=waiting)
    ends = [pod for pod in newest_first(pods) if failed(pod)]
    if ends:
        last = why_failed(ends[0], stage)
        return _StageLook(cause=Cause(last.reason, f"{stage} is tried again after: {last.message}"))
    return _StageLook(cause=Cause(FineTuneReason.PENDING, f"Job {job.name} has no pod yet"))


def _suspension(stage: Stage, job: JobView) -> Cause:
    if job.suspended:
        message = f"{stage} goes on from its checkpoint when spec.suspend is unset"
    elif job.queued:
        message = (
            f"no other stage begins; Job {job.name} belongs to its queue and runs on: "
            "to stop it now, set spec.active of its Workload to false"
        )
    else:
        message = f"{stage} is being stopped after a checkpoint"
    return Cause(FineTuneReason.SUSPENDED, message)
