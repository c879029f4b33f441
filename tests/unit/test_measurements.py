"""The file of measurements comes back as it was written."""

from __future__ import annotations

import json
from pathlib import Path

from mtp_trainer.contract import AcceptanceCounts, GateVerdict, Reason
from mtp_trainer.evaluate.bootstrap import compare
from mtp_trainer.measurements import Measurements, ParityMeasurement, read_measurements, summed

COUNTS = [AcceptanceCounts(drafts=10, accepted=(8, 4, 1)), AcceptanceCounts(drafts=7, accepted=(3, 3, 3))]


def measurements(depth: int = 3) -> Measurements:
    counted = compare(COUNTS, list(reversed(COUNTS)), depth, seed=1)
    timed = counted.tuned.model_copy(update={"tokens_per_second": (10.5, 11.25)})
    return Measurements(
        num_speculative_tokens=depth,
        draft_sampling="Greedy",
        temperature=0.0,
        max_tokens=64,
        engine="vLLM 0.32.0",
        domain=counted.model_copy(update={"tuned": timed, "tokens_per_second_ratio": 1.05}),
        general=counted,
        stitched=AcceptanceCounts(drafts=17, accepted=(11, 7, 4)),
        parity=ParityMeasurement(prompts=2, identical=1, first_difference="prompt 1, token 3 of 9"),
        shipped_predicted=(0.5, 0.25),
        tuned_predicted=(0.6, 0.4),
        gate=GateVerdict(passed=False, failures=("a sentence",), reason=Reason.OUTPUT_MISMATCH),
        warnings=("another sentence",),
    )


def test_measurements_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "measurements.json"
    path.write_text(measurements().model_dump_json(by_alias=True, indent=1))
    assert read_measurements(path) == measurements()


def test_the_file_is_in_camel_case() -> None:
    written = json.loads(measurements().model_dump_json(by_alias=True))
    assert written["numSpeculativeTokens"] == 3
    assert written["domain"]["tuned"]["meanAcceptanceLength"].keys() == {"value", "low", "high"}
    assert written["domain"]["tuned"]["tokensPerSecond"] == [10.5, 11.25]


def test_counts_add_up_position_by_position() -> None:
    shallow = AcceptanceCounts(drafts=3, accepted=(2,))
    assert summed([*COUNTS, shallow]) == AcceptanceCounts(drafts=20, accepted=(13, 7, 4))
    assert summed([]) == AcceptanceCounts(drafts=0, accepted=())


def test_the_share_of_no_answers_is_none() -> None:
    assert ParityMeasurement(prompts=4, identical=3).share == 0.75
    assert ParityMeasurement(prompts=0, identical=0).share == 0.0
