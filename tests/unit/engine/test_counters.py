"""Reading vLLM's counters, and refusing what they can't be."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtp_trainer.contract import AcceptanceCounts, Reason, StageError
from mtp_trainer.engine import EngineCounters, parse_counters

# An excerpt of what a server of examples/quickstart/verifier wrote after a few answers.
CAPTURED = Path(__file__).with_name("metrics-vllm-0.32.txt").read_text(encoding="utf-8")
URL = "http://127.0.0.1:8000/metrics"
DRAFTS = 'vllm:spec_decode_num_drafts_total{engine="0",model_name="model"}'


def refused(text: str) -> str:
    with pytest.raises(StageError) as caught:
        parse_counters(text, URL)
    assert caught.value.reason is Reason.ENGINE_NONSENSE
    assert URL in caught.value.message
    return caught.value.message


def doubled_for_a_second_engine(text: str) -> str:
    lines = []
    for line in text.splitlines():
        lines.append(line)
        if line.startswith("vllm:"):
            lines.append(line.replace('engine="0"', 'engine="1"'))
    return "\n".join(lines) + "\n"


def test_what_vllm_writes_is_read() -> None:
    assert parse_counters(CAPTURED, URL) == EngineCounters(drafts=119, draft_tokens=357, accepted=(54, 27, 12))


def test_the_counts_of_several_engines_are_added() -> None:
    one, two = parse_counters(CAPTURED, URL), parse_counters(doubled_for_a_second_engine(CAPTURED), URL)
    assert two == EngineCounters(2 * one.drafts, 2 * one.draft_tokens, tuple(2 * n for n in one.accepted))


def test_a_measurement_is_what_was_counted_in_between() -> None:
    before, after = EngineCounters(10, 30, (7, 4, 1)), EngineCounters(14, 42, (10, 6, 1))
    assert after.since(before) == AcceptanceCounts(drafts=4, accepted=(3, 2, 0))


@pytest.mark.parametrize("after", [EngineCounters(3, 9, (2, 1, 0)), EngineCounters(12, 36, (6, 5, 1))])
def test_counters_that_go_backwards_mean_a_restart(after: EngineCounters) -> None:
    with pytest.raises(StageError, match="restarted") as caught:
        after.since(EngineCounters(10, 30, (7, 4, 1)))
    assert caught.value.reason is Reason.ENGINE_CRASHED


def test_another_depth_than_before_means_another_server() -> None:
    with pytest.raises(StageError, match="restarted"):
        EngineCounters(14, 28, (10, 6)).since(EngineCounters(10, 30, (7, 4, 1)))


def test_a_server_that_does_not_draft_says_what_to_serve_with() -> None:
    without = "\n".join(line for line in CAPTURED.splitlines() if "spec_decode" not in line)
    assert "--disable-log-stats" in refused(without)


@pytest.mark.parametrize("text", ["", "<html>Welcome</html>", '{"drafts": 3}', CAPTURED.replace('position="1"', "")])
def test_what_is_no_metrics_of_vllm_is_refused(text: str) -> None:
    refused(text)


def test_totals_that_contradict_the_positions_are_refused() -> None:
    assert "sum to 93" in refused(CAPTURED.replace("} 93.0", "} 94.0"))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-3"])
def test_a_count_that_is_no_number_of_things_is_refused(value: str) -> None:
    refused(CAPTURED.replace(f"{DRAFTS} 119.0", f"{DRAFTS} {value}"))
