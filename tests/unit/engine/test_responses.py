"""Responses survive a kill: none is asked twice, none is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.contract import EngineConfig, Reason, SamplingConfig, StageError
from mtp_trainer.engine import RegeneratedResponse, regenerate

PROMPTS = [[{"role": "user", "content": f"What is {number} plus one?"}] for number in range(10)]
SAMPLING = SamplingConfig(temperature=0.0, max_tokens=8)


@pytest.fixture
def ask(
    fake_engine: Any, make_checkpoint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[RegeneratedResponse]]:
    """Call ``regenerate`` with the fake engine in the place of a vLLM that it would start."""

    class Started:
        def __init__(self, *_: object) -> None:
            self.url = fake_engine.url

        def __enter__(self) -> Started:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def raise_if_crashed(self) -> None:
            pass

    monkeypatch.setattr("mtp_trainer.engine.responses.VLLMServer", Started)
    verifier = make_checkpoint()

    def call(prompts: list[Any] = PROMPTS, sampling: SamplingConfig = SAMPLING) -> list[RegeneratedResponse]:
        out = tmp_path / "regenerated.jsonl"
        return regenerate(verifier, prompts, out, sampling, EngineConfig(concurrency=2), seed=1, say=lambda _: None)

    return call


@pytest.fixture
def interrupted(fake_engine: Any, ask: Callable[..., Any], tmp_path: Path) -> Path:
    """What a call leaves whose engine breaks at the seventh answer."""
    fake_engine.script = [*[fake_engine.echo] * 6, fake_engine.says("nonsense")]
    with pytest.raises(StageError) as caught:
        ask()
    assert caught.value.reason is Reason.ENGINE_NONSENSE
    fake_engine.script = [fake_engine.echo]
    fake_engine.asked.clear()
    return tmp_path / "regenerated.jsonl"


def saved(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


def test_each_prompt_gets_one_response_in_order(ask: Callable[..., Any]) -> None:
    responses = ask()
    assert [response.index for response in responses] == list(range(10))


def test_the_prompt_that_is_sent_ends_where_the_assistant_begins(ask: Callable[..., Any], fake_engine: Any) -> None:
    ask(PROMPTS[:1])
    text = "<|im_start|>user\nWhat is 0 plus one?<|im_end|>\n<|im_start|>assistant\n"
    # Three special tokens of the tests' tokenizer, then one token per byte of the rest.
    assert len(fake_engine.asked[0]["prompt"]) == 3 + len(
        text.replace("<|im_start|>", "").replace("<|im_end|>", "").encode()
    )


def test_a_turn_that_ended_keeps_its_end(ask: Callable[..., Any], fake_engine: Any) -> None:
    fake_engine.script = [fake_engine.says(fake_engine.completion([50, 51], "stop"))]
    assert ask(PROMPTS[:1])[0].response_token_ids == [50, 51, 2]


def test_a_turn_that_was_cut_gets_no_end(ask: Callable[..., Any], fake_engine: Any) -> None:
    fake_engine.script = [fake_engine.says(fake_engine.completion([50, 51], "length"))]
    assert ask(PROMPTS[:1])[0].response_token_ids == [50, 51]


def test_a_second_call_asks_nothing_and_answers_the_same(ask: Callable[..., Any], fake_engine: Any) -> None:
    first = ask()
    fake_engine.asked.clear()
    assert ask() == first
    assert fake_engine.asked == []


def test_finished_answers_are_kept_when_the_engine_breaks(interrupted: Path) -> None:
    assert 5 <= len(saved(interrupted)) <= 6


def test_only_what_is_missing_is_asked_after_a_break(
    interrupted: Path, ask: Callable[..., Any], fake_engine: Any
) -> None:
    kept = len(saved(interrupted))
    responses = ask()
    assert len(fake_engine.asked) == 10 - kept
    assert sorted(record["index"] for record in saved(interrupted)) == list(range(10))
    assert len(responses) == 10


def test_a_half_written_last_line_is_asked_again(interrupted: Path, ask: Callable[..., Any], fake_engine: Any) -> None:
    kept = len(saved(interrupted))
    interrupted.write_bytes(interrupted.read_bytes()[:-7])
    assert len(ask()) == 10
    assert len(fake_engine.asked) == 10 - (kept - 1)
    assert sorted(record["index"] for record in saved(interrupted)) == list(range(10))


def test_a_line_in_pieces_is_asked_again(interrupted: Path, ask: Callable[..., Any], fake_engine: Any) -> None:
    lines = interrupted.read_text().splitlines()
    kept = len(lines) - 1
    interrupted.write_text("\n".join([*lines[:2], '{"index": 3, "prom', *lines[3:]]) + "\n")
    assert len(ask()) == 10
    assert len(fake_engine.asked) == 10 - (kept - 1)


@pytest.mark.parametrize(
    "change",
    [
        {"sampling": SamplingConfig(temperature=1.0, max_tokens=8)},
        {"sampling": SamplingConfig(temperature=0.0, max_tokens=9)},
        {"prompts": PROMPTS[:9]},
    ],
    ids=["temperature", "maxTokens", "number of prompts"],
)
def test_other_settings_start_anew(
    interrupted: Path, ask: Callable[..., Any], fake_engine: Any, change: dict[str, Any]
) -> None:
    responses = ask(**change)
    assert len(fake_engine.asked) == len(responses) == len(change.get("prompts", PROMPTS))


def test_a_changed_prompt_is_asked_again(interrupted: Path, ask: Callable[..., Any], fake_engine: Any) -> None:
    kept = len(saved(interrupted))
    changed = [[{"role": "user", "content": "What is new?"}], *PROMPTS[1:]]
    assert len(ask(changed)) == 10
    assert len(fake_engine.asked) == 10 - (kept - 1)


def test_a_file_of_something_else_is_written_anew(ask: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "regenerated.jsonl").write_text("this is no record\n")
    assert len(ask()) == 10


def test_a_prompt_without_room_for_an_answer_has_no_response(ask: Callable[..., Any], fake_engine: Any) -> None:
    fake_engine.max_model_len = 100
    long = [{"role": "user", "content": "x" * 100}]
    assert [response.index for response in ask([long, *PROMPTS[1:]])] == list(range(1, 10))
