"""Intervals by resampling prompts.

Drafts of one answer are alike, so they aren't independent trials: the prompt is the unit that is drawn. Both heads see
the same prompts, and a resample takes the same ones for both, which removes the prompts' own variation from the
difference (paired bootstrap, percentile interval: Efron and Tibshirani, An Introduction to the Bootstrap, ch. 13).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mtp_trainer.contract import AcceptanceCounts
from mtp_trainer.measurements import HeadMeasurement, Interval, SetMeasurement, summed

RESAMPLES = 2000
LEVEL = 0.95


def compare(
    shipped: Sequence[AcceptanceCounts], tuned: Sequence[AcceptanceCounts], depth: int, seed: int
) -> SetMeasurement:
    """Both heads with intervals, from per-prompt counts in the same order.

    Args:
        shipped, tuned: one entry per prompt.
        depth: number of speculative tokens.
        seed: of the resampling.
    """
    draws = np.random.default_rng(seed).integers(0, len(shipped), size=(RESAMPLES, len(shipped)))
    before, after = _rates(shipped, depth, draws), _rates(tuned, depth, draws)
    return SetMeasurement(
        prompts=len(shipped),
        shipped=_head(shipped, before),
        tuned=_head(tuned, after),
        improvement=_interval(
            (summed(tuned).mean_acceptance_length or 1.0) - (summed(shipped).mean_acceptance_length or 1.0),
            after.sum(1) - before.sum(1),
        ),
    )


def _rates(counts: Sequence[AcceptanceCounts], depth: int, draws: NDArray[np.int64]) -> NDArray[np.float64]:
    """``[resamples, depth]`` rates per position, sums before quotients."""
    drafts = np.array([c.drafts for c in counts], dtype=float)
    accepted = np.array([[*c.accepted, *[0] * depth][:depth] for c in counts], dtype=float)
    totals = drafts[draws].sum(1)
    # A resample may draw only prompts without drafts; it says nothing, which is a rate of 0 over 1.
    rates: NDArray[np.float64] = accepted[draws].sum(1) / np.maximum(totals, 1.0)[:, None]
    return rates


def _head(counts: Sequence[AcceptanceCounts], rates: NDArray[np.float64]) -> HeadMeasurement:
    total = summed(counts)
    return HeadMeasurement(
        counts=total,
        rates=tuple(_interval(rate, rates[:, i]) for i, rate in enumerate(total.rates)),
        mean_acceptance_length=_interval(total.mean_acceptance_length or 1.0, 1.0 + rates.sum(1)),
    )


def _interval(value: float, resampled: NDArray[np.float64]) -> Interval:
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(resampled, [tail, 1.0 - tail])
    return Interval(value=value, low=float(low), high=float(high))
