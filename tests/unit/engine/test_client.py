"""Requests, retries, and answers that aren't answers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.contract import AcceptanceCounts, ExitCode, Reason, StageError
from mtp_trainer.engine import Answer, Completions
from mtp_trainer.engine.client import RUNNERS_UP, TRIES, RunnerUp

PROMPTS = [(index, [7, 8, 100 + index]) for index in range(20)]
SPECULATION = {
    "mean_acceptance_length": 2.25,
    "acceptance_histogram": [1, 1, 0, 2],
    "num_spec_steps": 4,
    "num_accepted_draft_tokens": 7,
    "num_draft_tokens": 12,
}
"""Of four steps one accepted nothing, one a single token and two all three."""


def ask(engine: Any, prompts: list[tuple[int, list[int]]] = PROMPTS, **more: Any) -> dict[int, Answer]:
    with Completions(engine.url, concurrency=4, timeout_seconds=10) as client:
        return {answer.index: answer for answer in client.complete(prompts, max_tokens=5, **more)}


def failure(engine: Any, prompts: list[tuple[int, list[int]]] = PROMPTS[:1]) -> StageError:
    with pytest.raises(StageError) as caught:
        ask(engine, prompts)
    return caught.value


def test_every_prompt_gets_its_own_answer(fake_engine: Any) -> None:
    answers = ask(fake_engine)
    assert {index: answer.token_ids for index, answer in answers.items()} == {i: (p[-1], p[-1]) for i, p in PROMPTS}


def test_no_more_requests_are_in_flight_than_asked_for(fake_engine: Any) -> None:
    ask(fake_engine)
    assert fake_engine.busiest <= 4


def test_prompts_travel_as_token_ids(fake_engine: Any) -> None:
    ask(fake_engine, PROMPTS[:1])
    (body,) = fake_engine.asked
    assert body["prompt"] == [7, 8, 100]
    assert body["return_token_ids"] is True
    assert body["add_special_tokens"] is False


def test_each_sampled_request_has_a_seed_of_its_own(fake_engine: Any) -> None:
    ask(fake_engine, temperature=1.0, seed=40)
    assert sorted(body["seed"] for body in fake_engine.asked) == list(range(40, 60))


def test_a_greedy_request_needs_no_seed(fake_engine: Any) -> None:
    ask(fake_engine, seed=40)
    assert all("seed" not in body for body in fake_engine.asked)


def test_an_answer_is_cut_where_the_context_ends(fake_engine: Any) -> None:
    fake_engine.max_model_len = 6
    ask(fake_engine)
    assert {body["max_tokens"] for body in fake_engine.asked} == {3}


def test_a_prompt_that_fills_the_context_is_left_out(fake_engine: Any) -> None:
    fake_engine.max_model_len = 6
    assert set(ask(fake_engine, [(0, [1] * 6), (1, [1] * 5)])) == {1}


def test_the_counts_of_a_request_come_from_its_histogram(fake_engine: Any) -> None:
    fake_engine.script = [
        fake_engine.says(fake_engine.completion([1, 2], metrics={"speculative_decoding": SPECULATION}))
    ]
    answer = ask(fake_engine, PROMPTS[:1])[0]
    assert answer.acceptance == AcceptanceCounts(drafts=4, accepted=(3, 2, 2))


def test_what_vllm_answers_is_read(fake_engine: Any) -> None:
    captured = Path(__file__).with_name("completion-vllm-0.32.json").read_text(encoding="utf-8")
    fake_engine.script = [fake_engine.says(captured)]
    with Completions(fake_engine.url, 1, 10) as client:
        (answer,) = client.complete(PROMPTS[:1], max_tokens=20)
    assert answer.token_ids[:4] == (18, 270, 223, 18)
    assert len(answer.token_ids) == 20
    assert answer.text.startswith("0 × 0 = 0\n")
    assert answer.finish_reason == "length"
    assert answer.acceptance == AcceptanceCounts(drafts=7, accepted=(6, 4, 2))


def test_the_likeliest_other_tokens_are_told_with_their_distance(fake_engine: Any) -> None:
    top = [{"token_id:5": -0.5, "token_id:9": -1.0}, {"token_id:5": -0.25, "token_id:6": -0.25}]
    answer = fake_engine.completion([5, 6])
    answer["choices"][0]["logprobs"] = {"top_logprobs": top}
    fake_engine.script = [fake_engine.says(answer)]
    assert ask(fake_engine, PROMPTS[:1], runners_up=True)[0].runners_up == ((RunnerUp(9, 0.5),), (RunnerUp(5, 0.0),))
    (body,) = fake_engine.asked
    assert (body["logprobs"], body["return_tokens_as_token_ids"]) == (RUNNERS_UP, True)


def test_log_probabilities_are_only_asked_for_on_request(fake_engine: Any) -> None:
    assert ask(fake_engine, PROMPTS[:1])[0].runners_up == ()
    assert "logprobs" not in fake_engine.asked[0]


@pytest.mark.parametrize("trouble", ["a dropped connection", "HTTP 500"])
def test_a_passing_trouble_is_tried_again(fake_engine: Any, trouble: str) -> None:
    bad = fake_engine.drop if trouble == "a dropped connection" else fake_engine.says("busy", 500)
    fake_engine.script = [bad, bad, fake_engine.echo]
    assert ask(fake_engine, PROMPTS[:1])[0].token_ids == (100, 100)


def test_a_connection_that_keeps_dropping_is_a_crash(fake_engine: Any) -> None:
    fake_engine.script = [fake_engine.drop]
    error = failure(fake_engine)
    assert error.reason is Reason.ENGINE_CRASHED
    assert fake_engine.url in error.message


def test_an_engine_that_never_answers_is_given_up_after_its_timeout(fake_engine: Any) -> None:
    released = threading.Event()
    fake_engine.script = [lambda *_: released.wait()]
    with (
        Completions(fake_engine.url, 1, timeout_seconds=0.05) as client,
        pytest.raises(StageError, match="ReadTimeout") as caught,
    ):
        list(client.complete(PROMPTS[:1], 5))
    released.set()
    assert caught.value.reason is Reason.ENGINE_CRASHED
    assert len(fake_engine.asked) == TRIES


def test_an_engine_that_keeps_failing_is_quoted(fake_engine: Any) -> None:
    fake_engine.script = [fake_engine.says("no memory left", 500)]
    error = failure(fake_engine)
    assert error.reason is Reason.ENGINE_NONSENSE
    assert error.exit_code is ExitCode.FAILED
    assert "HTTP 500: no memory left" in error.message
    assert len(fake_engine.asked) == TRIES


@pytest.mark.parametrize("models", ["<html>", "[]", '{"data": []}', '{"data": [{"id": "m", "max_model_len": null}]}'])
def test_a_list_of_models_that_is_none_is_refused(fake_engine: Any, models: str) -> None:
    fake_engine.models = models
    error = failure(fake_engine)
    assert error.reason is Reason.ENGINE_NONSENSE
    assert "/v1/models: not a list of models" in error.message


def test_a_crash_that_the_supervisor_knows_of_wins_over_retries(fake_engine: Any) -> None:
    def crashed() -> None:
        raise StageError(Reason.ENGINE_CRASHED, "exit code -9", ExitCode.FAILED)

    for trouble in (fake_engine.drop, fake_engine.says("EngineDeadError", 500)):
        fake_engine.script = [trouble]
        with (
            Completions(fake_engine.url, 1, 10, on_lost=crashed) as client,
            pytest.raises(StageError, match="exit code -9"),
        ):
            list(client.complete(PROMPTS[:1], 5))


def test_a_refused_request_is_not_repeated(fake_engine: Any) -> None:
    fake_engine.script = [fake_engine.says({"error": {"message": "model `model` does not exist"}}, 404)]
    error = failure(fake_engine)
    assert error.reason is Reason.ENGINE_NONSENSE
    assert "HTTP 404" in error.message
    assert "does not exist" in error.message
    assert len(fake_engine.asked) == 1


def choice(**fields: Any) -> dict[str, Any]:
    return {"text": "hi", "finish_reason": "stop", **fields}


NONSENSE: dict[str, object] = {
    "HTML": "<html>Welcome</html>",
    "nothing": "",
    "a list": [],
    "null": "null",
    "another object": {"message": "hello"},
    "no choice": {"choices": []},
    "two choices": {"choices": [choice(token_ids=[1])] * 2},
    "no ids": {"choices": [choice()]},
    "null for ids": {"choices": [choice(token_ids=None)]},
    "no token": {"choices": [choice(token_ids=[])]},
    "words for ids": {"choices": [choice(token_ids=["a"])]},
    "a number for ids": {"choices": [choice(token_ids=1)]},
    "fractions for ids": {"choices": [choice(token_ids=[1.5])]},
    "null for text": {"choices": [choice(token_ids=[1], text=None)]},
    "an aborted answer": {"choices": [choice(token_ids=[1], finish_reason="abort")]},
    "an answer without an end": {"choices": [choice(token_ids=[1], finish_reason=None)]},
    "more tokens than asked for": {"choices": [choice(token_ids=[1] * 6)]},
    "metrics that aren't": {"choices": [choice(token_ids=[1])], "metrics": {"speculative_decoding": 3}},
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_refused_with_its_address_and_what_came(fake_engine: Any, body: object) -> None:
    fake_engine.script = [fake_engine.says(body)]
    error = failure(fake_engine)
    assert error.reason is Reason.ENGINE_NONSENSE
    assert f"{fake_engine.url}/v1/completions" in error.message


def test_an_endpoint_that_is_no_vllm_is_refused_before_prompts_are_sent(fake_engine: Any) -> None:
    with (
        Completions(f"{fake_engine.url}/elsewhere", 1, 10) as client,
        pytest.raises(StageError, match="/elsewhere/v1/models"),
    ):
        list(client.complete(PROMPTS[:1], 5))
    assert fake_engine.asked == []
