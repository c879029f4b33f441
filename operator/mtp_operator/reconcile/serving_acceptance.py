"""The acceptance part of a serving's status: figures that are worth a write, and two conditions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mtp_operator.api.conditions import ServingCondition, ServingReason
from mtp_operator.measure.acceptance import Verdict, judge
from mtp_operator.measure.figures import acceptance_figures, worth_writing
from mtp_operator.reconcile import read
from mtp_operator.reconcile.conditions import FALSE, TRUE, UNKNOWN, Wanted
from mtp_operator.reconcile.fine_tune_run import InvalidSpec
from mtp_operator.reconcile.serving_run import Serving, ServingObserved

_REASONS: dict[Verdict, str] = {
    Verdict.NOT_READ: ServingReason.NO_TRAFFIC,
    Verdict.NO_TRAFFIC: ServingReason.NO_TRAFFIC,
    Verdict.TOO_FEW_DRAFTS: ServingReason.TOO_FEW_DRAFTS,
    Verdict.INCONSISTENT: ServingReason.INCONSISTENT,
    Verdict.POSITIONS_MISSING: ServingReason.POSITIONS_MISSING,
    Verdict.DRAFTS_REJECTED: ServingReason.DRAFTS_REJECTED,
    Verdict.BELOW_THRESHOLD: ServingReason.BELOW_THRESHOLD,
    Verdict.HEALTHY: ServingReason.HEALTHY,
}
_WRONG = (Verdict.INCONSISTENT, Verdict.POSITIONS_MISSING)


@dataclass(frozen=True)
class Acceptance:
    """``figures`` is what the status shows: new ones, or the previous ones while those will do."""

    figures: dict[str, Any] | None
    measured: Wanted
    healthy: Wanted


def acceptance(serving: Serving, observed: ServingObserved, same_template: bool, now: datetime) -> Acceptance:
    """What to say of acceptance now.

    Args:
        serving: the serving, with a readable spec.
        observed: with the window's counts.
        same_template: whether the figures in the status are of the pods that run now. A window without enough drafts
            keeps them; other pods, with perhaps another head, don't.
        now: the time.

    Raises:
        ValueError: the spec can't be read.
    """
    if isinstance(serving.spec, InvalidSpec):
        raise ValueError(serving.spec.message)
    asked = serving.spec.acceptance
    depth = serving.spec.speculative.num_speculative_tokens
    threshold = float(asked.degraded_below.mean_acceptance_length) if asked.degraded_below is not None else None
    judgement = judge(observed.window, depth if isinstance(depth, int) else 1, asked.min_drafts, threshold)
    verdict = judgement.verdict
    if observed.window is None and observed.scrape_failure is not None:
        measured = Wanted(
            ServingCondition.ACCEPTANCE_MEASURED, FALSE, ServingReason.SCRAPE_FAILED, observed.scrape_failure
        )
        healthy = Wanted(ServingCondition.ACCEPTANCE_HEALTHY, UNKNOWN, measured.reason, measured.message)
    else:
        measured, healthy = _conditions(verdict, judgement.message)
    old = dict(read.mapping(serving.previous, "acceptance")) if same_template else {}
    if observed.window is None or not verdict.measured:
        return Acceptance(old or None, measured, healthy)
    new = acceptance_figures(observed.window, asked.window, read.format_time(now))
    before = read.condition(serving.previous, ServingCondition.ACCEPTANCE_HEALTHY, "conditions")
    changed = read.text(before, "reason") != healthy.reason
    if worth_writing(old, new, now, read.time(old, "lastUpdateTime"), changed):
        return Acceptance(new, measured, healthy)
    # The message has figures in it; it stays with those that are shown.
    kept = Wanted(healthy.type, healthy.status, healthy.reason, read.text(before, "message"))
    return Acceptance(old, measured, kept)


def _conditions(verdict: Verdict, message: str) -> tuple[Wanted, Wanted]:
    reason = _REASONS[verdict]
    measured = Wanted(
        ServingCondition.ACCEPTANCE_MEASURED,
        TRUE if verdict.measured else FALSE if verdict in _WRONG else UNKNOWN,
        ServingReason.MEASURED if verdict.measured else reason,
        "the window holds enough drafts" if verdict.measured else message,
    )
    status = TRUE if verdict is Verdict.HEALTHY else FALSE if verdict.measured else UNKNOWN
    return measured, Wanted(ServingCondition.ACCEPTANCE_HEALTHY, status, reason, message)
