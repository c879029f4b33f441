"""Passes over prompts on running servers, and counts that must agree with the server's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from stand_in import STEPS, Behaviour, StandIn

from mtp_trainer.contract import ExitCode, Reason, StageError
from mtp_trainer.engine import Completions
from mtp_trainer.engine.client import RunnerUp
from mtp_trainer.evaluate.rounds import (
    WARM_UP_PROMPTS,
    Sampling,
    compare_outputs,
    drafted_round,
    plain_round,
    throughput_ratio,
    warm_up,
)
from mtp_trainer.measurements import NEAR_TIE_NATS, summed

PROMPTS = [(index, [7, 8, 10 + index]) for index in range(30)]
SAMPLING = Sampling(max_tokens=6, temperature=0.0, seed=4)
Serve = Callable[[Behaviour], StandIn]


@contextmanager
def client_of(server: StandIn) -> Iterator[Completions]:
    with Completions(server.url, concurrency=4, timeout_seconds=10) as client:
        yield client


def refused(server: StandIn) -> StageError:
    with client_of(server) as client, pytest.raises(StageError) as caught:
        drafted_round(client, PROMPTS, SAMPLING, server.url)
    return caught.value


def test_a_pass_keeps_the_order_of_the_prompts(serve: Serve) -> None:
    with client_of(serve(Behaviour())) as client:
        result = drafted_round(client, PROMPTS, SAMPLING, "")
    assert [ids[0] for ids in result.tokens] == [ids[-1] for _, ids in PROMPTS]
    assert len(result.counts) == len(PROMPTS)
    assert result.tokens_per_second > 0


def test_a_pass_counts_what_was_drafted_for_it_and_nothing_before(serve: Serve) -> None:
    server = serve(Behaviour())
    with client_of(server) as client:
        warm_up(client, PROMPTS, SAMPLING)
        first, second = (drafted_round(client, PROMPTS, SAMPLING, "") for _ in range(2))
    assert server.answers == WARM_UP_PROMPTS + 2 * len(PROMPTS)
    assert summed(first.counts).drafts == STEPS * len(PROMPTS)
    assert first.counts == second.counts


def test_an_answer_of_one_token_has_counts_without_drafts(serve: Serve) -> None:
    with client_of(serve(Behaviour())) as client:
        result = drafted_round(client, PROMPTS, Sampling(1, 0.0, 0), "")
    assert len(result.counts) == len(PROMPTS)
    assert summed(result.counts).drafts == 0


def test_drafts_that_no_request_had_are_refused_with_both_figures(serve: Serve) -> None:
    server = serve(Behaviour(trouble="another's drafts"))
    error = refused(server)
    assert error.reason is Reason.ENGINE_NONSENSE
    assert error.exit_code is ExitCode.FAILED
    assert error.message.startswith(f"{server.url}: ")
    assert f"its counters say {(STEPS + 1) * len(PROMPTS)} drafts" in error.message
    assert f"own figures {STEPS * len(PROMPTS)}" in error.message


def test_answers_that_say_nothing_about_their_drafts_are_refused(serve: Serve) -> None:
    error = refused(serve(Behaviour(trouble="no metrics")))
    assert error.reason is Reason.ENGINE_NONSENSE
    assert "30 of 30 answers" in error.message


def test_a_server_that_does_not_draft_is_no_drafted_round(serve: Serve) -> None:
    error = refused(serve(Behaviour(depth=0)))
    assert error.reason is Reason.ENGINE_NONSENSE
    assert "speculative" in error.message


def test_a_plain_pass_needs_no_counters(serve: Serve) -> None:
    with client_of(serve(Behaviour(depth=0))) as client:
        result = plain_round(client, PROMPTS, SAMPLING)
    assert len(result.tokens) == len(PROMPTS)
    assert result.counts == []


def test_prompts_that_all_fill_the_context_are_refused(serve: Serve) -> None:
    server = serve(Behaviour())
    server.max_model_len = 3
    error = refused(server)
    assert error.reason is Reason.DATASET_INVALID
    assert "none of 30 prompts" in error.message
    assert "maxModelLen" in error.message


def test_a_sampled_pass_repeats_with_its_seed(serve: Serve) -> None:
    with client_of(serve(Behaviour())) as client:
        one, same, other = (plain_round(client, PROMPTS, Sampling(6, 0.7, seed)).tokens for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_the_ratio_is_the_median_of_neighbouring_rounds() -> None:
    # The machine is ten times slower in the second pair, which hits both, and something disturbs the third.
    assert throughput_ratio([100.0, 10.0, 100.0], [120.0, 12.0, 30.0]) == pytest.approx(1.2)


def test_no_rounds_have_no_ratio() -> None:
    assert throughput_ratio([], []) is None
    assert throughput_ratio([0.0], [5.0]) is None


SURE = (RunnerUp(token_id=0, behind=5.0),)


def decided(*answers: tuple[int, ...]) -> list[tuple[tuple[RunnerUp, ...], ...]]:
    """No place at which the verifier hesitated."""
    return [(SURE,) * len(answer) for answer in answers]


def test_outputs_are_compared_token_by_token() -> None:
    same = compare_outputs([(1, 2), (3,)], decided((1, 2), (3,)), [(1, 2), (3,)])
    assert (same.prompts, same.identical, same.near_ties, same.first_difference) == (2, 2, 0, None)
    assert same.share == 1.0


@pytest.mark.parametrize(
    ("plain", "drafted", "where"),
    [
        ([(1, 2), (3, 4, 5)], [(1, 2), (3, 9, 5)], "prompt 1, token 1 of 3"),
        ([(1, 2)], [(1, 2, 3)], "prompt 0, token 2 of 2"),
        ([(1, 2)], [(1,)], "prompt 0, token 1 of 2"),
    ],
)
def test_the_first_difference_is_named(
    plain: list[tuple[int, ...]], drafted: list[tuple[int, ...]], where: str
) -> None:
    parity = compare_outputs(plain, decided(*plain), drafted)
    assert parity.first_difference == where
    assert parity.identical == len(plain) - 1


@pytest.mark.parametrize(
    ("others", "near_ties"),
    [
        ([RunnerUp(9, NEAR_TIE_NATS)], 1),
        ([RunnerUp(9, NEAR_TIE_NATS + 0.01)], 0),
        ([RunnerUp(8, 0.0)], 0),
        ([RunnerUp(8, 0.0), RunnerUp(9, 0.0)], 1),
    ],
)
def test_only_a_token_nearly_as_likely_may_take_the_chosen_ones_place(others: list[RunnerUp], near_ties: int) -> None:
    parity = compare_outputs([(3, 4, 5)], [(SURE, tuple(others), SURE)], [(3, 9, 7)])
    assert (parity.identical, parity.near_ties) == (0, near_ties)
    assert (parity.first_difference is None) is bool(near_ties)
    assert parity.share == near_ties
