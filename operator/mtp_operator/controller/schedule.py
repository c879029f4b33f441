"""Which key is next, and when: the work queue's state, without tasks or time of its own.

A key is scheduled at most once and worked on by at most one worker. What is added while it's being worked on waits
until that ends, so no event is lost and no two workers meet.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)


class Schedule(Generic[KeyT]):
    """Keys by the time at which they are due.

    Args:
        clock: seconds, from any origin; never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[KeyT, float] = {}
        self._heap: list[tuple[float, int, KeyT]] = []
        self._order = count()
        self._begun: dict[KeyT, float] = {}

    def add(self, key: KeyT, after_seconds: float = 0.0) -> None:
        """Schedule ``key``; the earlier time wins when it is scheduled already."""
        due = self._clock() + max(0.0, after_seconds)
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        if key not in self._begun:
            self._push(key)

    def take(self) -> KeyT | None:
        """Begin with the key that has been due longest; ``None`` when none is."""
        self._drop_outdated()
        if not self._heap or self._heap[0][0] > self._clock():
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._begun[key] = self._clock()
        return key

    def done(self, key: KeyT) -> None:
        """The work that :meth:`take` began has ended."""
        del self._begun[key]
        if key in self._due:
            self._push(key)

    def wait_seconds(self) -> float | None:
        """Until the next key is due; ``None`` when only :meth:`add` or :meth:`done` can change anything."""
        self._drop_outdated()
        return max(0.0, self._heap[0][0] - self._clock()) if self._heap else None

    @property
    def depth(self) -> int:
        """Keys that are due and that nobody works on."""
        now = self._clock()
        return sum(due <= now and key not in self._begun for key, due in self._due.items())

    @property
    def active(self) -> int:
        """Keys being worked on."""
        return len(self._begun)

    @property
    def longest_active_seconds(self) -> float:
        """Age of the oldest work that hasn't ended."""
        return self._clock() - min(self._begun.values()) if self._begun else 0.0

    def _push(self, key: KeyT) -> None:
        heapq.heappush(self._heap, (self._due[key], next(self._order), key))

    def _drop_outdated(self) -> None:
        """Entries stay in the heap when their key is scheduled earlier or begun; they no longer say its time."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) == due and key not in self._begun:
                return
            heapq.heappop(self._heap)
