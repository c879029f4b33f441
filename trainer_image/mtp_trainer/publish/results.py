"""What the earlier stages left, and whether it may be published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from mtp_trainer.contract.configs import PublishConfig
from mtp_trainer.contract.exits import Reason, Stage, StageError
from mtp_trainer.contract.layout import Workspace
from mtp_trainer.contract.results import EvaluateResult, FailureResult, PrepareResult, TrainResult, parse_result

ResultT = TypeVar("ResultT", PrepareResult, TrainResult, EvaluateResult)


@dataclass(frozen=True)
class Earlier:
    """Results of the stages before."""

    prepare: PrepareResult
    train: TrainResult
    evaluate: EvaluateResult


def earlier_results(config: PublishConfig) -> Earlier:
    """Read the results of all stages before, and let none pass that failed the gate.

    Raises:
        StageError: ``ConfigInvalid`` when a stage has no result; the gate's reason when it didn't pass, unless
            ``onGateFailure`` is ``Warn``.
    """
    workspace = Workspace(config.workspace)
    earlier = Earlier(
        read(workspace, Stage.PREPARE, PrepareResult),
        read(workspace, Stage.TRAIN, TrainResult),
        read(workspace, Stage.EVALUATE, EvaluateResult),
    )
    gate = earlier.evaluate.gate
    if not gate.passed and config.on_gate_failure == "Fail":
        raise StageError(
            gate.reason or Reason.GATE_FAILED,
            f"{workspace.result(Stage.EVALUATE)}: the gate failed ({'; '.join(gate.failures) or 'no rule named'}); "
            "train on more data, or relax evaluation.gate",
        )
    return earlier


def read(workspace: Workspace, stage: Stage, kind: type[ResultT]) -> ResultT:
    """The result of one stage."""
    path = workspace.result(stage)
    try:
        result = parse_result(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StageError(
            Reason.CONFIG_INVALID, f"{path}: not the result of a finished stage ({error}); run {stage.value} first"
        ) from error
    if isinstance(result, FailureResult) or not isinstance(result, kind):
        raise StageError(
            Reason.CONFIG_INVALID, f"{path}: the {stage.value} stage did not succeed; mend its failure and run it again"
        )
    return result
