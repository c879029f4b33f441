"""The work queue: nothing lost, nothing twice at once, and no failure that stops the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mtp_operator.controller.backoff import Backoff
from mtp_operator.controller.queue import Key, Reconcile, WorkQueue
from mtp_operator.kube.verbs import FINE_TUNE, SERVING, KubeError

A, B = Key(FINE_TUNE, "team", "a"), Key(FINE_TUNE, "team", "b")


class Work:
    """What the queue told of its work."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def worked(self, kind: str, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.counts[kind, result] += 1


@asynccontextmanager
async def running(queue: WorkQueue) -> AsyncIterator[None]:
    """The queue works for as long as the block runs."""
    task = asyncio.create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(look: Callable[[], bool]) -> None:
    while not look():  # noqa: ASYNC110 -- the queue has no event for each of these
        await asyncio.sleep(0)


def queue_of(reconcile: Reconcile, **given: object) -> WorkQueue:
    """A queue that tries again at once."""
    at_once = Backoff(uniform=lambda low, high: 0.0)
    return WorkQueue(reconcile, Work(), **{"backoff": at_once, **given})  # type: ignore[arg-type]


def once(work: Callable[[Key], Awaitable[None]]) -> Reconcile:
    """Work after which only an event leads to another look."""

    async def reconcile(key: Key) -> None:
        await work(key)

    return reconcile


async def test_events_that_come_before_the_work_begins_lead_to_one_look() -> None:
    seen: list[Key] = []

    async def look(key: Key) -> None:
        seen.append(key)

    queue = queue_of(look)
    for _ in range(50):
        queue.add(A)
    queue.add(B)
    async with running(queue):
        await until(lambda: B in seen)
    assert seen == [A, B]


async def test_an_event_during_the_work_leads_to_exactly_one_more_look() -> None:
    begun, go_on, at_once = 0, asyncio.Event(), 0

    async def look(key: Key) -> None:
        nonlocal begun, at_once
        begun, at_once = begun + 1, at_once + 1
        assert at_once == 1
        await go_on.wait()
        at_once -= 1

    queue = queue_of(look)
    queue.add(A)
    async with running(queue):
        await until(lambda: begun == 1)
        for _ in range(10):
            queue.add(A)
        go_on.set()
        await until(lambda: begun == 2)
        await until(lambda: queue.schedule.active == 0)
        assert queue.schedule.wait_seconds() is None


async def test_no_more_keys_are_worked_on_at_once_than_there_are_workers() -> None:
    go_on = asyncio.Event()
    queue = queue_of(once(lambda _: go_on.wait()), workers=3)
    for number in range(7):
        queue.add(Key(SERVING, "team", str(number)))
    async with running(queue):
        await until(lambda: queue.schedule.active == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (queue.schedule.active, queue.schedule.depth) == (3, 4)
        go_on.set()
        await until(lambda: queue.schedule.active == queue.schedule.depth == 0)


@pytest.mark.parametrize("error", [KubeError(500, "InternalError", ""), TimeoutError(), ValueError("a bug")])
async def test_a_failure_is_tried_again_and_told_and_others_go_on(error: Exception) -> None:
    tries: Counter[Key] = Counter()

    async def look(key: Key) -> None:
        tries[key] += 1
        if key == A and tries[A] < 4:
            raise error

    work = Work()
    queue = WorkQueue(look, work, workers=1, backoff=Backoff(uniform=lambda low, high: 0.0))
    queue.add(A)
    queue.add(B)
    async with running(queue):
        await until(lambda: work.counts["MTPFineTune", "success"] == 2)
    assert tries == {A: 4, B: 1}
    assert work.counts["MTPFineTune", "error"] == 3


async def test_after_a_failure_a_key_waits_for_as_long_as_the_server_asks() -> None:
    async def busy(_: Key) -> None:
        raise KubeError(429, "TooManyRequests", "", retry_after_seconds=33)

    queue = queue_of(busy, clock=lambda: 0.0)
    queue.add(A)
    async with running(queue):
        await until(lambda: queue.schedule.wait_seconds() == 33)


async def test_an_event_does_not_wait_for_the_end_of_a_failures_wait() -> None:
    tries = 0

    async def fail_once(_: Key) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise KubeError(503, "ServiceUnavailable", "", retry_after_seconds=600)

    queue = queue_of(fail_once)
    queue.add(A)
    async with running(queue):
        await until(lambda: tries == 1)
        queue.add(A)
        await until(lambda: tries == 2)


async def test_a_look_says_when_the_next_one_is_due() -> None:
    async def look(_: Key) -> float:
        return 42

    queue = queue_of(look, clock=lambda: 0.0)
    queue.add(A)
    async with running(queue):
        await until(lambda: queue.schedule.wait_seconds() == 42)


async def test_work_without_an_end_is_ended_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    begun = 0

    async def hang(_: Key) -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    queue = queue_of(hang, limit_seconds=0.01)
    queue.add(A)
    async with running(queue):
        await until(lambda: begun == 3)
    assert "MTPFineTune team/a: no end after 0.01 s" in caplog.text


async def test_what_has_begun_when_the_queue_stops_comes_to_its_end() -> None:
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), []

    async def look(key: Key) -> None:
        begun.set()
        await go_on.wait()
        ended.append(key)

    queue = queue_of(look, workers=1)
    queue.add(A)
    queue.add(B)
    task = asyncio.create_task(queue.run())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    assert ended == [A], "B had not begun"


async def test_what_does_not_end_in_the_grace_time_is_cut_off_and_counts_as_no_success() -> None:
    begun, work = asyncio.Event(), Work()

    async def hang(_: Key) -> None:
        begun.set()
        await asyncio.Event().wait()

    queue = WorkQueue(hang, work)
    queue.add(A)
    task = asyncio.create_task(queue.run(grace_seconds=0))
    await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert work.counts == {("MTPFineTune", "error"): 1}
