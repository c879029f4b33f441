"""From a termination message to a stage's result, or to a sentence that says why it isn't one. Nothing raises."""

from __future__ import annotations

from dataclasses import dataclass

from mtp_trainer.contract import FailureResult, Stage, StageResult, parse_result

_EXCERPT = 200


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
    return result


def read_failure(stage: Stage, text: str) -> FailureResult | None:
    """Why a pod of ``stage`` gave up, if it could still say so."""
    result = read_result(stage, text)
    return result if isinstance(result, FailureResult) else None


def excerpt(text: str) -> str:
    """The end of a log: the last lines hold the error."""
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else "…" + line[-_EXCERPT:]
