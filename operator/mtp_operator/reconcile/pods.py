"""Why a pod waits, and why it failed. The same for both kinds; reasons are words of the API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mtp_operator.api.conditions import FineTuneReason
from mtp_operator.reconcile.observed import PodView
from mtp_operator.reconcile.results import excerpt, read_failure
from mtp_trainer.contract import ExitCode, Reason, Stage

_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_API_REASONS: dict[str, str] = {reason.value: reason for reason in FineTuneReason}
_EPOCH = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Cause:
    """A reason of the API and a sentence."""

    reason: str
    message: str


def newest_first(pods: Iterable[PodView]) -> list[PodView]:
    """By end, then start, then creation; names decide ties so that the order never depends on a list's."""
    return sorted(
        pods, key=lambda p: (p.finished or p.started or p.created or _EPOCH, p.created or _EPOCH, p.name), reverse=True
    )


def why_waiting(pod: PodView) -> Cause | None:
    """Why the container hasn't started; ``None`` once it has."""
    if pod.started is not None or pod.exit_code is not None:
        return None
    if pod.unschedulable is not None:
        # The scheduler also reports claims that don't exist.
        lost_claim = "persistentvolumeclaim" in pod.unschedulable and "not found" in pod.unschedulable
        reason = FineTuneReason.VOLUME_MISSING if lost_claim else FineTuneReason.UNSCHEDULABLE
        return Cause(reason, f"pod {pod.name}: {pod.unschedulable}")
    if pod.waiting_reason in _IMAGE:
        detail = pod.waiting_message or pod.waiting_reason
        return Cause(FineTuneReason.IMAGE_PULL_FAILED, f"pod {pod.name}: {detail}")
    if pod.waiting_reason == "CreateContainerConfigError" and "secret" in pod.waiting_message.lower():
        return Cause(FineTuneReason.SECRET_MISSING, f"pod {pod.name}: {pod.waiting_message}")
    detail = ": ".join(part for part in (pod.waiting_reason, pod.waiting_message) if part)
    return Cause(FineTuneReason.PENDING, f"pod {pod.name} has not started" + (f": {detail}" if detail else ""))


def start_overdue(pod: PodView, patience_seconds: int, now: datetime) -> bool:
    """Whether a node has had the pod for longer than this without starting it. Waiting for a node doesn't count."""
    return (
        pod.scheduled is not None
        and why_waiting(pod) is not None
        and now - pod.scheduled > timedelta(seconds=patience_seconds)
    )


def why_failed(pod: PodView, stage: Stage) -> Cause:
    """Why a pod of a fine-tune ended without success."""
    failure = read_failure(stage, pod.termination_message)
    if pod.terminated_reason == "OOMKilled":
        return Cause(
            FineTuneReason.OUT_OF_MEMORY,
            f"pod {pod.name} was killed for its memory; raise pods.resources.limits.memory",
        )
    if failure is not None:
        return Cause(api_reason(failure.reason), failure.message)
    if pod.disrupted or pod.exit_code == ExitCode.INTERRUPTED:
        return Cause(FineTuneReason.INTERRUPTED, f"pod {pod.name} was stopped: {pod.message or 'its node needed it'}")
    detail = excerpt(pod.termination_message or pod.message) or "it left no message; see its log"
    what = pod.reason or (f"exit code {pod.exit_code}" if pod.exit_code is not None else "no exit code")
    return Cause(FineTuneReason.UNEXPECTED, f"pod {pod.name} failed ({what}): {detail}")


def api_reason(reason: Reason) -> str:
    """The trainer's reason as a condition's."""
    return _API_REASONS.get(reason.value, FineTuneReason.UNEXPECTED)


def failed(pod: PodView) -> bool:
    """Whether the pod ended without success."""
    return pod.phase == "Failed" or (pod.exit_code is not None and pod.exit_code != 0)


def interrupted(pod: PodView) -> bool:
    """Whether the pod was stopped through no fault of its own; such ends cost no retry."""
    return failed(pod) and (pod.disrupted or pod.exit_code == ExitCode.INTERRUPTED)


def running_seconds(pods: Iterable[PodView], now: datetime) -> float:
    """For how long containers ran, together. Time in queues and before the start doesn't count."""
    total = timedelta()
    for pod in pods:
        if pod.started is not None:
            total += max(timedelta(), (pod.finished or now) - pod.started)
    return total.total_seconds()
