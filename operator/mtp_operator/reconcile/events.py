"""Which changes of a status are worth an Event: a step done, or something that a person has to look at."""

from __future__ import annotations

from dataclasses import dataclass

from mtp_operator.api.conditions import FineTuneCondition, FineTuneReason, ServingCondition, ServingReason
from mtp_operator.reconcile import read
from mtp_operator.reconcile.conditions import FALSE, TRUE

_SILENT: frozenset[str] = frozenset({FineTuneCondition.SUCCEEDED, FineTuneCondition.RECONCILING})
_STALLED: str = FineTuneCondition.STALLED
_WARN_WHEN_FALSE: frozenset[str] = frozenset(
    {FineTuneCondition.READY, FineTuneCondition.GATE_PASSED, ServingCondition.ACCEPTANCE_HEALTHY}
)
_ON_THE_WAY: frozenset[str] = frozenset(
    {
        FineTuneReason.ACCEPTED,
        FineTuneReason.RUNNING,
        FineTuneReason.WAITING,
        FineTuneReason.NOT_REACHED,
        FineTuneReason.PENDING,
        FineTuneReason.QUEUED,
        FineTuneReason.SUSPENDED,
        ServingReason.PROGRESSING,
        ServingReason.ENGINE_STARTING,
        ServingReason.MODEL_PENDING,
    }
)
"""Reasons that only say that time passes."""


@dataclass(frozen=True)
class Note:
    """An Event to come. ``kind`` is Normal or Warning."""

    kind: str
    reason: str
    message: str


def notes(old: read.Json, new: read.Json) -> list[Note]:
    """What happened between two statuses. Nothing is said of an object's first status."""
    if not read.objects(old, "conditions"):
        return []
    found: dict[Note, None] = {}
    for condition in read.objects(new, "conditions"):
        note = _note(read.condition(old, read.text(condition, "type"), "conditions"), condition)
        if note is not None:
            found[note] = None
    return list(found)


def _note(old: read.Json, new: read.Json) -> Note | None:
    kind, status, reason = (read.text(new, key) for key in ("type", "status", "reason"))
    if kind in _SILENT or (read.text(old, "status"), read.text(old, "reason")) == (status, reason):
        return None
    message = read.text(new, "message")
    if kind == _STALLED:
        return Note("Warning", reason, message)
    if status == TRUE and read.text(old, "status") != TRUE:
        return Note("Normal", kind, message)
    if status == FALSE and kind in _WARN_WHEN_FALSE and reason not in _ON_THE_WAY:
        return Note("Warning", reason, message)
    return None
