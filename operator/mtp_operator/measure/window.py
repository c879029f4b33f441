"""What was counted in a window: differences per pod and engine, restarts seen, then summed.

Rates are divided after summing: the mean of the engines' rates would weigh an idle engine like a busy one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from mtp_operator.measure.counters import Counters


@dataclass(frozen=True)
class Sample:
    """One reading of one pod's counters.

    Attributes:
        at: when it was read.
        pod: the pod's uid; a pod of the same name after a restart is another one.
        engines: counters by engine.
    """

    at: datetime
    pod: str
    engines: dict[str, Counters]


@dataclass(frozen=True)
class WindowCounts:
    """Sums over a window, of all pods and engines."""

    pods: int
    engines: int
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted: tuple[int, ...]


def count_window(samples: Sequence[Sample], since: datetime) -> WindowCounts | None:
    """Counts from ``since`` on.

    The last sample of a pod before ``since`` is where its window begins. ``None`` when no pod has two readings.
    """
    by_pod: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: s.at):
        by_pod.setdefault(sample.pod, []).append(sample)
    deltas: list[tuple[str, str, Counters]] = []
    for pod, readings in by_pod.items():
        inside = _from(readings, since)
        for before, after in pairwise(inside):
            for engine, counters in after.engines.items():
                deltas.append((pod, engine, difference(before.engines.get(engine), counters)))
    if not deltas:
        return None
    return WindowCounts(
        pods=len({pod for pod, _, _ in deltas}),
        engines=len({(pod, engine) for pod, engine, _ in deltas}),
        drafts=sum(delta.drafts for _, _, delta in deltas),
        draft_tokens=sum(delta.draft_tokens for _, _, delta in deltas),
        accepted_tokens=sum(delta.accepted_tokens for _, _, delta in deltas),
        accepted=_sum_positions(delta.accepted for _, _, delta in deltas),
    )


def difference(before: Counters | None, after: Counters) -> Counters:
    """What was counted between two readings of one engine.

    Counters only rise. One that fell began again at zero with a new process, and then all of them did.
    """
    if before is None or _fell(before, after):
        return after
    return Counters(
        drafts=after.drafts - before.drafts,
        draft_tokens=after.draft_tokens - before.draft_tokens,
        accepted_tokens=after.accepted_tokens - before.accepted_tokens,
        accepted=tuple(
            count - (before.accepted[i] if i < len(before.accepted) else 0) for i, count in enumerate(after.accepted)
        ),
    )


def _fell(before: Counters, after: Counters) -> bool:
    return (
        after.drafts < before.drafts
        or after.draft_tokens < before.draft_tokens
        or after.accepted_tokens < before.accepted_tokens
        or len(after.accepted) < len(before.accepted)
        or any(new < old for old, new in zip(before.accepted, after.accepted, strict=False))
    )


def _from(readings: list[Sample], since: datetime) -> list[Sample]:
    """The readings inside, and the last one before, whose counts are where the window starts."""
    before = [reading for reading in readings if reading.at < since]
    return [*before[-1:], *(reading for reading in readings if reading.at >= since)]


def _sum_positions(counts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    sums: list[int] = []
    for accepted in counts:
        sums += [0] * (len(accepted) - len(sums))
        for position, count in enumerate(accepted):
            sums[position] += count
    return tuple(sums)
