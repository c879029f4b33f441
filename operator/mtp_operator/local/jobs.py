"""Runs Jobs of one pod, as the Job controller does: retries, exit codes, deadline, suspend."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mtp_operator.kube.verbs import JOB, POD, Object
from mtp_operator.local.pods import FINISHED, delete_pods, is_ready, pod_from_template
from mtp_operator.local.store import LocalStore, timestamp

_BACKOFF_SECONDS = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Before each retry. A cluster waits from 10 s to 6 min; a person at a laptop doesn't."""


@dataclass(frozen=True)
class Outcome:
    """What a finished pod means for its Job."""

    action: str
    """Succeed, FailJob, Ignore or Count."""
    message: str = ""


async def sync_jobs(store: LocalStore, now: datetime) -> None:
    """One look at every Job."""
    for job in store.select(JOB):
        await _sync(store, job, now)


async def _sync(store: LocalStore, job: Object, now: datetime) -> None:
    pods = store.owned(POD, job)
    status = copy.deepcopy(job.get("status", {}))
    active = [pod for pod in pods if pod.get("status", {}).get("phase") not in FINISHED]
    if _condition(status, "Complete") or _condition(status, "Failed"):
        return
    outcomes = [outcome_of(job["spec"], pod) for pod in pods if pod not in active]
    failed = sum(outcome.action in ("Count", "FailJob") for outcome in outcomes)
    status |= {
        "active": len(active),
        "failed": failed,
        "succeeded": sum(outcome.action == "Succeed" for outcome in outcomes),
        "ready": sum(is_ready(pod) for pod in active),
    }
    verdict = _verdict(job, status, outcomes, now)
    if verdict is not None:
        kind, reason, message = verdict
        if active and kind == "Failed":
            await delete_pods(store, active)
            return
        _set_condition(status, kind, "True", reason, message)
        if kind == "Complete":
            status["completionTime"] = timestamp(now)
    elif job["spec"].get("suspend", False):
        await delete_pods(store, active)
        _set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended")
        status.pop("startTime", None)
    else:
        if _condition(status, "Suspended"):
            _set_condition(status, "Suspended", "False", "JobResumed", "Job resumed")
        status.setdefault("startTime", timestamp(now))
        if not active and _backoff_is_over(pods, failed, now):
            await store.create(pod_from_template(job, job["spec"]["template"], _labels(job)))
            status["active"] = 1
    store.write_status(job, status)


def outcome_of(spec: dict[str, Any], pod: Object) -> Outcome:
    """Apply the Job's ``podFailurePolicy`` to a finished pod; the first rule that fits decides."""
    status = pod["status"]
    if status["phase"] == "Succeeded":
        return Outcome("Succeed")
    containers = status.get("containerStatuses", [])
    codes = {container["name"]: container["state"].get("terminated", {}).get("exitCode") for container in containers}
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        if "onExitCodes" in rule:
            on = rule["onExitCodes"]
            relevant = [
                code
                for name, code in codes.items()
                if code not in (None, 0) and on.get("containerName") in (None, name)
            ]
            inside = on["operator"] == "In"
            fits = any((code in on["values"]) is inside for code in relevant)
        else:
            present = {(c["type"], c["status"]) for c in status.get("conditions", [])}
            fits = any((c["type"], c.get("status", "True")) in present for c in rule.get("onPodConditions", []))
        if fits:
            name = pod["metadata"]["name"]
            return Outcome(rule["action"], f"pod {name} ended with exit code {next(iter(codes.values()), None)}")
    return Outcome("Count")


def _verdict(
    job: Object, status: dict[str, Any], outcomes: list[Outcome], now: datetime
) -> tuple[str, str, str] | None:
    """Condition, reason and message of a Job that has ended."""
    if any(outcome.action == "Succeed" for outcome in outcomes):
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    refused = next((outcome for outcome in outcomes if outcome.action == "FailJob"), None)
    if refused is not None:
        return "Failed", "PodFailurePolicy", f"{refused.message}, matching FailJob rule"
    if status["failed"] > job["spec"].get("backoffLimit", 6):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline, started = job["spec"].get("activeDeadlineSeconds"), status.get("startTime")
    if deadline is not None and started is not None and (now - _parse(started)).total_seconds() > deadline:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _backoff_is_over(pods: list[Object], failed: int, now: datetime) -> bool:
    if not pods or failed == 0:
        return True
    ended = [
        container["state"]["terminated"]["finishedAt"]
        for pod in pods
        for container in pod["status"].get("containerStatuses", [])
        if "terminated" in container["state"]
    ]
    wait = _BACKOFF_SECONDS[min(failed, len(_BACKOFF_SECONDS) - 1)]
    return not ended or (now - _parse(max(ended))).total_seconds() >= wait


def _labels(job: Object) -> dict[str, str]:
    name = job["metadata"]["name"]
    return {
        "batch.kubernetes.io/job-name": name,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": job["metadata"]["uid"],
    }


def _condition(status: dict[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions", []))


def _set_condition(status: dict[str, Any], kind: str, value: str, reason: str, message: str) -> None:
    others = [c for c in status.get("conditions", []) if c["type"] != kind]
    same = next((c for c in status.get("conditions", []) if c["type"] == kind and c["status"] == value), None)
    since = same["lastTransitionTime"] if same else timestamp()
    status["conditions"] = [
        *others,
        {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since},
    ]


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
