"""What the earlier stages left, and whether it may be published."""

from __future__ import annotations

from dataclasses import dataclass

from mtp_trainer.contract.configs import PublishConfig
from mtp_trainer.contract.exits import Reason, Stage, StageError
from mtp_trainer.contract.layout import Workspace
from mtp_trainer.contract.results import EvaluateResult, PrepareResult, TrainResult
from mtp_trainer.results import read_result


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
        read_result(workspace, PrepareResult),
        read_result(workspace, TrainResult),
        read_result(workspace, EvaluateResult),
    )
    gate = earlier.evaluate.gate
    if not gate.passed and config.on_gate_failure == "Fail":
        raise StageError(
            gate.reason or Reason.GATE_FAILED,
            f"{workspace.result(Stage.EVALUATE)}: the gate failed ({'; '.join(gate.failures) or 'no rule named'}); "
            "train on more data, or relax evaluation.gate",
        )
    return earlier
