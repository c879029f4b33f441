"""Observe, decide, act, report: one look at one object. What calls it decides when to look again."""

from mtp_operator.loop.fine_tune import reconcile_fine_tune
from mtp_operator.loop.serving import reconcile_serving
from mtp_operator.measure.store import AcceptanceStore
from mtp_operator.render.defaults import Defaults

__all__ = ["AcceptanceStore", "Defaults", "reconcile_fine_tune", "reconcile_serving"]
