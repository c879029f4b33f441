"""The servers of one evaluation, and what they answered.

Shipped and tuned head are served at the same time and asked in turns, one busy at a time, so that whatever else slows
the machine slows both. Then the verifier without drafting (for parity) and the stitched checkpoint.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from mtp_trainer.contract import AcceptanceCounts, EvaluateConfig, Reason, Stage, StageError, Workspace
from mtp_trainer.engine import Completions, VLLMServer
from mtp_trainer.engine.command import Speculation
from mtp_trainer.evaluate.bootstrap import compare
from mtp_trainer.evaluate.prompts import Prompts
from mtp_trainer.evaluate.rounds import (
    Round,
    Sampling,
    compare_outputs,
    drafted_round,
    plain_round,
    throughput_ratio,
    warm_up,
)
from mtp_trainer.measurements import ParityMeasurement, SetMeasurement, summed

TIMED_ROUNDS = 2
"""Passes over the domain set per head; the first one's counts are used, all are timed."""


@dataclass(frozen=True)
class Measured:
    """All that the servers showed."""

    domain: SetMeasurement
    general: SetMeasurement | None
    stitched: AcceptanceCounts | None
    parity: ParityMeasurement


class Heads:
    """One evaluation's servers.

    Args:
        verifier: the checkpoint with the shipped head; the workspace has the tuned one.

    Raises:
        StageError: ``CheckpointCorrupt`` without a tuned head.
    """

    def __init__(self, config: EvaluateConfig, workspace: Workspace, verifier: Path) -> None:
        if not workspace.head.is_dir():
            raise StageError(
                Reason.CHECKPOINT_CORRUPT, f"{workspace.head}: no tuned head there; run the train stage again"
            )
        self._config = config
        self._workspace = workspace
        self._verifier = verifier
        self._sampling = Sampling(config.max_tokens, config.temperature, config.seed)
        # Parity is always judged on greedy answers.
        self._greedy = Sampling(config.max_tokens, 0.0, config.seed)

    def measure(self, domain: Prompts, general: Prompts) -> Measured:
        """Ask all servers.

        Raises:
            StageError: an engine that can't be used, or prompts that leave no room for an answer.
        """
        shipped, tuned = self._server("shipped", self._verifier), self._server("tuned", self._verifier, True)
        with ExitStack() as stack:
            clients = self._start(stack, shipped, tuned)
            rounds = self._take_turns(clients, domain, TIMED_ROUNDS)
            others = self._take_turns(clients, general, 1) if general else []
            greedy = rounds[0][1] if self._sampling.temperature == 0 else self._pass(clients[1], domain, self._greedy)
        plain, stitched = self._plain_and_stitched(domain)
        return Measured(
            domain=self._compared(rounds),
            general=self._compared(others) if others else None,
            stitched=stitched,
            parity=compare_outputs(plain.tokens, plain.runners_up, greedy.tokens),
        )

    def _compared(self, rounds: list[tuple[Round, Round]]) -> SetMeasurement:
        shipped, tuned = rounds[0]
        compared = compare(shipped.counts, tuned.counts, self._config.num_speculative_tokens, self._config.seed)
        if len(rounds) == 1:
            return compared
        before, after = (tuple(pair[i].tokens_per_second for pair in rounds) for i in (0, 1))
        return compared.model_copy(
            update={
                "shipped": compared.shipped.model_copy(update={"tokens_per_second": before}),
                "tuned": compared.tuned.model_copy(update={"tokens_per_second": after}),
                "tokens_per_second_ratio": throughput_ratio(before, after),
            }
        )

    def _plain_and_stitched(self, domain: Prompts) -> tuple[Round, AcceptanceCounts | None]:
        servers = [VLLMServer(self._verifier, self._log("plain"), self._config.engine, None, self._trust)]
        if self._workspace.stitched.is_dir():
            servers.append(self._server("stitched", self._workspace.stitched))
        with ExitStack() as stack:
            clients = self._start(stack, *servers)
            say("greedy output without drafting")
            plain = plain_round(clients[0], domain, self._greedy)
            stitched = None
            if len(clients) > 1:
                say("the stitched checkpoint")
                stitched = summed(self._pass(clients[1], domain, self._sampling).counts)
        return plain, stitched

    def _start(self, stack: ExitStack, *servers: VLLMServer) -> list[Completions]:
        """Start all, then wait for each: loading is the slow part and can overlap."""
        for server in servers:
            stack.callback(server.stop)
            server.start()
        clients = []
        engine = self._config.engine
        for server in servers:
            server.wait_ready()
            client = Completions(
                server.url, engine.concurrency, engine.request_timeout_seconds, server.raise_if_crashed
            )
            clients.append(stack.enter_context(client))
        return clients

    def _take_turns(self, clients: list[Completions], prompts: Prompts, times: int) -> list[tuple[Round, Round]]:
        for client in clients:
            warm_up(client, prompts, self._sampling)
        pairs = []
        for turn in range(times):
            # Every other pair begins with the tuned head, so that neither always runs on the warmer machine.
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            results = {i: self._pass(clients[i], prompts, self._sampling) for i in order}
            pairs.append((results[0], results[1]))
            lengths = [summed(results[i].counts).mean_acceptance_length or 1.0 for i in (0, 1)]
            say(
                f"round {turn + 1} of {times}, {len(prompts)} prompts: mean acceptance length "
                f"{lengths[0]:.3f} shipped, {lengths[1]:.3f} tuned"
            )
        return pairs

    def _pass(self, client: Completions, prompts: Prompts, sampling: Sampling) -> Round:
        return drafted_round(client, prompts, sampling, client.url)

    def _server(self, name: str, model: Path, overlay: bool = False) -> VLLMServer:
        config = self._config
        head = self._workspace.head if overlay else None
        speculation = Speculation(config.num_speculative_tokens, head, config.draft_sampling)
        return VLLMServer(model, self._log(name), config.engine, speculation, self._trust)

    def _log(self, name: str) -> Path:
        return self._workspace.stage(Stage.EVALUATE) / f"vllm-{name}.log"

    @property
    def _trust(self) -> bool:
        return self._config.trust_remote_code


def say(line: str) -> None:
    """For whoever reads the stage's log."""
    print(line, flush=True)
