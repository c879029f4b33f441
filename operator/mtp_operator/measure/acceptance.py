"""From counts to acceptance, and what to think of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mtp_operator.measure.window import WindowCounts

IDENTITY_TOLERANCE = 0.01
"""Relative difference allowed in mean length = 1 + sum of rates: the four families are read one after the other while
the engine counts on."""
NO_DRAFTS_ACCEPTED_BELOW = 1.05
"""Mean length up to which a head counts as not working. A head of random weights measured 1.08; one that was never
loaded, 1.00."""


class Verdict(StrEnum):
    """What the counts allow to say."""

    NOT_READ = "NotRead"
    NO_TRAFFIC = "NoTraffic"
    TOO_FEW_DRAFTS = "TooFewDrafts"
    INCONSISTENT = "Inconsistent"
    POSITIONS_MISSING = "PositionsMissing"
    DRAFTS_REJECTED = "DraftsRejected"
    BELOW_THRESHOLD = "BelowThreshold"
    HEALTHY = "Healthy"

    @property
    def measured(self) -> bool:
        """Whether the figures are worth showing."""
        return self in (Verdict.DRAFTS_REJECTED, Verdict.BELOW_THRESHOLD, Verdict.HEALTHY)


@dataclass(frozen=True)
class Position:
    """Acceptance at one draft position; ``conditional`` is over the drafts accepted at the position before."""

    position: int
    accepted: int
    rate: float
    conditional: float | None


@dataclass(frozen=True)
class Judgement:
    """A verdict with the sentence that explains it."""

    verdict: Verdict
    message: str


def mean_acceptance_length(counts: WindowCounts) -> float | None:
    """Tokens per verifier step, ``1 + accepted tokens / drafts``; ``None`` without drafts."""
    return 1 + counts.accepted_tokens / counts.drafts if counts.drafts else None


def positions(counts: WindowCounts) -> list[Position]:
    """Acceptance per position; empty without drafts."""
    if not counts.drafts:
        return []
    before = (counts.drafts, *counts.accepted)
    return [
        Position(i, accepted, accepted / counts.drafts, accepted / before[i] if before[i] else None)
        for i, accepted in enumerate(counts.accepted)
    ]


def judge(counts: WindowCounts | None, depth: int, min_drafts: int, threshold: float | None) -> Judgement:
    """What a window says about the head.

    Args:
        counts: the window; ``None`` before two readings.
        depth: draft depth in force.
        min_drafts: fewest drafts for a verdict.
        threshold: least mean acceptance length; ``None`` for no limit of the user's.
    """
    if counts is None:
        return Judgement(Verdict.NOT_READ, "the window has no two readings of a pod's counters yet")
    length = mean_acceptance_length(counts)
    if length is None:
        return Judgement(Verdict.NO_TRAFFIC, "nothing was drafted in the window")
    if counts.drafts < min_drafts:
        return Judgement(Verdict.TOO_FEW_DRAFTS, f"the window holds fewer drafts than minDrafts {min_drafts}")
    if len(counts.accepted) < depth:
        return Judgement(
            Verdict.POSITIONS_MISSING,
            f"the engine counts {len(counts.accepted)} positions, and numSpeculativeTokens is {depth}; "
            "does engine.image draft with the configuration it was given?",
        )
    by_position = 1 + sum(counts.accepted) / counts.drafts
    if abs(by_position - length) > IDENTITY_TOLERANCE * length:
        return Judgement(
            Verdict.INCONSISTENT,
            f"mean acceptance length is {length:.3f} by the total and {by_position:.3f} by the positions",
        )
    if length < NO_DRAFTS_ACCEPTED_BELOW:
        return Judgement(
            Verdict.DRAFTS_REJECTED,
            f"mean acceptance length is {length:.3f}: hardly a draft is accepted, so the head was not loaded "
            "or was made for another model; check spec.head and spec.model",
        )
    if threshold is not None and length < threshold:
        return Judgement(
            Verdict.BELOW_THRESHOLD,
            f"mean acceptance length is {length:.3f}, below degradedBelow.meanAcceptanceLength {threshold:g}",
        )
    return Judgement(Verdict.HEALTHY, f"mean acceptance length is {length:.3f} over {counts.drafts} drafts")
