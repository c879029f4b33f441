"""From measurements to a result that a termination message keeps."""

from __future__ import annotations

import pytest

from mtp_trainer.contract import (
    MAX_RESULT_BYTES,
    AcceptanceCounts,
    EvaluateResult,
    GateConfig,
    GeneralGateConfig,
    parse_result,
    result_json,
)
from mtp_trainer.evaluate.bootstrap import compare
from mtp_trainer.evaluate.gate import judge
from mtp_trainer.evaluate.remarks import remarks
from mtp_trainer.evaluate.run import result
from mtp_trainer.measurements import Measurements, ParityMeasurement

DEEPEST = 8
STRICT = GateConfig(
    min_drafts=10**9,
    min_improvement=5.0,
    min_mean_acceptance_length=8.0,
    min_throughput_ratio=1000.0,
    general=GeneralGateConfig(max_drop=0.0),
)


@pytest.fixture
def bad() -> Measurements:
    """Large counts at the greatest depth; every rule fails and every warning applies."""
    shipped = AcceptanceCounts(drafts=123_456_789, accepted=tuple(123_456_788 - i for i in range(DEEPEST)))
    tuned = AcceptanceCounts(drafts=123_456_789, accepted=tuple(12_345_678 - i for i in range(DEEPEST)))
    domain = compare([shipped], [tuned], DEEPEST, seed=1).model_copy(update={"tokens_per_second_ratio": 1 / 3})
    parity = ParityMeasurement(prompts=10_000, identical=3, first_difference="prompt 9999, token 2047 of 2048")
    found = Measurements(
        num_speculative_tokens=DEEPEST,
        draft_sampling="Probabilistic",
        temperature=1.0,
        max_tokens=2048,
        engine="vLLM 0.32.0",
        domain=domain,
        general=domain,
        stitched=shipped,
        parity=parity,
        shipped_predicted=(0.5,) * DEEPEST,
        tuned_predicted=(0.5,) * DEEPEST,
        gate=judge(STRICT, domain, domain, parity),
    )
    return found.model_copy(update={"warnings": remarks(found, 100_000, 100_000)})


def test_the_worst_result_fits_and_keeps_every_rule_that_failed(bad: Measurements) -> None:
    assert len(bad.gate.failures) == 7
    assert len(bad.warnings) == 2 * DEEPEST + 3
    text = result_json(result(bad))
    assert len(text.encode()) <= MAX_RESULT_BYTES
    read = parse_result(text)
    assert isinstance(read, EvaluateResult)
    assert read.gate == bad.gate
    assert read.domain.tuned == bad.domain.tuned.counts


def test_a_result_has_the_figures_of_the_measurements(bad: Measurements) -> None:
    found = result(bad)
    assert found.domain.improvement == pytest.approx(bad.domain.improvement.value, abs=1e-4)
    assert found.domain.improvement_low == pytest.approx(bad.domain.improvement.low, abs=1e-4)
    assert found.domain.tokens_per_second_ratio == 0.3333
    assert found.general == found.domain
    assert found.stitched == bad.stitched
    assert found.parity_prompts == 10_000
    assert not found.output_parity


def test_without_a_general_set_the_result_has_none(bad: Measurements) -> None:
    assert result(bad.model_copy(update={"general": None})).general is None
