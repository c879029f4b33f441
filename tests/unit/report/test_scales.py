"""From values to places, and labels that don't cover each other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtp_trainer.report.charts.scale import Scale, around, spread, thinned, ticks

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def test_ends_and_middle_of_a_scale_are_where_they_belong() -> None:
    up = Scale(1.0, 3.0, 300.0, 100.0)
    assert (up(1.0), up(2.0), up(3.0)) == (300.0, 200.0, 100.0)


def test_a_scale_of_one_value_divides_by_nothing() -> None:
    assert Scale(2.0, 2.0, 10.0, 20.0)(2.0) == 10.0


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 600, [0, 200, 400, 600]),
        (0.93, 1.21, [1.0, 1.1, 1.2]),
        (-3, 3, [-2, 0, 2]),
        (5, 5, [5]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, about=5 if high != 600 else 4) == pytest.approx(expected)


@given(FINITE, st.floats(1e-3, 1e6), st.integers(5, 10))
def test_there_are_about_as_many_ticks_as_asked_for(low: float, span: float, about: int) -> None:
    found = ticks(low, low + span, about)
    assert 0 < len(found) <= about + 2
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in found)


@given(st.lists(FINITE, min_size=1))
def test_a_range_around_values_holds_them_and_is_never_empty(values: list[float]) -> None:
    low, high = around(values)
    assert low <= min(values)
    assert high >= max(values)
    assert high > low


@given(st.lists(st.floats(0, 270), min_size=1, max_size=9))
def test_spread_labels_keep_their_order_their_distance_and_the_chart(places: list[float]) -> None:
    moved = spread(places, 18, 0, 270)
    assert all(-1e-6 <= place <= 270 + 1e-6 for place in moved)
    ordered = sorted(range(len(places)), key=lambda i: (places[i], i))
    assert all(moved[b] - moved[a] >= 18 - 1e-6 for a, b in itertools.pairwise(ordered))


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread([200.0, 20.0, 100.0], 18, 0, 270) == [200.0, 20.0, 100.0]


@given(st.integers(0, 500), st.integers(2, 60))
def test_thinning_keeps_first_and_last(count: int, most: int) -> None:
    kept = thinned(count, most)
    assert len(kept) <= most
    assert kept == sorted(set(kept))
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)
    if count <= most:
        assert kept == list(range(count))
