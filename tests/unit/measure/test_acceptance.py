"""What counts say: figures, and a verdict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtp_operator.measure.acceptance import Verdict, judge, mean_acceptance_length, positions
from mtp_operator.measure.figures import acceptance_figures, decimal, worth_writing
from mtp_operator.measure.window import WindowCounts

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def counts(drafts: int, *accepted: int, total: int | None = None) -> WindowCounts:
    return WindowCounts(1, 1, drafts, drafts * len(accepted), sum(accepted) if total is None else total, accepted)


@pytest.mark.parametrize(
    ("window", "verdict"),
    [
        (None, Verdict.NOT_READ),
        (counts(0, 0, 0, 0), Verdict.NO_TRAFFIC),
        (counts(499, 400, 300, 200), Verdict.TOO_FEW_DRAFTS),
        (counts(1000, 900, 700), Verdict.POSITIONS_MISSING),
        (counts(1000, 900, 700, 500, total=2500), Verdict.INCONSISTENT),
        (counts(1000, 0, 0, 0), Verdict.DRAFTS_REJECTED),
        (counts(1000, 30, 1, 0), Verdict.DRAFTS_REJECTED),
        (counts(1000, 700, 400, 200), Verdict.BELOW_THRESHOLD),
        (counts(1000, 900, 700, 500), Verdict.HEALTHY),
        (counts(1000, 900, 700, 500, 0), Verdict.HEALTHY),
    ],
)
def test_verdicts(window: WindowCounts | None, verdict: Verdict) -> None:
    assert judge(window, depth=3, min_drafts=500, threshold=2.5).verdict is verdict


def test_no_traffic_is_not_an_acceptance_of_zero() -> None:
    judgement = judge(counts(0, 0, 0, 0), depth=3, min_drafts=1, threshold=2.5)
    assert (judgement.verdict.measured, judgement.verdict) == (False, Verdict.NO_TRAFFIC)


def test_published_figures_satisfy_the_identity() -> None:
    # 1 + .886 + .770 + .663 = 3.32, as published for a tuned head.
    window = counts(1000, 886, 770, 663)
    assert mean_acceptance_length(window) == pytest.approx(3.319)
    assert judge(window, 3, 1, None).verdict is Verdict.HEALTHY


def test_conditional_rates_are_over_the_position_before() -> None:
    rows = positions(counts(1000, 800, 400, 0, 0))
    assert [row.rate for row in rows] == [0.8, 0.4, 0, 0]
    assert [row.conditional for row in rows] == [0.8, 0.5, 0, None]


def test_figures_are_decimal_strings_beside_integers() -> None:
    assert acceptance_figures(counts(12044, 10972, 9322, 7371), "5m", "2026-11-30T12:00:00Z") == {
        "window": "5m",
        "pods": 1,
        "engines": 1,
        "drafts": 12044,
        "draftTokens": 36132,
        "acceptedTokens": 27665,
        "draftAcceptanceRate": "0.766",
        "meanAcceptanceLength": "3.297",
        "positions": [
            {"position": 0, "rate": "0.911", "conditional": "0.911", "accepted": 10972},
            {"position": 1, "rate": "0.774", "conditional": "0.850", "accepted": 9322},
            {"position": 2, "rate": "0.612", "conditional": "0.791", "accepted": 7371},
        ],
        "summary": "0.911/0.774/0.612",
        "lastUpdateTime": "2026-11-30T12:00:00Z",
    }


@pytest.mark.parametrize(("value", "text"), [(0.8971, "0.897"), (-0.0001, "0.000"), (-0.5, "-0.500"), (3, "3.000")])
def test_decimals_have_three_places_and_no_negative_zero(value: float, text: str) -> None:
    assert decimal(value) == text


@pytest.mark.parametrize(
    ("old", "seconds", "verdict_changed", "expected"),
    [
        (None, 0, False, True),
        ({"summary": "0.9"}, 300, False, False),
        ({"summary": "0.8"}, 59, False, False),
        ({"summary": "0.8"}, 60, False, True),
        ({"summary": "0.8"}, 1, True, True),
    ],
    ids=["first", "unchanged", "too-soon", "changed", "verdict"],
)
def test_figures_are_written_on_change_and_at_most_once_a_minute(
    old: dict[str, str] | None, seconds: int, verdict_changed: bool, expected: bool
) -> None:
    last = NOW - timedelta(seconds=seconds)
    assert worth_writing(old, {"summary": "0.9"}, NOW, last, verdict_changed) is expected


@given(st.integers(1, 10**9), st.lists(st.floats(0, 1), max_size=8))
def test_whatever_an_engine_can_count_gets_a_verdict_and_figures(drafts: int, shares: list[float]) -> None:
    accepted, left = [], drafts
    for share in shares:
        left = int(left * share)
        accepted.append(left)
    window = counts(drafts, *accepted)
    verdict = judge(window, len(accepted), 1, 2.0).verdict
    assert verdict in (Verdict.HEALTHY, Verdict.BELOW_THRESHOLD, Verdict.DRAFTS_REJECTED)
    assert acceptance_figures(window, "5m", "")["drafts"] == drafts
