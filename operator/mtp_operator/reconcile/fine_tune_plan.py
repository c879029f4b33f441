"""What a run needs done next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mtp_operator.reconcile.actions import Action, Apply, Create, Delete
from mtp_operator.reconcile.fine_tune_assessment import RESULT_GRACE_SECONDS, assess
from mtp_operator.reconcile.fine_tune_run import FineTuneRun, InvalidSpec
from mtp_operator.reconcile.observed import FineTuneObserved, JobView
from mtp_operator.reconcile.pods import running_seconds, why_waiting
from mtp_operator.render.claim import workspace_claim, workspace_claim_name
from mtp_operator.render.config_map import stage_child_name, stage_config_map
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.job import stage_job
from mtp_operator.render.owner import Owner
from mtp_trainer.contract import Stage

PROGRESS_SECONDS = 15
"""How often a running Train stage is asked for its progress."""


def plan(run: FineTuneRun, observed: FineTuneObserved, now: datetime, defaults: Defaults) -> list[Action]:
    """Actions in the order in which they are to be done.

    An end is written to the status first and acted on at the next look: were a Job deleted before, a restart in
    between would find a stage without a Job, and create it again.
    """
    if isinstance(run.spec, InvalidSpec):
        return []
    if run.ended:
        return _clean_up(run, observed, now)
    assessment = assess(run, observed, now)
    stage = assessment.current
    if stage is None or assessment.failure is not None or assessment.blocked is not None:
        return []
    job = observed.jobs.get(stage)
    if job is not None:
        return _suspend_or_resume(run.owner, job, wanted=run.spec.suspend)
    if run.spec.suspend:
        return []
    actions: list[Action] = []
    claim = workspace_claim(run.owner, run.spec.workspace)
    if claim is not None and not observed.workspace_claim:
        actions.append(Create(claim))
    if stage_child_name(run.owner.name, stage) not in observed.config_maps:
        actions.append(Create(stage_config_map(run.owner, run.spec, stage, defaults)))
    return [*actions, Create(stage_job(run.owner, run.spec, stage, defaults))]


def next_look(run: FineTuneRun, observed: FineTuneObserved, now: datetime) -> float | None:
    """Seconds until something may have changed that no event tells of; ``None`` when events tell all."""
    if isinstance(run.spec, InvalidSpec):
        return None
    if run.ended:
        if _to_stop(observed):
            return 1.0
        left = run.expires is not None and (observed.jobs or observed.config_maps or observed.workspace_claim)
        return max(1.0, (run.expires - now).total_seconds()) if left and run.expires is not None else None
    assessment = assess(run, observed, now)
    if assessment.current is None or assessment.failure is not None or assessment.blocked is not None:
        return None
    times: list[float] = [30.0] if observed.problem is not None else []
    job = observed.jobs.get(assessment.current)
    pods = observed.pods.get(assessment.current, ())
    if job is not None and job.complete:
        times.append(RESULT_GRACE_SECONDS)
    if assessment.current is Stage.TRAIN and any(pod.running for pod in pods):
        times.append(PROGRESS_SECONDS)
    if run.spec.active_deadline_seconds is not None and any(pod.running for pod in pods):
        times.append(run.spec.active_deadline_seconds - running_seconds(pods, now) + 1)
    for pod in pods:
        if pod.scheduled is not None and why_waiting(pod) is not None:
            waited = (now - pod.scheduled).total_seconds()
            times.append(run.spec.failure_policy.startup_timeout_seconds - waited + 1)
    return max(1.0, min(times)) if times else None


def _suspend_or_resume(owner: Owner, job: JobView, *, wanted: bool) -> list[Action]:
    """A queued Job's ``suspend`` belongs to the queue: two writers would start what has no quota."""
    if job.finished or job.queued or job.suspended is wanted:
        return []
    patch: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job.name, "namespace": owner.namespace, "uid": job.uid},
        "spec": {"suspend": wanted},
    }
    return [Apply(patch)]


def _clean_up(run: FineTuneRun, observed: FineTuneObserved, now: datetime) -> list[Action]:
    """Stop what still runs at once; delete the rest when its time has come."""
    if run.expires is None or now < run.expires or isinstance(run.spec, InvalidSpec):
        return [_delete_job(job) for job in _to_stop(observed)]
    actions: list[Action] = [_delete_job(job) for job in observed.jobs.values()]
    actions += [Delete("v1", "ConfigMap", name) for name in sorted(observed.config_maps)]
    if observed.workspace_claim and run.spec.workspace.claim_name is None:
        actions.append(Delete("v1", "PersistentVolumeClaim", workspace_claim_name(run.owner, run.spec.workspace)))
    return actions


def _to_stop(observed: FineTuneObserved) -> list[JobView]:
    """Jobs whose pods may go on. One whose pod ended well is left to end by itself: its log is wanted."""
    return [
        job
        for stage, job in observed.jobs.items()
        if not job.finished and all(pod.exit_code != 0 for pod in observed.pods.get(stage, ()))
    ]


def _delete_job(job: JobView) -> Delete:
    return Delete("batch/v1", "Job", job.name, job.uid)
