"""Counts of a window: differences per pod and engine, restarts seen, then summed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtp_operator.measure.counters import Counters
from mtp_operator.measure.store import AcceptanceStore
from mtp_operator.measure.window import Sample, WindowCounts, count_window, difference

START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def counters(drafts: int, *accepted: int) -> Counters:
    return Counters(drafts, 3 * drafts, sum(accepted), accepted)


def sample(seconds: float, pod: str, **engines: Counters) -> Sample:
    return Sample(at(seconds), pod, engines)


def test_a_window_is_the_difference_of_its_ends() -> None:
    samples = [sample(0, "a", e0=counters(100, 90, 70, 50)), sample(60, "a", e0=counters(300, 270, 200, 140))]
    assert count_window(samples, START) == WindowCounts(1, 1, 200, 600, 400, (180, 130, 90))


def test_pods_and_engines_are_summed_not_averaged() -> None:
    samples = [
        sample(0, "a", e0=counters(0, 0), e1=counters(0, 0)),
        sample(0, "b", e0=counters(0, 0)),
        sample(60, "a", e0=counters(1000, 900), e1=counters(10, 0)),
        sample(60, "b", e0=counters(990, 890)),
    ]
    counts = count_window(samples, START)
    assert counts == WindowCounts(2, 3, 2000, 6000, 1790, (1790,))


def test_one_reading_is_no_window() -> None:
    assert count_window([sample(0, "a", e0=counters(100, 90))], START) is None


def test_the_last_reading_before_the_window_is_where_it_begins() -> None:
    samples = [
        sample(0, "a", e0=counters(100, 90)),
        sample(60, "a", e0=counters(200, 180)),
        sample(120, "a", e0=counters(300, 270)),
    ]
    counts = count_window(samples, at(90))
    assert counts is not None
    assert counts.drafts == 100


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (counters(100, 90, 50), counters(150, 130, 70), counters(50, 40, 20)),
        (counters(100, 90, 50), counters(20, 18, 10), counters(20, 18, 10)),
        (counters(100, 90, 50), counters(120, 80, 50), counters(120, 80, 50)),
        (counters(100, 90, 50), counters(120, 95), counters(120, 95)),
        (None, counters(20, 18), counters(20, 18)),
        (counters(0), counters(20, 18), Counters(20, 60, 18, (18,))),
    ],
    ids=["risen", "restarted", "one-fell", "position-gone", "new-engine", "position-new"],
)
def test_a_counter_that_fell_began_again_at_zero(before: Counters | None, after: Counters, expected: Counters) -> None:
    assert difference(before, after) == expected


def test_a_restart_inside_the_window_loses_only_what_was_never_read() -> None:
    samples = [
        sample(0, "a", e0=counters(1000, 900)),
        sample(60, "a", e0=counters(1100, 990)),
        sample(120, "a", e0=counters(40, 36)),
    ]
    counts = count_window(samples, START)
    assert counts is not None
    assert (counts.drafts, counts.accepted) == (140, (126,))


def test_a_pod_under_a_new_uid_begins_with_its_first_reading() -> None:
    samples = [
        sample(0, "a", e0=counters(1000, 900)),
        sample(60, "a", e0=counters(1100, 990)),
        sample(60, "b", e0=counters(7000, 10)),
        sample(120, "b", e0=counters(7010, 19)),
    ]
    counts = count_window(samples, START)
    assert counts is not None
    assert (counts.drafts, counts.accepted) == (110, (99,))


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=2, max_size=20))
def test_counts_are_never_negative(readings: list[tuple[int, int]]) -> None:
    samples = [sample(10 * i, "a", e0=counters(drafts, accepted)) for i, (drafts, accepted) in enumerate(readings)]
    counts = count_window(samples, START)
    assert counts is not None
    assert min(counts.drafts, counts.accepted_tokens, *counts.accepted) >= 0


def test_the_store_keeps_a_window_and_its_beginning() -> None:
    store = AcceptanceStore()
    store.begin("s", "one")
    for minute in range(10):
        store.add("s", at(60 * minute), [sample(60 * minute, "a", e0=counters(minute, 0))], at(60 * minute - 180))
    assert [s.at for s in store.samples("s")] == [at(60 * minute) for minute in (5, 6, 7, 8, 9)]


def test_the_store_drops_a_pod_that_is_no_longer_read() -> None:
    store = AcceptanceStore()
    store.add("s", at(0), [sample(0, "gone", e0=counters(1, 0))], at(-60))
    store.add("s", at(600), [sample(600, "a", e0=counters(1, 0))], at(540))
    assert {s.pod for s in store.samples("s")} == {"a"}


def test_a_new_epoch_begins_empty_and_the_same_goes_on() -> None:
    store = AcceptanceStore()
    store.begin("s", "one")
    store.add("s", at(0), [sample(0, "a", e0=counters(1, 0))], at(-60))
    store.begin("s", "one")
    assert store.read_at("s") == at(0)
    store.begin("s", "two")
    assert (store.samples("s"), store.read_at("s")) == ([], None)
