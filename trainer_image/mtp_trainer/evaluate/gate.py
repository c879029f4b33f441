"""Whether a tuned head may be published. Pure: figures and limits in, verdict out.

Improvement is judged by the lower end of its interval: a head that only seems better doesn't pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mtp_trainer.contract import GateConfig, GateVerdict, Reason
from mtp_trainer.measurements import PARITY_SHARE, ParityMeasurement, SetMeasurement

FIELD = "evaluation.gate"

ROUNDING = 1e-9
"""Figures are quotients of counts: what equals a limit on paper may be a hair below it in binary."""


@dataclass(frozen=True)
class Failure:
    """One rule that isn't met."""

    reason: Reason
    sentence: str


def judge(
    gate: GateConfig, domain: SetMeasurement, general: SetMeasurement | None, parity: ParityMeasurement
) -> GateVerdict:
    """Apply every rule; the verdict names all that failed, and the gravest as its reason."""
    failures = [*_parity(gate, parity), *_enough(gate, domain), *_domain(gate, domain), *_general(gate, general)]
    return GateVerdict(
        passed=not failures,
        failures=tuple(failure.sentence for failure in failures),
        reason=failures[0].reason if failures else None,
    )


def _parity(gate: GateConfig, parity: ParityMeasurement) -> Iterator[Failure]:
    if gate.output_parity == "Required" and not parity.agrees:
        where = f"; first difference: {parity.first_difference}" if parity.first_difference else ""
        yield Failure(
            Reason.OUTPUT_MISMATCH,
            f"greedy output with and without drafting is the same for {parity.identical} of {parity.prompts} prompts "
            f"and parts at a near tie for {parity.near_ties}, {FIELD}.outputParity asks for {PARITY_SHARE:.0%}{where}",
        )


def _enough(gate: GateConfig, domain: SetMeasurement) -> Iterator[Failure]:
    drafts = min(domain.shipped.counts.drafts, domain.tuned.counts.drafts)
    if drafts < gate.min_drafts:
        yield Failure(
            Reason.TOO_FEW_DRAFTS,
            f"{drafts} drafts were measured, {FIELD}.minDrafts asks for {gate.min_drafts}; "
            "raise evaluation.dataset.maxSamples or lower the limit",
        )


def _domain(gate: GateConfig, domain: SetMeasurement) -> Iterator[Failure]:
    improvement, tuned = domain.improvement, domain.tuned
    if _below(improvement.low, gate.min_improvement):
        yield Failure(
            Reason.GATE_FAILED,
            f"mean acceptance length changed by {improvement.value:+.3f} ({improvement.low:+.3f} to "
            f"{improvement.high:+.3f}), {FIELD}.minImprovement asks for at least {gate.min_improvement:+g} "
            "at the interval's lower end",
        )
    length = tuned.mean_acceptance_length
    if gate.min_mean_acceptance_length is not None and _below(length.low, gate.min_mean_acceptance_length):
        yield Failure(
            Reason.GATE_FAILED,
            f"mean acceptance length is {length.value:.3f} (at least {length.low:.3f}), "
            f"{FIELD}.minMeanAcceptanceLength asks for {gate.min_mean_acceptance_length:g}",
        )
    if domain.shipped.rates and tuned.rates:
        change = tuned.rates[0].value - domain.shipped.rates[0].value
        if _below(change, gate.min_position_zero_change):
            yield Failure(
                Reason.GATE_FAILED,
                f"acceptance at position 0 changed by {change:+.3f}, "
                f"{FIELD}.minPositionZeroChange allows {gate.min_position_zero_change:+g}",
            )
    ratio = domain.tokens_per_second_ratio
    if gate.min_throughput_ratio is not None and (ratio is None or _below(ratio, gate.min_throughput_ratio)):
        said = "wasn't measured" if ratio is None else f"is {ratio:.3f}"
        yield Failure(
            Reason.GATE_FAILED,
            f"the ratio of tokens per second {said}, {FIELD}.minThroughputRatio asks for {gate.min_throughput_ratio:g}",
        )


def _general(gate: GateConfig, general: SetMeasurement | None) -> Iterator[Failure]:
    if gate.general is None:
        return
    if general is None:
        yield Failure(
            Reason.GATE_FAILED,
            f"the general set was not measured, {FIELD}.general asks for it; name {FIELD}.general.dataset",
        )
    elif _below(general.improvement.low, -gate.general.max_drop):
        change = general.improvement
        yield Failure(
            Reason.GATE_FAILED,
            f"on the general set mean acceptance length changed by {change.value:+.3f} ({change.low:+.3f} to "
            f"{change.high:+.3f}), {FIELD}.general.maxDrop allows a drop of {gate.general.max_drop:g}",
        )


def _below(value: float, limit: float) -> bool:
    return value < limit - ROUNDING
