"""Each objective as a function of per-anchor terms."""

from __future__ import annotations

from mtp_trainer.contract.configs import Objective

AUTO_OBJECTIVE: Objective = "LK"
"""What ``Auto`` means: within measurement of the best on a warm head, and safe from a cold one."""


def resolve(objective: Objective) -> Objective:
    """The objective that ``Auto`` stands for; any other unchanged."""
    return AUTO_OBJECTIVE if objective == "Auto" else objective
