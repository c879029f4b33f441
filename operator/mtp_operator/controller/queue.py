"""The work queue: kopf's ``on.event`` handlers only say *look at this*, and are neither retried nor de-duplicated.

Retries, back-off, delayed looks and the limit of concurrent work are here. Every look is a whole reconcile of one
object, so it doesn't matter how many events made it due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from mtp_operator.controller.backoff import Backoff
from mtp_operator.controller.schedule import Schedule
from mtp_operator.kube.verbs import Kind, KubeError

logger = logging.getLogger(__name__)


class Key(NamedTuple):
    """One object of ours."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


Reconcile = Callable[[Key], Awaitable[float | None]]
"""Looks at an object; returns seconds until the next look, ``None`` for *at the next event*."""


class Observer(Protocol):
    """Who wants to know how work went; see :mod:`mtp_operator.controller.metrics`."""

    def worked(self, kind: str, result: str, seconds: float) -> None: ...


class WorkQueue:
    """Works off keys, several at a time and never one key twice at once.

    Args:
        reconcile: does the work.
        observer: is told of every piece of work.
        workers: how many keys at once.
        limit_seconds: longest time for one piece of work; a hanging request must not hold a worker for ever.
        backoff: waits after failures.
        clock: seconds; defaults to the event loop's.
    """

    def __init__(
        self,
        reconcile: Reconcile,
        observer: Observer,
        workers: int = 8,
        limit_seconds: float = 120.0,
        backoff: Backoff | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._reconcile = reconcile
        self._observer = observer
        self._workers = workers
        self._limit_seconds = limit_seconds
        self._backoff = backoff or Backoff()
        self._clock = clock or asyncio.get_running_loop().time
        self.schedule: Schedule[Key] = Schedule(self._clock)
        self._changed = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()

    def add(self, key: Key, after_seconds: float = 0.0) -> None:
        """Have ``key`` looked at."""
        self.schedule.add(key, after_seconds)
        self._changed.set()

    async def run(self, grace_seconds: float = 10.0) -> None:
        """Work until cancelled; then let what has begun end, for at most ``grace_seconds``."""
        slots = asyncio.Semaphore(self._workers)
        try:
            while True:
                await slots.acquire()
                task = asyncio.create_task(self._work_on(await self._next()))
                self._work.add(task)
                task.add_done_callback(self._work.discard)
                task.add_done_callback(lambda _: slots.release())
        finally:
            await self._drain(grace_seconds)

    async def _next(self) -> Key:
        """The next key, as soon as one is due."""
        while True:
            self._changed.clear()
            key = self.schedule.take()
            if key is not None:
                return key
            try:
                async with asyncio.timeout(self.schedule.wait_seconds()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _work_on(self, key: Key) -> None:
        begun, result = self._clock(), "error"
        try:
            async with asyncio.timeout(self._limit_seconds):
                after_seconds = await self._reconcile(key)
        except Exception as error:  # whatever it was: this object is looked at again, and the others go on
            self._retry(key, error)
        else:
            result = "success"
            self._backoff.succeeded(key)
            if after_seconds is not None:
                self.schedule.add(key, after_seconds)
        finally:
            self.schedule.done(key)
            self._changed.set()
            self._observer.worked(key.kind.kind, result, self._clock() - begun)

    def _retry(self, key: Key, error: Exception) -> None:
        asked = error.retry_after_seconds if isinstance(error, KubeError) else None
        wait = self._backoff.failed(key, asked)
        self.schedule.add(key, wait)
        if isinstance(error, KubeError | TimeoutError):
            what = str(error) or f"no end after {self._limit_seconds:g} s"
            logger.warning("%s: %s; looking again in %.1f s", key, what, wait)
        else:
            logger.error("%s: unexpected; looking again in %.1f s", key, wait, exc_info=error)

    async def _drain(self, grace_seconds: float) -> None:
        if not self._work:
            return
        _, late = await asyncio.wait(self._work, timeout=grace_seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
