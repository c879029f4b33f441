"""Each rule of the gate, on both sides of its limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mtp_trainer.contract import AcceptanceCounts, GateConfig, GeneralGateConfig, Reason
from mtp_trainer.evaluate.gate import judge
from mtp_trainer.measurements import HeadMeasurement, Interval, ParityMeasurement, SetMeasurement

SAME_OUTPUT = ParityMeasurement(prompts=100, identical=100)


def head(drafts: int = 3000, first: float = 0.5, length: float = 2.0) -> HeadMeasurement:
    """One position's rate, and a mean acceptance length whose interval reaches 0.05 to both sides."""
    accepted = round(first * drafts)
    return HeadMeasurement(
        counts=AcceptanceCounts(drafts=drafts, accepted=(accepted,)),
        rates=(Interval(value=accepted / drafts, low=0, high=1),) if drafts else (),
        mean_acceptance_length=Interval(value=length, low=length - 0.05, high=length + 0.05),
    )


def measured(
    shipped: HeadMeasurement | None = None,
    tuned: HeadMeasurement | None = None,
    improvement: float = 0.3,
    ratio: float | None = 1.2,
) -> SetMeasurement:
    """Two heads; the interval of ``improvement`` reaches 0.1 to both sides."""
    return SetMeasurement(
        prompts=40,
        shipped=shipped or head(),
        tuned=tuned or head(),
        improvement=Interval(value=improvement, low=round(improvement - 0.1, 6), high=improvement + 0.1),
        tokens_per_second_ratio=ratio,
    )


def failures(gate: GateConfig, domain: SetMeasurement, **more: Any) -> tuple[str, ...]:
    """Sentences of the rules that fail, of which there is one at most."""
    verdict = judge(gate, domain, more.get("general"), more.get("parity", SAME_OUTPUT))
    assert verdict.passed == (not verdict.failures)
    assert (verdict.reason is None) == verdict.passed
    return verdict.failures


def test_a_better_head_passes() -> None:
    assert failures(GateConfig(), measured()) == ()


BOUNDARIES: dict[str, tuple[GateConfig, Callable[[], SetMeasurement], Callable[[], SetMeasurement]]] = {
    "minImprovement": (
        GateConfig(min_improvement=0.2),
        lambda: measured(improvement=0.3),
        lambda: measured(improvement=0.299),
    ),
    "minMeanAcceptanceLength": (
        GateConfig(min_mean_acceptance_length=2.25),
        lambda: measured(tuned=head(length=2.3)),
        lambda: measured(tuned=head(length=2.299)),
    ),
    "minDrafts": (
        GateConfig(min_drafts=3000),
        lambda: measured(),
        lambda: measured(tuned=head(drafts=2999)),
    ),
    "minPositionZeroChange": (
        GateConfig(min_position_zero_change=-0.01),
        lambda: measured(shipped=head(first=0.5), tuned=head(first=0.49)),
        lambda: measured(shipped=head(first=0.5), tuned=head(first=0.489)),
    ),
    "minThroughputRatio": (
        GateConfig(min_throughput_ratio=1.1),
        lambda: measured(ratio=1.1),
        lambda: measured(ratio=1.099),
    ),
}


@pytest.mark.parametrize("rule", BOUNDARIES)
def test_a_rule_holds_at_its_limit_and_fails_just_below(rule: str) -> None:
    gate, at_limit, below = BOUNDARIES[rule]
    assert failures(gate, at_limit()) == ()
    (sentence,) = failures(gate, below())
    assert f"evaluation.gate.{rule}" in sentence


def test_the_shipped_heads_drafts_count_as_well() -> None:
    (sentence,) = failures(GateConfig(), measured(shipped=head(drafts=1999)))
    assert "1999 drafts" in sentence


@pytest.mark.parametrize(("drop", "passes"), [(0.05, True), (0.051, False)])
def test_the_general_set_may_drop_as_far_as_allowed(drop: float, passes: bool) -> None:
    gate = GateConfig(general=GeneralGateConfig(max_drop=0.05))
    general = measured(improvement=0.1 - drop)
    found = failures(gate, measured(), general=general)
    assert (found == ()) is passes
    assert passes or "evaluation.gate.general.maxDrop" in found[0]


def test_a_general_set_that_is_asked_for_must_be_measured() -> None:
    (sentence,) = failures(GateConfig(general=GeneralGateConfig()), measured(), general=None)
    assert "evaluation.gate.general.dataset" in sentence


def test_a_general_set_that_nobody_asked_for_decides_nothing() -> None:
    assert failures(GateConfig(), measured(), general=measured(improvement=-1.0)) == ()


def test_a_throughput_that_was_not_measured_fails_its_rule() -> None:
    (sentence,) = failures(GateConfig(min_throughput_ratio=1.0), measured(ratio=None))
    assert "wasn't measured" in sentence


@pytest.mark.parametrize(("identical", "passes"), [(95, True), (94, False)])
def test_nearly_all_answers_must_be_those_without_drafting(identical: int, passes: bool) -> None:
    parity = ParityMeasurement(prompts=100, identical=identical, first_difference="prompt 3, token 7 of 20")
    found = failures(GateConfig(), measured(), parity=parity)
    assert (found == ()) is passes
    assert parity.agrees is passes
    assert passes or "prompt 3, token 7" in found[0]


def test_answers_that_part_at_a_near_tie_agree() -> None:
    assert failures(GateConfig(), measured(), parity=ParityMeasurement(prompts=100, identical=60, near_ties=40)) == ()
    (sentence,) = failures(GateConfig(), measured(), parity=ParityMeasurement(prompts=9, identical=5, near_ties=3))
    assert "the same for 5 of 9 prompts and parts at a near tie for 3" in sentence


def test_ignored_parity_fails_nothing() -> None:
    parity = ParityMeasurement(prompts=100, identical=0)
    assert failures(GateConfig(output_parity="Ignored"), measured(), parity=parity) == ()


def test_without_a_compared_answer_parity_is_not_shown() -> None:
    assert not ParityMeasurement(prompts=0, identical=0).agrees


def test_all_failed_rules_are_named_and_the_gravest_gives_the_reason() -> None:
    gate = GateConfig(
        min_mean_acceptance_length=3.0, min_throughput_ratio=1.5, general=GeneralGateConfig(max_drop=0.05)
    )
    bad = measured(shipped=head(drafts=100, first=0.9), tuned=head(drafts=100), improvement=0.0)
    broken = ParityMeasurement(prompts=10, identical=5)
    verdict = judge(gate, bad, measured(improvement=-0.5), broken)
    rules = [
        "outputParity",
        "minDrafts",
        "minImprovement",
        "minMeanAcceptanceLength",
        "minPositionZeroChange",
        "minThroughputRatio",
        "general.maxDrop",
    ]
    assert len(verdict.failures) == len(rules)
    assert all(f"evaluation.gate.{rule}" in said for rule, said in zip(rules, verdict.failures, strict=True))
    assert verdict.reason is Reason.OUTPUT_MISMATCH
    assert judge(gate, bad, None, SAME_OUTPUT).reason is Reason.TOO_FEW_DRAFTS
    assert judge(gate, measured(improvement=0.0), None, SAME_OUTPUT).reason is Reason.GATE_FAILED


def test_a_head_that_was_never_asked_to_draft_has_too_few_drafts() -> None:
    silent = head(drafts=0, length=1.05)
    verdict = judge(GateConfig(), measured(silent, silent, improvement=0.0), None, SAME_OUTPUT)
    assert verdict.reason is Reason.TOO_FEW_DRAFTS
    assert "0 drafts" in verdict.failures[0]
