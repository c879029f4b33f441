"""Conditions in the shape that Kubernetes, Argo CD and Flux agree on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mtp_operator.reconcile import read

MAX_MESSAGE = 1024
TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


@dataclass(frozen=True)
class Wanted:
    """A condition as it should be said now."""

    type: str
    status: str
    reason: str
    message: str = ""


def set_condition(
    conditions: Sequence[read.Json], wanted: Wanted, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The list with ``wanted`` in it, in its old place. ``lastTransitionTime`` stays unless the status flips."""
    entry = _entry(conditions, wanted, generation, now)
    kept = [entry if read.text(old, "type") == wanted.type else dict(old) for old in conditions]
    return kept if entry in kept else [*kept, entry]


def conditions_of(
    previous: Sequence[read.Json], wanted: Iterable[Wanted], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Exactly the wanted conditions, in their order.

    Those that are present only when True go by not being wanted any more.
    """
    return [_entry(previous, condition, generation, now) for condition in wanted]


def is_true(status: Any, kind: str) -> bool:
    """Whether a status says so of a condition."""
    return read.text(read.condition(status, kind, "conditions"), "status") == TRUE


def _entry(previous: Sequence[read.Json], wanted: Wanted, generation: int, now: datetime) -> dict[str, Any]:
    old: read.Json = next((c for c in previous if read.text(c, "type") == wanted.type), {})
    unchanged = read.text(old, "status") == wanted.status and read.time(old, "lastTransitionTime") is not None
    return {
        "type": str(wanted.type),
        "status": wanted.status,
        "reason": str(wanted.reason),
        "message": shortened(wanted.message),
        "observedGeneration": generation,
        "lastTransitionTime": read.text(old, "lastTransitionTime") if unchanged else read.format_time(now),
    }


def shortened(message: str) -> str:
    """At most :data:`MAX_MESSAGE` characters, as one line."""
    line = " ".join(message.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"
