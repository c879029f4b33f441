"""Intervals: what they cover, what pairing removes, and what is summed before it is divided."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mtp_trainer.contract import AcceptanceCounts
from mtp_trainer.evaluate.bootstrap import compare
from mtp_trainer.measurements import Interval

DEPTH = 2


def counts(*pairs: tuple[int, int]) -> list[AcceptanceCounts]:
    """Drafts and accepted at position 0, by prompt; nothing is accepted at position 1."""
    return [AcceptanceCounts(drafts=drafts, accepted=(accepted, 0)) for drafts, accepted in pairs]


def width(interval: Interval) -> float:
    return interval.high - interval.low


def simulated(random: np.random.Generator, gain: float) -> tuple[list[AcceptanceCounts], list[AcceptanceCounts]]:
    """Both heads on 80 prompts of which each has its own length and difficulty; ``gain`` is what tuning adds."""
    shipped, tuned = [], []
    for ease, drafts in zip(random.beta(4, 4, size=80), random.integers(5, 60, size=80), strict=True):
        for head, extra in ((shipped, 0.0), (tuned, gain)):
            first = random.binomial(drafts, min(1.0, ease + extra))
            head.append(AcceptanceCounts(drafts=int(drafts), accepted=(int(first), int(random.binomial(first, 0.5)))))
    return shipped, tuned


def test_intervals_cover_the_truth_as_often_as_they_promise() -> None:
    random = np.random.default_rng(5)
    # The easiest prompts lose a part of the gain, since nothing is accepted more often than always.
    gain = 0.1
    ease = random.beta(4, 4, size=1_000_000)
    rates = ease.mean(), np.minimum(1.0, ease + gain).mean()
    lengths = [1 + 1.5 * rate for rate in rates]
    covered = {"shipped": 0, "tuned": 0, "improvement": 0}
    repetitions = 200
    for seed in range(repetitions):
        measured = compare(*simulated(random, gain), DEPTH, seed)
        for name, truth, interval in (
            ("shipped", lengths[0], measured.shipped.mean_acceptance_length),
            ("tuned", lengths[1], measured.tuned.mean_acceptance_length),
            ("improvement", lengths[1] - lengths[0], measured.improvement),
        ):
            covered[name] += interval.low <= truth <= interval.high
    assert all(0.9 <= times / repetitions <= 0.99 for times in covered.values()), covered


def test_the_prompt_is_the_unit_that_is_drawn() -> None:
    alike = compare(counts(*[(20, 20), (20, 0)] * 20), counts(*[(20, 10)] * 40), DEPTH, 1)
    same_totals = compare(counts(*[(20, 10)] * 40), counts(*[(20, 10)] * 40), DEPTH, 1)
    assert width(alike.shipped.rates[0]) > 0.2
    assert width(same_totals.shipped.rates[0]) == 0


def test_pairing_removes_what_prompts_differ_in() -> None:
    shipped = [(100, accepted) for accepted in range(0, 90, 3)]
    tuned = [(100, accepted + 10) for _, accepted in shipped]
    measured = compare(counts(*shipped), counts(*tuned), DEPTH, 1)
    assert width(measured.shipped.mean_acceptance_length) > 0.15
    assert measured.improvement.low == pytest.approx(0.1)
    assert measured.improvement.high == pytest.approx(0.1)


def test_counts_are_summed_before_they_are_divided() -> None:
    short_and_long = counts((1, 1), (99, 0))
    measured = compare(short_and_long, short_and_long, DEPTH, 1)
    assert measured.shipped.mean_acceptance_length.value == pytest.approx(1.01)
    assert measured.shipped.rates[0].value == pytest.approx(0.01)
    assert measured.shipped.counts == AcceptanceCounts(drafts=100, accepted=(1, 0))


@pytest.mark.parametrize("seed", [1, 2])
def test_an_interval_contains_its_value_and_depends_only_on_the_seed(seed: int) -> None:
    shipped, tuned = simulated(np.random.default_rng(3), 0.1)
    measured = compare(shipped, tuned, DEPTH, seed)
    assert measured == compare(shipped, tuned, DEPTH, seed)
    assert measured != compare(shipped, tuned, DEPTH, seed + 1)
    heads = (measured.shipped, measured.tuned)
    intervals = [measured.improvement, *(head.mean_acceptance_length for head in heads), *heads[0].rates]
    assert all(interval.low < interval.value < interval.high for interval in intervals)


def test_a_worse_head_has_a_negative_improvement() -> None:
    measured = compare(counts(*[(10, 8)] * 5), counts(*[(10, 5)] * 5), DEPTH, 1)
    improvement = measured.improvement
    assert [improvement.low, improvement.value, improvement.high] == pytest.approx([-0.3] * 3)


def no_drafts(prompts: int) -> Sequence[AcceptanceCounts]:
    return [AcceptanceCounts(drafts=0, accepted=(0, 0))] * prompts


def test_without_drafts_a_step_writes_one_token() -> None:
    measured = compare(no_drafts(3), no_drafts(3), DEPTH, 1)
    assert measured.shipped.mean_acceptance_length == Interval(value=1.0, low=1.0, high=1.0)
    assert measured.shipped.rates == ()
    assert measured.improvement == Interval(value=0.0, low=0.0, high=0.0)


def test_prompts_without_drafts_say_nothing_about_the_rate() -> None:
    measured = compare([*no_drafts(1), *counts(*[(10, 5)] * 9)], counts(*[(10, 5)] * 10), DEPTH, 1)
    assert measured.shipped.rates[0] == Interval(value=0.5, low=0.5, high=0.5)


def test_positions_that_a_server_does_not_name_count_as_never_accepted() -> None:
    shallow = [AcceptanceCounts(drafts=10, accepted=(5,))] * 4
    measured = compare(shallow, counts(*[(10, 5)] * 4), DEPTH, 1)
    assert measured.improvement == Interval(value=0.0, low=0.0, high=0.0)
