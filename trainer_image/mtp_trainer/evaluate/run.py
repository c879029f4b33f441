"""The evaluate stage, from top to bottom.

Shipped and tuned head are served at the same time and asked in turns, one busy at a time, so that whatever else slows
the machine slows both. Then the verifier without drafting (for parity) and the stitched checkpoint.
"""

from __future__ import annotations

from contextlib import ExitStack
from importlib import metadata
from pathlib import Path

from mtp_trainer.contract import (
    AcceptanceCounts,
    EvaluateConfig,
    EvaluateResult,
    Reason,
    SetEvaluation,
    Stage,
    StageError,
    TrainResult,
    Workspace,
)
from mtp_trainer.engine import Completions, VLLMServer
from mtp_trainer.engine.command import Speculation
from mtp_trainer.evaluate.bootstrap import compare
from mtp_trainer.evaluate.gate import judge
from mtp_trainer.evaluate.measurements import Measurements, SetMeasurement, summed
from mtp_trainer.evaluate.prompts import Prompts, read_prompts
from mtp_trainer.evaluate.rounds import (
    Round,
    Sampling,
    compare_outputs,
    drafted_round,
    plain_round,
    throughput_ratio,
    warm_up,
)
from mtp_trainer.results import read_result
from mtp_trainer.sources import verifier_folder
from mtp_trainer.storage import write_file

TIMED_ROUNDS = 3
"""Passes over the domain set per head; the first one's counts are used, all are timed."""

PREDICTION_GAP = 0.05
"""Difference between served and predicted acceptance at a position that is worth a warning."""


def run(config: EvaluateConfig) -> EvaluateResult:
    """Measure, judge, and write ``measurements.json`` and ``report.html``.

    A head that fails the gate is a result, not an error.

    Raises:
        StageError: missing inputs, or an engine that can't be used.
    """
    workspace = Workspace(config.workspace)
    verifier = verifier_folder(config.verifier, workspace)
    trained = read_result(workspace, TrainResult)
    domain = read_prompts(workspace.domain_prompts)
    general = read_prompts(workspace.general_prompts) if workspace.general_prompts.is_file() else []

    measured = _Heads(config, workspace, verifier).measure(domain, general)
    gate = judge(config.gate, measured.domain, measured.general, measured.parity)
    measurements = measured.model_copy(
        update={
            "gate": gate,
            "shipped_predicted": trained.shipped_predicted,
            "tuned_predicted": trained.tuned_predicted,
        }
    )
    measurements = measurements.model_copy(update={"warnings": tuple(_warnings(measurements))})
    write_file(workspace.measurements, measurements.model_dump_json(by_alias=True, indent=1) + "\n")
    # The report reads this package's measurements: imported here, either package can be imported first.
    from mtp_trainer.report import write_report

    report = write_report(workspace, config.model_dump(mode="json", by_alias=True))
    _say(f"report: {report}")
    return EvaluateResult(
        num_speculative_tokens=config.num_speculative_tokens,
        domain=_evaluation(measurements.domain),
        general=None if measurements.general is None else _evaluation(measurements.general),
        stitched=measurements.stitched,
        output_parity=gate.reason is not Reason.OUTPUT_MISMATCH,
        parity_prompts=measurements.parity.prompts,
        gate=gate,
        warnings=measurements.warnings,
    )


class _Heads:
    """The servers of one evaluation."""

    def __init__(self, config: EvaluateConfig, workspace: Workspace, verifier: Path) -> None:
        self._config = config
        self._workspace = workspace
        self._verifier = verifier
        self._sampling = Sampling(config.max_tokens, config.temperature, config.seed)
        # Parity and the stitched checkpoint are always judged on greedy answers.
        self._greedy = Sampling(config.max_tokens, 0.0, config.seed)

    def measure(self, domain: Prompts, general: Prompts) -> Measurements:
        depth, seed = self._config.num_speculative_tokens, self._config.seed
        shipped, tuned = self._server("shipped", self._verifier), self._server("tuned", self._verifier, True)
        with ExitStack() as stack:
            clients = self._start(stack, shipped, tuned)
            rounds = self._take_turns(clients, domain, TIMED_ROUNDS)
            others = self._take_turns(clients, general, 1) if general else []
            greedy = rounds[0][1] if self._sampling.temperature == 0 else self._pass(clients[1], domain, self._greedy)
        drafted = greedy.tokens
        set_general = None
        if others:
            set_general = compare(others[0][0].counts, others[0][1].counts, depth, seed)
        before, after = ([pair[i].tokens_per_second for pair in rounds] for i in (0, 1))
        compared = compare(rounds[0][0].counts, rounds[0][1].counts, depth, seed)
        set_domain = compared.model_copy(
            update={
                "shipped": compared.shipped.model_copy(update={"tokens_per_second": tuple(before)}),
                "tuned": compared.tuned.model_copy(update={"tokens_per_second": tuple(after)}),
                "tokens_per_second_ratio": throughput_ratio(before, after),
            }
        )
        plain, stitched = self._plain_and_stitched(domain)
        parity = compare_outputs(plain.tokens, drafted)
        return Measurements(
            num_speculative_tokens=depth,
            draft_sampling=self._config.draft_sampling,
            temperature=self._config.temperature,
            max_tokens=self._config.max_tokens,
            engine=f"vLLM {metadata.version('vllm')}",
            domain=set_domain,
            general=set_general,
            stitched=stitched,
            parity=parity,
            # Replaced by the caller: the gate judges these very figures.
            gate=judge(self._config.gate, set_domain, set_general, parity),
        )

    def _plain_and_stitched(self, domain: Prompts) -> tuple[Round, AcceptanceCounts | None]:
        servers = [VLLMServer(self._verifier, self._log("plain"), self._config.engine, None, self._trust)]
        if self._workspace.stitched.is_dir():
            servers.append(self._server("stitched", self._workspace.stitched))
        with ExitStack() as stack:
            clients = self._start(stack, *servers)
            _say("greedy output without drafting")
            plain = plain_round(clients[0], domain, self._greedy)
            stitched = None
            if len(clients) > 1:
                _say("the stitched checkpoint")
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
            _say(
                f"round {turn + 1} of {times}, {len(prompts)} prompts: mean acceptance length "
                f"{lengths[0]:.3f} shipped, {lengths[1]:.3f} tuned"
            )
        return pairs

    def _pass(self, client: Completions, prompts: Prompts, sampling: Sampling) -> Round:
        return drafted_round(client, prompts, sampling, client.url)

    def _server(self, name: str, model: Path, overlay: bool = False) -> VLLMServer:
        config = self._config
        head = self._workspace.head if overlay else None
        if head is not None and not head.is_dir():
            raise StageError(Reason.CHECKPOINT_CORRUPT, f"{head}: no tuned head there; run the train stage first")
        speculation = Speculation(config.num_speculative_tokens, head, config.draft_sampling)
        return VLLMServer(model, self._log(name), config.engine, speculation, self._trust)

    def _log(self, name: str) -> Path:
        return self._workspace.stage(Stage.EVALUATE) / f"vllm-{name}.log"

    @property
    def _trust(self) -> bool:
        return self._config.trust_remote_code


def _evaluation(measured: SetMeasurement) -> SetEvaluation:
    return SetEvaluation(
        shipped=measured.shipped.counts,
        tuned=measured.tuned.counts,
        improvement=round(measured.improvement.value, 4),
        improvement_low=round(measured.improvement.low, 4),
        improvement_high=round(measured.improvement.high, 4),
        tokens_per_second_ratio=(
            None if measured.tokens_per_second_ratio is None else round(measured.tokens_per_second_ratio, 4)
        ),
    )


def _warnings(measured: Measurements) -> list[str]:
    warnings = []
    for head, predicted in (("shipped", measured.shipped_predicted), ("tuned", measured.tuned_predicted)):
        served = (measured.domain.shipped if head == "shipped" else measured.domain.tuned).counts.rates
        for position, (offline, online) in enumerate(zip(predicted, served, strict=False)):
            if abs(offline - online) > PREDICTION_GAP:
                warnings.append(
                    f"{head} head, position {position}: training predicted {offline:.3f}, vLLM accepted {online:.3f}; "
                    "validation and evaluation data differ, or training and serving do"
                )
    if measured.stitched is not None and measured.stitched != measured.domain.tuned.counts:
        warnings.append(
            f"the stitched checkpoint gave {measured.stitched.drafts} drafts and {measured.stitched.accepted}, "
            f"the overlay {measured.domain.tuned.counts.drafts} and {measured.domain.tuned.counts.accepted}"
        )
    return warnings


def _say(line: str) -> None:
    print(line, flush=True)
