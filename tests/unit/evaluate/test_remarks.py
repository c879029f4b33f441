"""What is worth a warning, and what isn't."""

from __future__ import annotations

import pytest

from mtp_trainer.contract import AcceptanceCounts, GateVerdict
from mtp_trainer.evaluate.bootstrap import compare
from mtp_trainer.evaluate.remarks import remarks
from mtp_trainer.measurements import Measurements, ParityMeasurement, SetMeasurement

SHIPPED, TUNED = AcceptanceCounts(drafts=100, accepted=(50, 20)), AcceptanceCounts(drafts=90, accepted=(72, 45))


def measured(
    shipped_predicted: tuple[float, ...] = (),
    tuned_predicted: tuple[float, ...] = (),
    stitched: AcceptanceCounts | None = None,
    general: SetMeasurement | None = None,
) -> Measurements:
    return Measurements(
        num_speculative_tokens=2,
        draft_sampling="Greedy",
        temperature=0.0,
        max_tokens=64,
        engine="vLLM 0.32.0",
        domain=compare([SHIPPED], [TUNED], 2, seed=1),
        general=general,
        stitched=stitched,
        parity=ParityMeasurement(prompts=1, identical=1),
        shipped_predicted=shipped_predicted,
        tuned_predicted=tuned_predicted,
        gate=GateVerdict(passed=True),
    )


def test_predictions_that_hold_and_equal_artefacts_say_nothing() -> None:
    assert remarks(measured((0.54, 0.16), (0.76, 0.54), TUNED), 1, 0) == ()


@pytest.mark.parametrize(
    ("shipped", "tuned", "says"),
    [
        ((0.5, 0.26), (), "shipped head, position 1: training predicted 0.260, vLLM accepted 0.200"),
        ((), (0.86,), "tuned head, position 0: training predicted 0.860, vLLM accepted 0.800"),
    ],
)
def test_a_prediction_that_serving_does_not_keep_is_said(
    shipped: tuple[float, ...], tuned: tuple[float, ...], says: str
) -> None:
    (warning,) = remarks(measured(shipped, tuned), 1, 0)
    assert says in warning


def test_artefacts_that_draft_otherwise_are_said_with_both_figures() -> None:
    (warning,) = remarks(measured(stitched=SHIPPED), 1, 0)
    assert "100 drafts and (50, 20)" in warning
    assert "90 and (72, 45)" in warning


def test_prompts_that_were_left_out_are_counted_by_set() -> None:
    general = compare([SHIPPED] * 2, [TUNED] * 2, 2, seed=1)
    domain, other = remarks(measured(general=general), 4, 3)
    assert "3 of 4 domain prompts" in domain
    assert "1 of 3 general prompts" in other
