"""Figures for a status: decimal strings of three places, next to the integers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mtp_operator.measure.acceptance import mean_acceptance_length, positions
from mtp_operator.measure.window import WindowCounts

MIN_SECONDS_BETWEEN_WRITES = 60


def decimal(value: float, places: int = 3) -> str:
    """``0.8971`` to ``0.897``."""
    text = f"{value:.{places}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def summary(rates: Sequence[float], places: int = 3) -> str:
    """``0.897/0.719/0.476``."""
    return "/".join(decimal(rate, places) for rate in rates)


def acceptance_figures(counts: WindowCounts, window: str, at: str) -> dict[str, Any]:
    """``status.acceptance`` of a serving."""
    rows = positions(counts)
    length = mean_acceptance_length(counts)
    figures: dict[str, Any] = {
        "window": window,
        "pods": counts.pods,
        "engines": counts.engines,
        "drafts": counts.drafts,
        "draftTokens": counts.draft_tokens,
        "acceptedTokens": counts.accepted_tokens,
        "positions": [
            {
                "position": row.position,
                "rate": decimal(row.rate),
                **({} if row.conditional is None else {"conditional": decimal(row.conditional)}),
                "accepted": row.accepted,
            }
            for row in rows
        ],
        "summary": summary([row.rate for row in rows]),
        "lastUpdateTime": at,
    }
    if length is not None:
        figures["meanAcceptanceLength"] = decimal(length)
    if counts.draft_tokens:
        figures["draftAcceptanceRate"] = decimal(counts.accepted_tokens / counts.draft_tokens)
    return figures


def worth_writing(
    old: dict[str, Any] | None, new: dict[str, Any], now: datetime, last_write: datetime | None, verdict_changed: bool
) -> bool:
    """Whether new figures replace the old ones in a status.

    They do when something a person would see changed, at most once a minute; a change of verdict doesn't wait. Counts
    alone change all the time, and each write wakes everyone who watches the object.
    """
    if not old or last_write is None or verdict_changed:
        return True
    shown = ("summary", "meanAcceptanceLength", "pods", "engines", "window")
    changed = any(old.get(key) != new.get(key) for key in shown)
    return changed and now - last_write >= timedelta(seconds=MIN_SECONDS_BETWEEN_WRITES)
