"""``demo/result.json``: what was measured, for programs."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def result_of(fine_tune: Json, serving: Json) -> Json:
    """The figures of both objects' status. Lengths in tokens per verifier step, rates by draft position."""
    evaluation = fine_tune["status"]["evaluation"]
    return {
        "shipped": _figures(evaluation["shipped"]),
        "tuned": _figures(evaluation["tuned"]),
        "served": _figures(serving["status"]["acceptance"]),
        "outputParity": bool(evaluation.get("outputParity")),
    }


def _figures(acceptance: Json) -> Json:
    return {
        "meanAcceptanceLength": float(acceptance["meanAcceptanceLength"]),
        "positions": [float(position["rate"]) for position in acceptance["positions"]],
        "drafts": acceptance["drafts"],
    }


def is_better(result: Json) -> bool:
    """Whether the demo shows what it is there to show; the gate itself has passed already."""
    longer = result["tuned"]["meanAcceptanceLength"] > result["shipped"]["meanAcceptanceLength"]
    return longer and result["outputParity"]
