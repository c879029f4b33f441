"""Which key is next, with a clock that the tests turn."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtp_operator.controller.schedule import Schedule


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def schedule(clock: Clock) -> Schedule[str]:
    return Schedule(clock)


def taken(schedule: Schedule[str]) -> list[str]:
    """All that is due, in order; each is done at once."""
    keys = []
    while (key := schedule.take()) is not None:
        schedule.done(key)
        keys.append(key)
    return keys


def test_what_was_added_often_is_taken_once(schedule: Schedule[str]) -> None:
    for _ in range(100):
        schedule.add("a")
    assert taken(schedule) == ["a"]


def test_keys_come_in_the_order_in_which_they_were_due(schedule: Schedule[str], clock: Clock) -> None:
    schedule.add("late", 3)
    schedule.add("early", 1)
    schedule.add("now")
    assert taken(schedule) == ["now"]
    clock.now += 5
    assert taken(schedule) == ["early", "late"]


def test_of_two_times_the_earlier_counts(schedule: Schedule[str], clock: Clock) -> None:
    schedule.add("a", 60)
    schedule.add("a", 10)
    schedule.add("a", 30)
    assert schedule.wait_seconds() == 10
    clock.now += 10
    assert taken(schedule) == ["a"]
    clock.now += 100
    assert taken(schedule) == []


def test_what_is_being_worked_on_is_not_handed_out_again_until_that_ends(schedule: Schedule[str]) -> None:
    schedule.add("a")
    assert schedule.take() == "a"
    schedule.add("a")
    assert schedule.take() is None
    assert schedule.wait_seconds() is None
    schedule.done("a")
    assert schedule.take() == "a"


def test_an_event_during_the_work_outweighs_the_later_look_that_the_work_asked_for(schedule: Schedule[str]) -> None:
    schedule.add("a")
    schedule.take()
    schedule.add("a")
    schedule.add("a", 600)
    schedule.done("a")
    assert schedule.take() == "a"


def test_a_key_that_is_always_due_lets_the_others_have_their_turn(schedule: Schedule[str]) -> None:
    for key in ("busy", "b", "c"):
        schedule.add(key)
    turns = []
    for _ in range(6):
        key = schedule.take()
        assert key is not None
        turns.append(key)
        if key == "busy":
            schedule.add(key)
        schedule.done(key)
        if key != "busy":
            schedule.add(key)
    assert turns == ["busy", "b", "c", "busy", "b", "c"]


def test_a_time_in_the_past_is_now(schedule: Schedule[str]) -> None:
    schedule.add("first")
    schedule.add("second", -1000)
    assert taken(schedule) == ["first", "second"]


def test_depth_counts_what_is_due_and_waits_for_a_worker(schedule: Schedule[str], clock: Clock) -> None:
    for key, seconds in (("a", 0), ("b", 0), ("c", 10)):
        schedule.add(key, seconds)
    assert (schedule.depth, schedule.active) == (2, 0)
    schedule.take()
    schedule.add("a")
    assert (schedule.depth, schedule.active) == (1, 1)
    clock.now += 10
    assert schedule.depth == 2


def test_the_age_of_work_is_that_of_the_oldest(schedule: Schedule[str], clock: Clock) -> None:
    assert schedule.longest_active_seconds == 0
    for key in ("a", "b"):
        schedule.add(key)
        schedule.take()
        clock.now += 7
    assert schedule.longest_active_seconds == 14
    schedule.done("a")
    assert schedule.longest_active_seconds == 7


steps = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(0, 5)),
    st.tuples(st.just("take"), st.none(), st.none()),
    st.tuples(st.just("done"), st.sampled_from("abc"), st.none()),
    st.tuples(st.just("wait"), st.none(), st.integers(1, 4)),
)


@given(st.lists(steps, max_size=60))
def test_whatever_happens_no_event_is_lost_and_no_key_is_worked_on_twice_at_once(
    steps: list[tuple[str, str, int]],
) -> None:
    clock = Clock()
    schedule: Schedule[str] = Schedule(clock)
    wanted: dict[str, float] = {}  # when each key has to be looked at, by what was added
    working: Counter[str] = Counter()
    for step, key, number in steps:
        if step == "add":
            schedule.add(key, number)
            wanted[key] = min(wanted.get(key, clock.now + number), clock.now + number)
        elif step == "take":
            due = {key for key, at in wanted.items() if at <= clock.now and not working[key]}
            got = schedule.take()
            assert (got in due) if due else (got is None)
            if got is not None:
                assert wanted[got] == min(wanted[key] for key in due)
                del wanted[got]
                working[got] += 1
        elif step == "done" and working[key]:
            schedule.done(key)
            working[key] -= 1
        elif step == "wait":
            clock.now += number
        assert max(working.values(), default=0) <= 1
        assert schedule.active == sum(working.values())
