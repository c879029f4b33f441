"""``MTPFineTune.status`` from what was observed and what the status remembers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mtp_operator.api.conditions import FineTuneCondition, FineTuneReason
from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.reconcile import read
from mtp_operator.reconcile.conditions import FALSE, TRUE, UNKNOWN, Wanted, conditions_of
from mtp_operator.reconcile.fine_tune_assessment import Assessment, assess, gate_cause
from mtp_operator.reconcile.fine_tune_figures import artifact, evaluation, progress, resolved_from, trained
from mtp_operator.reconcile.fine_tune_run import STAGE_CONDITIONS, FineTuneRun, InvalidSpec
from mtp_operator.reconcile.observed import FineTuneObserved
from mtp_operator.reconcile.pods import Cause, interrupted
from mtp_operator.render.claim import workspace_claim_name
from mtp_operator.render.config_map import stage_child_name
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.pod_settings import stage_pods
from mtp_operator.render.storage import workspace_folder
from mtp_trainer.contract import EvaluateResult, PublishResult, Stage, TrainResult


def status(run: FineTuneRun, observed: FineTuneObserved, now: datetime, defaults: Defaults) -> dict[str, Any]:
    """The whole status. It equals the previous one when nothing changed, and then needs no write."""
    if run.ended:
        return _of_ended(run)
    assessment = assess(run, observed, now)
    new: dict[str, Any] = copy.deepcopy(dict(run.previous))
    new["observedGeneration"] = run.generation
    new["conditions"] = conditions_of(
        read.objects(run.previous, "conditions"), _conditions(run, observed, assessment), run.generation, now
    )
    if isinstance(run.spec, InvalidSpec):
        return new
    _say_what_was_resolved(new, run, run.spec, observed, assessment, defaults)
    _count(new, run, observed)
    if observed.jobs and not read.time(new, "startTime"):
        created = [job.created for job in observed.jobs.values() if job.created is not None]
        new["startTime"] = read.format_time(min(created, default=now))
    if assessment.failure is not None or assessment.succeeded:
        new["completionTime"] = read.format_time(now)
    new["stage"] = (assessment.current or Stage.PUBLISH).value
    jobs = _jobs(observed) or read.objects(run.previous, "jobs")
    if jobs:
        new["jobs"] = jobs
    figures = progress(observed.progress, read.mapping(run.previous, "progress"), now)
    if figures is not None:
        new["progress"] = figures
    for result in assessment.results.values():
        if isinstance(result, TrainResult):
            new["progress"] = trained(result, read.mapping(run.previous, "progress"), now)
        elif isinstance(result, EvaluateResult):
            new["evaluation"] = evaluation(result, run.spec, run.owner)
        elif isinstance(result, PublishResult):
            new["artifact"] = artifact(result)
    return new


def first_status(run: FineTuneRun, now: datetime) -> dict[str, Any]:
    """What is written before anything is created, so that a failure to create finds an object with conditions."""
    accepted = Cause(FineTuneReason.ACCEPTED, "the operator has seen the object")
    wanted = [
        Wanted(FineTuneCondition.READY, UNKNOWN, accepted.reason, accepted.message),
        Wanted(FineTuneCondition.SUCCEEDED, UNKNOWN, accepted.reason, accepted.message),
        Wanted(FineTuneCondition.RECONCILING, TRUE, accepted.reason, accepted.message),
    ]
    return {"observedGeneration": run.generation, "conditions": conditions_of([], wanted, run.generation, now)}


def _of_ended(run: FineTuneRun) -> dict[str, Any]:
    """An end is final; only the generation is acknowledged (suspend and ttl may still be edited)."""
    new = copy.deepcopy(dict(run.previous))
    new["observedGeneration"] = run.generation
    new["conditions"] = [
        {**entry, "observedGeneration": run.generation}
        for entry in read.objects(run.previous, "conditions")
        if read.text(entry, "type") != FineTuneCondition.SUSPENDED
    ]
    return new


def _conditions(run: FineTuneRun, observed: FineTuneObserved, assessment: Assessment) -> list[Wanted]:
    """In the order in which a person reads them; Reconciling, Stalled and Suspended only when True."""
    gate = _gate_condition(run, assessment)
    stages = [_stage_condition(stage, assessment, observed) for stage in Stage]
    wanted = [*_overall(assessment, observed, gate), *stages[:3], gate, *stages[3:]]
    stalled = assessment.failure or assessment.blocked or _name_conflict(observed)
    if stalled is not None:  # never beside Reconciling, which kstatus would take for progress
        wanted.append(Wanted(FineTuneCondition.STALLED, TRUE, stalled.reason, stalled.message))
    elif not assessment.succeeded:
        wanted.append(Wanted(FineTuneCondition.RECONCILING, TRUE, assessment.cause.reason, assessment.cause.message))
    suspended = not isinstance(run.spec, InvalidSpec) and run.spec.suspend
    if suspended and assessment.failure is None and not assessment.succeeded:
        reason, message = FineTuneReason.SUSPENDED, "spec.suspend is set"
        if assessment.cause.reason == FineTuneReason.SUSPENDED:
            message = assessment.cause.message
        wanted.append(Wanted(FineTuneCondition.SUSPENDED, TRUE, reason, message))
    return wanted


def _overall(assessment: Assessment, observed: FineTuneObserved, gate: Wanted) -> list[Wanted]:
    if assessment.succeeded:
        warned = gate.reason == FineTuneReason.GATE_WARNED
        cause = Cause(FineTuneReason.GATE_WARNED, gate.message) if warned else assessment.cause
        ready, succeeded = TRUE, TRUE
    else:
        cause = _now(assessment, observed)
        ready, succeeded = FALSE, FALSE if assessment.failure is not None else UNKNOWN
    return [
        Wanted(FineTuneCondition.READY, ready, cause.reason, cause.message),
        Wanted(FineTuneCondition.SUCCEEDED, succeeded, cause.reason, cause.message),
    ]


def _now(assessment: Assessment, observed: FineTuneObserved) -> Cause:
    """An end outweighs what kept something from being created."""
    if assessment.failure is not None or assessment.blocked is not None or observed.problem is None:
        return assessment.cause
    return Cause(observed.problem.reason, observed.problem.message)


def _name_conflict(observed: FineTuneObserved) -> Cause | None:
    problem = observed.problem
    if problem is None or problem.reason != FineTuneReason.NAME_CONFLICT:
        return None
    return Cause(problem.reason, problem.message)


def _stage_condition(stage: Stage, assessment: Assessment, observed: FineTuneObserved) -> Wanted:
    kind = STAGE_CONDITIONS[stage]
    if stage in assessment.done:
        return Wanted(kind, TRUE, FineTuneReason.COMPLETED, f"{stage} ended well")
    if stage is assessment.current:
        cause = _now(assessment, observed)
        return Wanted(kind, FALSE if assessment.failure is not None else UNKNOWN, cause.reason, cause.message)
    if assessment.failure is not None:
        return Wanted(kind, FALSE, FineTuneReason.NOT_REACHED, "the run ended before this stage")
    return Wanted(kind, UNKNOWN, FineTuneReason.WAITING, "an earlier stage has not ended")


def _gate_condition(run: FineTuneRun, assessment: Assessment) -> Wanted:
    kind = FineTuneCondition.GATE_PASSED
    result = assessment.results.get(Stage.EVALUATE)
    if isinstance(result, EvaluateResult):
        if result.gate.passed:
            return Wanted(kind, TRUE, FineTuneReason.GATE_PASSED, "every rule of the gate holds")
        cause = gate_cause(result)
        if assessment.failure is not None:
            return Wanted(kind, FALSE, cause.reason, cause.message)
        return Wanted(kind, FALSE, FineTuneReason.GATE_WARNED, f"{cause.reason}: {cause.message}")
    if Stage.EVALUATE in assessment.done:
        known = read.condition(run.previous, kind, "conditions")
        return Wanted(
            kind, read.text(known, "status") or UNKNOWN, read.text(known, "reason"), read.text(known, "message")
        )
    if assessment.failure is not None:
        return Wanted(kind, FALSE, FineTuneReason.NOT_REACHED, "the run ended before its evaluation")
    return Wanted(kind, UNKNOWN, FineTuneReason.WAITING, "the evaluation has not ended")


def _say_what_was_resolved(
    new: dict[str, Any],
    run: FineTuneRun,
    spec: MTPFineTuneSpec,
    observed: FineTuneObserved,
    assessment: Assessment,
    defaults: Defaults,
) -> None:
    resolved = dict(read.mapping(run.previous, "resolved"))
    if observed.jobs:
        resolved.setdefault("trainerImage", stage_pods(spec, Stage.TRAIN).image or defaults.trainer_image)
        resolved.setdefault("operatorVersion", defaults.operator_version)
        resolved.setdefault("workspaceClaim", workspace_claim_name(run.owner, spec.workspace))
        resolved.setdefault("workspacePath", workspace_folder(run.owner.name, run.owner.uid))
    for result in assessment.results.values():
        resolved.update(resolved_from(result))
    if resolved:
        new["resolved"] = resolved


def _jobs(observed: FineTuneObserved) -> list[dict[str, Any]]:
    return [
        {
            "stage": stage.value,
            "name": observed.jobs[stage].name or stage_child_name("", stage),
            "active": observed.jobs[stage].active,
            "succeeded": observed.jobs[stage].succeeded,
            "failed": observed.jobs[stage].failed,
            "suspended": observed.jobs[stage].suspended,
        }
        for stage in Stage
        if stage in observed.jobs
    ]


def _count(new: dict[str, Any], run: FineTuneRun, observed: FineTuneObserved) -> None:
    """Retries and preemptions only rise: a Job that is gone takes its counts along."""
    failed = sum(job.failed for job in observed.jobs.values())
    stopped = sum(interrupted(pod) for pods in observed.pods.values() for pod in pods)
    evicted = sum(
        _left_the_queue(run.previous, job.name) for job in observed.jobs.values() if job.queued and job.suspended
    )
    counts: Mapping[str, int] = {
        "retries": max(read.integer(run.previous, "retries"), failed),
        "preemptions": max(read.integer(run.previous, "preemptions") + evicted, stopped),
    }
    new.update({name: count for name, count in counts.items() if count or name in run.previous})


def _left_the_queue(previous: read.Json, job: str) -> bool:
    """Whether the status knew this Job as running: its queue took it back, and the Job controller deletes its pod."""
    return any(
        read.text(entry, "name") == job and read.integer(entry, "active") > 0 and not read.flag(entry, "suspended")
        for entry in read.objects(previous, "jobs")
    )
