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
        return Acceptance(old or None, _steady(serving, measured), _steady(serving, healthy))
    new = acceptance_figures(observed.window, asked.window, read.format_time(now))
    changed = not _said(serving, healthy)
    if worth_writing(old, new, now, read.time(old, "lastUpdateTime"), changed):
        return Acceptance(new, measured, healthy)
    return Acceptance(old, measured, _steady(serving, healthy))


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


def _said(serving: Serving, wanted: Wanted) -> bool:
    """Whether the status says the same already, figures in the message aside."""
    before = read.condition(serving.previous, wanted.type, "conditions")
    return (read.text(before, "status"), read.text(before, "reason")) == (wanted.status, wanted.reason)


def _steady(serving: Serving, wanted: Wanted) -> Wanted:
    """The condition with the message it has while it says the same: figures in messages change with every reading."""
    if not _said(serving, wanted):
        return wanted
    before = read.condition(serving.previous, wanted.type, "conditions")
    return Wanted(wanted.type, wanted.status, wanted.reason, read.text(before, "message"))
