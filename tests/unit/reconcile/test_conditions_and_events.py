"""Conditions keep their times, and changes that matter become Events."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mtp_operator.reconcile.conditions import Wanted, conditions_of, set_condition
from mtp_operator.reconcile.events import notes


def test_the_time_of_transition_stays_while_the_status_does(now: datetime) -> None:
    first = set_condition([], Wanted("Ready", "False", "A", "a"), 1, now)
    second = set_condition(first, Wanted("Ready", "False", "B", "b"), 2, now + timedelta(hours=1))
    third = set_condition(second, Wanted("Ready", "True", "C", "c"), 2, now + timedelta(hours=2))
    assert [c[0]["lastTransitionTime"][11:16] for c in (first, second, third)] == ["12:00", "12:00", "14:00"]
    assert second[0]["observedGeneration"] == 2


def test_a_condition_stays_in_its_place_beside_others(now: datetime) -> None:
    both = conditions_of([], [Wanted("A", "True", "x"), Wanted("B", "True", "x")], 1, now)
    assert [c["type"] for c in set_condition(both, Wanted("A", "False", "y"), 1, now)] == ["A", "B"]


def test_a_condition_that_is_not_wanted_goes(now: datetime) -> None:
    both = conditions_of([], [Wanted("A", "True", "x"), Wanted("Stalled", "True", "x")], 1, now)
    assert [c["type"] for c in conditions_of(both, [Wanted("A", "True", "x")], 1, now)] == ["A"]


def test_long_messages_are_cut_and_stay_on_one_line(now: datetime) -> None:
    message = set_condition([], Wanted("A", "True", "x", "a\nb" * 9000), 1, now)[0]["message"]
    assert ("\n" in message, len(message)) == (False, 1024)


def entry(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": "m"}


OLD = {"conditions": [entry("Ready", "Unknown", "Accepted"), entry("Prepared", "Unknown", "Accepted")]}


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (entry("Prepared", "True", "Completed"), ("Normal", "Prepared")),
        (entry("Ready", "True", "Completed"), ("Normal", "Ready")),
        (entry("Ready", "False", "ImagePullFailed"), ("Warning", "ImagePullFailed")),
        (entry("Stalled", "True", "GateFailed"), ("Warning", "GateFailed")),
        (entry("AcceptanceHealthy", "False", "BelowThreshold"), ("Warning", "BelowThreshold")),
        (entry("Suspended", "True", "Suspended"), ("Normal", "Suspended")),
        (entry("Ready", "False", "Running"), None),
        (entry("Ready", "False", "Queued"), None),
        (entry("Reconciling", "True", "Running"), None),
        (entry("Succeeded", "False", "GateFailed"), None),
        (entry("Trained", "False", "NotReached"), None),
    ],
)
def test_steps_and_troubles_are_told_and_the_passing_of_time_is_not(new: dict[str, Any], told: Any) -> None:
    assert [(note.kind, note.reason) for note in notes(OLD, {"conditions": [new]})] == ([told] if told else [])


def test_the_same_is_not_told_again() -> None:
    status = {"conditions": [entry("Stalled", "True", "GateFailed")]}
    assert notes(status, status) == []


def test_one_trouble_in_several_conditions_is_told_once() -> None:
    new = {"conditions": [entry(kind, "False", "GateFailed") for kind in ("Ready", "GatePassed")]}
    assert len(notes(OLD, new)) == 1


def test_nothing_is_told_of_a_first_status() -> None:
    assert notes({"observedGeneration": -1}, {"conditions": [entry("Ready", "True", "x")]}) == []
