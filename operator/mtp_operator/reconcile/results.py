"""From a termination message to a stage's result, or to a sentence that says why it isn't one. Nothing raises."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mtp_trainer.contract import AcceptanceCounts, EvaluateResult, FailureResult, Stage, StageResult, parse_result

_EXCERPT = 200
_MAX_COUNT = 2**63


@dataclass(frozen=True)
class Unreadable:
    """A message that is not a result."""

    message: str


def read_result(stage: Stage, text: str) -> StageResult | Unreadable:
    """The result that a pod of ``stage`` left."""
    if not text.strip():
        return Unreadable("the pod left no termination message")
    try:
        result = parse_result(text)
    except (ValueError, RecursionError):
        return Unreadable(f"the termination message is not a result of {stage}: {excerpt(text)}")
    if result.stage is not stage:
        return Unreadable(f"the termination message is a result of {result.stage}, not of {stage}")
    if isinstance(result, EvaluateResult) and not all(_possible(counts) for counts in _all_counts(result)):
        return Unreadable(
            "the result's counts contradict each other: a position has more accepted drafts than the last"
        )
    return result


def _all_counts(result: EvaluateResult) -> list[AcceptanceCounts]:
    sets = [result.domain, *([result.general] if result.general else [])]
    return [counts for measured in sets for counts in (measured.shipped, measured.tuned)]


def _possible(counts: AcceptanceCounts) -> bool:
    """Whether an engine can have counted this: no position has more than the one before it."""
    row = (counts.drafts, *counts.accepted)
    return row[0] < _MAX_COUNT and row[-1] >= 0 and all(later <= earlier for earlier, later in pairwise(row))


def read_failure(stage: Stage, text: str) -> FailureResult | None:
    """Why a pod of ``stage`` gave up, if it could still say so."""
    result = read_result(stage, text)
    return result if isinstance(result, FailureResult) else None


def excerpt(text: str) -> str:
    """The end of a log: the last lines hold the error."""
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else "…" + line[-_EXCERPT:]
