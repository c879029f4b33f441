"""Reading vLLM's counters: the text that vLLM 0.32 writes, and everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtp_operator.measure.counters import Counters, parse_counters

METRICS = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="qwen"} 905.0
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="qwen"} 1.7645e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="qwen"} 2715.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="qwen"} 2187.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="qwen",position="0"} 847.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="qwen",position="1"} 703.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="qwen",position="2"} 637.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="qwen",position="2"} 1.7645e+09
vllm:num_requests_running{engine="0",model_name="qwen"} 1.0
"""


def test_the_four_families_are_read_and_their_created_series_are_not() -> None:
    assert parse_counters(METRICS) == {"0": Counters(905, 2715, 2187, (847, 703, 637))}


def test_each_engine_has_counters_of_its_own() -> None:
    text = METRICS + METRICS.replace('engine="0"', 'engine="1"').replace("905.0", "95.0")
    assert {engine: counters.drafts for engine, counters in parse_counters(text).items()} == {"0": 905, "1": 95}


def test_several_model_names_of_an_engine_are_added() -> None:
    text = METRICS + METRICS.replace('"qwen"', '"alias"')
    assert parse_counters(text)["0"] == Counters(1810, 5430, 4374, (1694, 1406, 1274))


def test_model_names_may_hold_what_prometheus_escapes() -> None:
    text = METRICS.replace('"qwen"', r'"a\"b,c}\\"')
    assert parse_counters(text)["0"].accepted == (847, 703, 637)


def test_positions_after_a_gap_are_left_out() -> None:
    text = "\n".join(line for line in METRICS.splitlines() if 'position="1"' not in line)
    assert parse_counters(text)["0"].accepted == (847,)


@pytest.mark.parametrize(
    "line",
    [
        "vllm:spec_decode_num_drafts_total",
        "vllm:spec_decode_num_drafts_total{ 5",
        "vllm:spec_decode_num_drafts_total NaN",
        "vllm:spec_decode_num_drafts_total +Inf",
        "vllm:spec_decode_num_drafts_total -3",
        "<html>502 Bad Gateway</html>",
        "",
    ],
)
def test_a_line_that_is_no_sample_is_passed_over(line: str) -> None:
    assert parse_counters(line) == {}
    assert parse_counters(METRICS + line) == parse_counters(METRICS)


@given(st.text() | st.lists(st.sampled_from([*METRICS.split("\n"), '{"', "\\", "1e999"])).map(" ".join))
def test_no_text_makes_it_fail(text: str) -> None:
    parse_counters(text)
