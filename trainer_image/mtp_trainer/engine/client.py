"""Requests to a vLLM server: token ids in, token ids out, so that no tokenizer stands between what was written and
what is trained or compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import httpx

from mtp_trainer.contract import AcceptanceCounts, ExitCode, Reason, StageError
from mtp_trainer.engine.counters import EngineCounters, parse_counters

TRIES = 3
PAUSE_SECONDS = 0.5
"""Before the second try; doubled before each further one."""

RUNNERS_UP = 5
"""Tokens by place whose log-probabilities are asked for."""

FINISHED = ("stop", "length")
"""Endings of a whole answer; an aborted one is a part of it."""


@dataclass(frozen=True)
class RunnerUp:
    """A likely token that wasn't chosen at some place."""

    token_id: int
    behind: float
    """Nats between the chosen token's log-probability and this one's; negative where this one was likelier."""


@dataclass(frozen=True)
class Answer:
    """One completion."""

    index: int
    """Of its prompt."""
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    """``stop`` (the model ended its turn) or ``length``."""
    acceptance: AcceptanceCounts | None
    """This request's own counts, when the server drafts."""
    runners_up: tuple[tuple[RunnerUp, ...], ...] = ()
    """By token, when they were asked for: the likeliest but the chosen one."""


class Completions:
    """A client of one server.

    Args:
        url: the server's, without a path.
        concurrency: requests in flight at once.
        timeout_seconds: for one request.
        on_lost: called after a lost connection, to raise if the server has crashed.
    """

    def __init__(
        self,
        url: str,
        concurrency: int,
        timeout_seconds: float,
        on_lost: Callable[[], None] = lambda: None,
        model: str = "model",
    ) -> None:
        self.url = url
        self._concurrency = concurrency
        self._on_lost = on_lost
        self._model = model
        self._max_model_len: int | None = None
        limits = httpx.Limits(max_connections=concurrency + 1)
        # trust_env off: a proxy from the environment must not see loopback traffic.
        self._http = httpx.Client(timeout=timeout_seconds, limits=limits, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Completions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def counters(self) -> EngineCounters:
        """The server's speculative-decoding counters now.

        Raises:
            StageError: ``EngineNonsense`` or ``EngineCrashed``.
        """
        return parse_counters(self._send("GET", "/metrics").text, f"{self.url}/metrics")

    def max_model_len(self) -> int:
        """Longest prompt and answer together, in tokens, that the server takes.

        Raises:
            StageError: ``EngineNonsense`` or ``EngineCrashed``.
        """
        if self._max_model_len is None:
            response = self._send("GET", "/v1/models")
            try:
                self._max_model_len = int(response.json()["data"][0]["max_model_len"])
            except (ValueError, KeyError, IndexError, TypeError) as error:
                raise _nonsense(f"{self.url}/v1/models", "a list of models", error, response) from error
        return self._max_model_len

    def complete(
        self,
        prompts: Sequence[tuple[int, Sequence[int]]],
        max_tokens: int,
        temperature: float = 0.0,
        seed: int | None = None,
        runners_up: bool = False,
    ) -> Iterator[Answer]:
        """Answers in the order in which they finish, ``concurrency`` requests at a time.

        Args:
            prompts: pairs of an index and token ids; the index comes back with the answer. A prompt that leaves no
                room for an answer is left out.
            max_tokens: longest answer; shorter where the context ends.
            temperature: 0 is greedy.
            seed: each request gets ``seed + index``: one seed for all would make their errors alike.
            runners_up: ask for the likeliest other tokens at every place, too.

        Raises:
            StageError: ``EngineNonsense`` for an answer that isn't one, ``EngineCrashed`` when the server is gone.
        """
        room = self.max_model_len()
        queue = iter([(index, ids, min(max_tokens, room - len(ids))) for index, ids in prompts if len(ids) < room])
        with ThreadPoolExecutor(self._concurrency) as pool:
            running: set[Future[Answer]] = set()
            try:
                while True:
                    while len(running) < self._concurrency and (item := next(queue, None)) is not None:
                        running.add(pool.submit(self._one, *item, temperature, seed, runners_up))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in running:
                    future.cancel()

    def _one(
        self,
        index: int,
        prompt: Sequence[int],
        max_tokens: int,
        temperature: float,
        seed: int | None,
        runners_up: bool,
    ) -> Answer:
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": max_tokens,
            "temperature": temperature,
            "return_token_ids": True,
            "add_special_tokens": False,
        }
        if seed is not None and temperature > 0:
            body["seed"] = seed + index
        if runners_up:
            body |= {"logprobs": RUNNERS_UP, "return_tokens_as_token_ids": True}
        response = self._send("POST", "/v1/completions", body)
        return read_answer(index, response, f"{self.url}/v1/completions", max_tokens)

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        for attempt in range(TRIES):
            try:
                response = self._http.request(method, self.url + path, json=body)
            except httpx.TransportError as error:
                self._on_lost()
                if attempt == TRIES - 1:
                    raise StageError(
                        Reason.ENGINE_CRASHED,
                        f"{self.url}{path}: no answer after {TRIES} tries ({type(error).__name__}: {error})",
                        ExitCode.FAILED,
                    ) from error
            else:
                if response.status_code < 400:
                    return response
                if response.status_code < 500 or attempt == TRIES - 1:
                    # A server whose engine has died still answers for a moment, with errors.
                    if response.status_code >= 500:
                        self._on_lost()
                    raise StageError(
                        Reason.ENGINE_NONSENSE,
                        f"{self.url}{path}: HTTP {response.status_code}: {response.text[:300]}",
                        ExitCode.FAILED,
                    )
            time.sleep(PAUSE_SECONDS * 2**attempt)
        raise AssertionError("unreachable")


def read_answer(index: int, response: httpx.Response, url: str, max_tokens: int) -> Answer:
    """Check and read one completion.

    Raises:
        StageError: ``EngineNonsense``, quoting the beginning of what came.
    """
    try:
        body = response.json()
        (choice,) = body["choices"]
        ids = choice["token_ids"]
        if not ids or len(ids) > max_tokens or not all(isinstance(i, int) and i >= 0 for i in ids):
            raise ValueError(f"not 1 to {max_tokens} token ids")
        text, finish_reason = choice["text"], choice["finish_reason"]
        if not isinstance(text, str):
            raise ValueError(f"the text is {text!r}")
        if finish_reason not in FINISHED:
            raise ValueError(f"it ended with {finish_reason!r}")
        return Answer(
            index,
            tuple(ids),
            text,
            finish_reason,
            _acceptance((body.get("metrics") or {}).get("speculative_decoding")),
            _runners_up(ids, choice.get("logprobs")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _nonsense(url, "a completion with token ids", error, response) from error


def _nonsense(url: str, expected: str, error: Exception, response: httpx.Response) -> StageError:
    return StageError(
        Reason.ENGINE_NONSENSE,
        f"{url}: not {expected} ({type(error).__name__}: {error}), but {response.text[:200]!r}; "
        "use the vLLM version that the trainer image brings",
        ExitCode.FAILED,
    )


def _runners_up(ids: Sequence[int], logprobs: dict[str, Any] | None) -> tuple[tuple[RunnerUp, ...], ...]:
    """From vLLM's log-probabilities, whose keys are ``token_id:N`` where ids were asked for."""
    if logprobs is None:
        return ()
    found = []
    for chosen, top in zip(ids, logprobs["top_logprobs"], strict=True):
        by_id = {int(key.removeprefix("token_id:")): float(value) for key, value in top.items()}
        own = by_id.pop(chosen)
        found.append(tuple(RunnerUp(other, own - value) for other, value in by_id.items()))
    return tuple(found)


def _acceptance(metrics: dict[str, Any] | None) -> AcceptanceCounts | None:
    """From vLLM's histogram, whose entry j counts the steps that accepted exactly j drafted tokens."""
    if metrics is None:
        return None
    histogram = [int(n) for n in metrics["acceptance_histogram"]]
    return AcceptanceCounts(
        drafts=int(metrics["num_spec_steps"]),
        accepted=tuple(sum(histogram[i + 1 :]) for i in range(len(histogram) - 1)),
    )
