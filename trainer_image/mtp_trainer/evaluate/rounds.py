"""Measurements on running servers: timed rounds that take turns, and counts that are checked against the counters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from mtp_trainer.contract import AcceptanceCounts, ExitCode, Reason, StageError
from mtp_trainer.engine import Completions
from mtp_trainer.engine.client import RunnerUp
from mtp_trainer.evaluate.prompts import Prompts
from mtp_trainer.measurements import NEAR_TIE_NATS, ParityMeasurement, summed

WARM_UP_PROMPTS = 4


@dataclass(frozen=True)
class Sampling:
    """How the servers are asked to answer."""

    max_tokens: int
    temperature: float
    seed: int


@dataclass(frozen=True)
class Round:
    """One pass over a set of prompts on one server, in the order of the prompts."""

    tokens: list[tuple[int, ...]]
    counts: list[AcceptanceCounts]
    """Per prompt; empty without drafting."""
    tokens_per_second: float
    runners_up: list[tuple[tuple[RunnerUp, ...], ...]]
    """Per prompt and token, of a round without drafting."""


def warm_up(client: Completions, prompts: Prompts, sampling: Sampling) -> None:
    """A few answers that aren't counted: the first requests of a server pay for its caches."""
    for _ in client.complete(prompts[:WARM_UP_PROMPTS], min(16, sampling.max_tokens), sampling.temperature):
        pass


def drafted_round(client: Completions, prompts: Prompts, sampling: Sampling, url: str) -> Round:
    """One pass with drafting.

    Raises:
        StageError: ``EngineNonsense`` when the requests' own counts are missing, or don't add up to the server's
            counters; ``DatasetInvalid`` when no prompt leaves room for an answer.
    """
    before = client.counters()
    result = _ask(client, prompts, sampling, runners_up=False)
    if len(result.counts) != len(result.tokens):
        raise StageError(
            Reason.ENGINE_NONSENSE,
            f"{url}: {len(result.tokens) - len(result.counts)} of {len(result.tokens)} answers say nothing about their "
            "drafts; use the vLLM version that the trainer image brings",
            ExitCode.FAILED,
        )
    counted, own = client.counters().since(before), summed(result.counts)
    if (counted.drafts, counted.accepted) != (own.drafts, own.accepted):
        raise StageError(
            Reason.ENGINE_NONSENSE,
            f"{url}: its counters say {counted.drafts} drafts, {counted.accepted} accepted, the requests' own figures "
            f"{own.drafts}, {own.accepted}; something else used the server, a lost request was repeated, or its "
            "version counts otherwise",
            ExitCode.FAILED,
        )
    return result


def plain_round(client: Completions, prompts: Prompts, sampling: Sampling) -> Round:
    """One pass without drafting, with the likeliest other tokens at every place.

    Raises:
        StageError: ``DatasetInvalid`` when no prompt leaves room for an answer.
    """
    return _ask(client, prompts, sampling, runners_up=True)


def _ask(client: Completions, prompts: Prompts, sampling: Sampling, runners_up: bool) -> Round:
    """One pass over the prompts; those that leave no room for an answer are left out."""
    began = time.perf_counter()
    answers = list(client.complete(prompts, sampling.max_tokens, sampling.temperature, sampling.seed, runners_up))
    seconds = time.perf_counter() - began
    if not answers:
        raise StageError(
            Reason.DATASET_INVALID,
            f"none of {len(prompts)} prompts leaves room for an answer within {client.max_model_len()} tokens; "
            "raise engine.maxModelLen, or name a dataset with shorter prompts",
        )
    answers.sort(key=lambda answer: answer.index)
    return Round(
        tokens=[answer.token_ids for answer in answers],
        counts=[answer.acceptance for answer in answers if answer.acceptance is not None],
        tokens_per_second=sum(len(answer.token_ids) for answer in answers) / seconds,
        runners_up=[answer.runners_up for answer in answers],
    )


def throughput_ratio(shipped: Sequence[float], tuned: Sequence[float]) -> float | None:
    """Median over neighbouring rounds of tuned over shipped tokens per second: drift hits both rounds of a pair."""
    pairs = [after / before for before, after in zip(shipped, tuned, strict=True) if before > 0]
    return median(pairs) if pairs else None


def compare_outputs(
    plain: Sequence[Sequence[int]], runners_up: Sequence[Sequence[Sequence[RunnerUp]]], drafted: Sequence[Sequence[int]]
) -> ParityMeasurement:
    """Token by token, prompt by prompt; ``plain`` and its ``runners_up`` were written without drafting."""
    first, identical, near_ties = None, 0, 0
    for number, (without, others, with_drafts) in enumerate(zip(plain, runners_up, drafted, strict=True)):
        if list(without) == list(with_drafts):
            identical += 1
            continue
        place = next(
            (i for i, (a, b) in enumerate(zip(without, with_drafts, strict=False)) if a != b),
            min(len(without), len(with_drafts)),
        )
        if _near_tie(place, others, with_drafts):
            near_ties += 1
        elif first is None:
            first = f"prompt {number}, token {place} of {len(without)}"
    return ParityMeasurement(prompts=len(plain), identical=identical, near_ties=near_ties, first_difference=first)


def _near_tie(place: int, others: Sequence[Sequence[RunnerUp]], with_drafts: Sequence[int]) -> bool:
    if place >= min(len(others), len(with_drafts)):
        return False
    return any(o.token_id == with_drafts[place] and o.behind <= NEAR_TIE_NATS for o in others[place])
