"""Training as curves, from ``history.jsonl``.

Reads what can be read: a killed process may leave half a line, and a report of the rest is better than none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Validation:
    """Acceptance predicted on held-out rows after ``step`` optimiser steps; step 0 is the shipped head."""

    step: int
    drafts: int
    rates: tuple[float, ...]
    """Unconditional, per position."""
    mean_acceptance_length: float


@dataclass(frozen=True)
class Step:
    """One optimiser step."""

    step: int
    loss: float
    step_losses: tuple[float, ...]
    """Of each step of the recursion, before step weights."""
    learning_rate: float | None


@dataclass(frozen=True)
class Curves:
    """Both kinds of lines, each in the order of steps."""

    steps: tuple[Step, ...]
    validations: tuple[Validation, ...]


def read_curves(path: Path) -> Curves | None:
    """The curves, or ``None`` without the file or without a usable line in it."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    steps: dict[int, Step] = {}
    validations: dict[int, Validation] = {}
    for line in text.splitlines():
        try:
            record = json.loads(line)
            if "validation" in record:
                validations[int(record["step"])] = _validation(record)
            else:
                steps[int(record["step"])] = _step(record)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    if not steps and not validations:
        return None
    return Curves(
        steps=tuple(steps[number] for number in sorted(steps)),
        validations=tuple(validations[number] for number in sorted(validations)),
    )


def moving_mean(values: Sequence[float], window: int) -> list[float]:
    """Mean of the ``window`` values around each, of fewer near the ends."""
    sums = [0.0, *accumulate(values)]
    half = window // 2
    means = []
    for i in range(len(values)):
        first, last = max(0, i - half), min(len(values), i + half + 1)
        means.append((sums[last] - sums[first]) / (last - first))
    return means


def _validation(record: dict[str, Any]) -> Validation:
    figures = record["validation"]
    drafts = int(figures["drafts"])
    return Validation(
        step=int(record["step"]),
        drafts=drafts,
        rates=tuple(int(accepted) / drafts for accepted in figures["accepted"]) if drafts else (),
        mean_acceptance_length=_finite(figures["meanAcceptanceLength"]),
    )


def _step(record: dict[str, Any]) -> Step:
    rate = record.get("learningRate")
    return Step(
        step=int(record["step"]),
        loss=_finite(record["loss"]),
        step_losses=tuple(_finite(loss) for loss in record.get("stepLosses", ())),
        learning_rate=None if rate is None else _finite(rate),
    )


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} can't be drawn")
    return number
