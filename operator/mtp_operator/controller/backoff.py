"""How long to wait after a failure: exponential per key, with jitter, so that a server that comes back isn't met by all
keys at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 120.0


@dataclass
class Backoff:
    """Failures in a row of each key.

    Attributes:
        uniform: a random number between two bounds.
    """

    uniform: Callable[[float, float], float] = random.uniform
    _failures: dict[Hashable, int] = field(default_factory=dict)

    def failed(self, key: Hashable, at_least_seconds: float | None = None) -> float:
        """Count a failure; seconds to wait, not less than what the server asked for."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # The exponent is bounded before it is used: 2.0 ** 1024 is an OverflowError after a long outage.
        wait = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures, 16))
        wait *= self.uniform(0.5, 1.0)
        return max(wait, at_least_seconds or 0.0)

    def succeeded(self, key: Hashable) -> None:
        """Begin anew at the next failure."""
        self._failures.pop(key, None)
