"""The evaluate stage, from top to bottom."""

from __future__ import annotations

from mtp_trainer.contract import EvaluateConfig, EvaluateResult, SetEvaluation, TrainResult, Workspace
from mtp_trainer.engine.installed import engine_version
from mtp_trainer.evaluate.gate import judge
from mtp_trainer.evaluate.heads import Heads, Measured, say
from mtp_trainer.evaluate.prompts import read_prompts
from mtp_trainer.evaluate.remarks import remarks
from mtp_trainer.measurements import Measurements, SetMeasurement
from mtp_trainer.report import write_report
from mtp_trainer.results import read_result
from mtp_trainer.sources import verifier_folder
from mtp_trainer.storage import write_file


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

    measured = judged(config, Heads(config, workspace, verifier).measure(domain, general), trained)
    measured = measured.model_copy(update={"warnings": remarks(measured, len(domain), len(general))})
    write_file(workspace.measurements, measured.model_dump_json(by_alias=True, indent=1) + "\n")
    say(f"report: {write_report(workspace, config.model_dump(mode='json', by_alias=True))}")
    return result(measured)


def judged(config: EvaluateConfig, measured: Measured, trained: TrainResult) -> Measurements:
    """The content of ``measurements.json``, without warnings."""
    return Measurements(
        num_speculative_tokens=config.num_speculative_tokens,
        draft_sampling=config.draft_sampling,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        engine=f"vLLM {engine_version()}",
        domain=measured.domain,
        general=measured.general,
        stitched=measured.stitched,
        parity=measured.parity,
        shipped_predicted=trained.shipped_predicted,
        tuned_predicted=trained.tuned_predicted,
        gate=judge(config.gate, measured.domain, measured.general, measured.parity),
    )


def result(measured: Measurements) -> EvaluateResult:
    """What is worth a termination message."""
    return EvaluateResult(
        num_speculative_tokens=measured.num_speculative_tokens,
        domain=_evaluation(measured.domain),
        general=None if measured.general is None else _evaluation(measured.general),
        stitched=measured.stitched,
        output_parity=measured.parity.agrees,
        parity_prompts=measured.parity.prompts,
        gate=measured.gate,
        warnings=measured.warnings,
    )


def _evaluation(measured: SetMeasurement) -> SetEvaluation:
    ratio = measured.tokens_per_second_ratio
    return SetEvaluation(
        shipped=measured.shipped.counts,
        tuned=measured.tuned.counts,
        improvement=round(measured.improvement.value, 4),
        improvement_low=round(measured.improvement.low, 4),
        improvement_high=round(measured.improvement.high, 4),
        tokens_per_second_ratio=None if ratio is None else round(ratio, 4),
    )
