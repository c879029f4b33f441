"""How figures are written: one way on the page, in charts and in tables, so that they can be compared by eye."""

from __future__ import annotations

from mtp_trainer.measurements import Interval


def count(value: int) -> str:
    """``12345`` as ``12,345``."""
    return f"{value:,}"


def share(value: float) -> str:
    """A share of 1 in percent."""
    return f"{value:.1%}"


def share_range(interval: Interval) -> str:
    """Both ends of a share's interval."""
    return f"{share(interval.low)} to {share(interval.high)}"


def points(value: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    return f"{_sign(value, 3)}{abs(value) * 100:.1f}"


def length(value: float) -> str:
    """A mean acceptance length in tokens per step."""
    return f"{value:.3f}"


def length_range(interval: Interval) -> str:
    """Both ends of a length's interval."""
    return f"{length(interval.low)} to {length(interval.high)}"


def change(value: float) -> str:
    """A difference of two lengths, with its sign."""
    return f"{_sign(value, 3)}{abs(value):.3f}"


def change_range(interval: Interval) -> str:
    """Both ends of a difference's interval."""
    return f"{change(interval.low)} to {change(interval.high)}"


def ratio(value: float) -> str:
    """A quotient of two speeds."""
    return f"{value:.3f}×"


def significant(value: float) -> str:
    """Four significant digits, for figures whose size isn't known beforehand, such as a loss."""
    return f"{value:.4g}"


def _sign(value: float, decimals: int) -> str:
    """A true minus; nothing before what rounds to zero."""
    rounded = round(value, decimals)
    return "+" if rounded > 0 else "−" if rounded < 0 else ""
