"""From values to places: linear scales, round ticks, labels that don't cover each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps ``low`` to ``start`` and ``high`` to ``end``; a vertical scale has ``start`` below ``end``."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.end - self.start) if span else self.start


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) from ``low`` to ``high``, about so many."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def around(values: Sequence[float], padding: float = 0.08) -> tuple[float, float]:
    """A range that holds all values with some air, never empty."""
    low, high = min(values), max(values)
    air = (high - low) * padding or abs(high) * padding or 1.0
    return low - air, high + air


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move places apart until neighbours are ``gap`` apart, inside ``low`` to ``high`` where there is room.

    The order stays, and a place that has room stays where it is.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    floor = low
    for i in order:
        moved[i] = max(moved[i], floor)
        floor = moved[i] + gap
    ceiling = high
    for i in reversed(order):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - gap
    return moved


def thinned(count: int, most: int) -> list[int]:
    """At most ``most`` indices below ``count``, evenly apart, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})
