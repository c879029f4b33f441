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

    def complete(
        self,
        prompts: Sequence[tuple[int, Sequence[int]]],
        max_tokens: int,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> Iterator[Answer]:
        """Answers in the order in which they finish, ``concurrency`` requests at a time.

        Args:
            prompts: pairs of an index and token ids; the index comes back with the answer.
            max_tokens: longest answer.
            temperature: 0 is greedy.
            seed: each request gets ``seed + index``: one seed for all would make their errors alike.

        Raises:
            StageError: ``EngineNonsense`` for an answer that isn't one, ``EngineCrashed`` when the server is gone.
        """
        queue = iter(prompts)
        with ThreadPoolExecutor(self._concurrency) as pool:
            running: set[Future[Answer]] = set()
            try:
                while True:
                    while len(running) < self._concurrency and (item := next(queue, None)) is not None:
                        running.add(pool.submit(self._one, *item, max_tokens, temperature, seed))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                for future in running:
                    future.cancel()

    def _one(self, index: int, prompt: Sequence[int], max_tokens: int, temperature: float, seed: int | None) -> Answer:
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
        response = self._send("POST", "/v1/completions", body)
        return read_answer(index, response, f"{self.url}/v1/completions")

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
                    raise StageError(
                        Reason.ENGINE_NONSENSE,
                        f"{self.url}{path}: HTTP {response.status_code}: {response.text[:300]}",
                        ExitCode.FAILED,
                    )
            time.sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable")


def read_answer(index: int, response: httpx.Response, url: str) -> Answer:
    """Check and read one completion.

    Raises:
        StageError: ``EngineNonsense``, quoting the beginning of what came.
    """
    try:
        body = response.json()
        choice = body["choices"][0]
        ids = choice["token_ids"]
        if len(body["choices"]) != 1 or not ids or not all(isinstance(i, int) and i >= 0 for i in ids):
            raise ValueError("not one choice with token ids")
        return Answer(
            index,
            tuple(ids),
            str(choice["text"]),
            str(choice["finish_reason"]),
            _acceptance((body.get("metrics") or {}).get("speculative_decoding")),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise StageError(
            Reason.ENGINE_NONSENSE,
            f"{url}: not a completion with token ids ({type(error).__name__}: {error}), but {response.text[:200]!r}; "
            "use the vLLM version that the trainer image brings",
            ExitCode.FAILED,
        ) from error


def _acceptance(metrics: dict[str, Any] | None) -> AcceptanceCounts | None:
    """From vLLM's histogram, whose entry j counts the steps that accepted exactly j drafted tokens."""
    if metrics is None:
        return None
    histogram = [int(n) for n in metrics["acceptance_histogram"]]
    return AcceptanceCounts(
        drafts=int(metrics["num_spec_steps"]),
        accepted=tuple(sum(histogram[i + 1 :]) for i in range(len(histogram) - 1)),
    )
