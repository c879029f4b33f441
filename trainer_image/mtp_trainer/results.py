"""What a stage finds of the stages before it."""

from __future__ import annotations

from typing import TypeVar

from mtp_trainer.contract.exits import Reason, Stage, StageError
from mtp_trainer.contract.layout import Workspace
from mtp_trainer.contract.results import EvaluateResult, FailureResult, PrepareResult, TrainResult, parse_result

ResultT = TypeVar("ResultT", PrepareResult, TrainResult, EvaluateResult)


def read_result(workspace: Workspace, kind: type[ResultT]) -> ResultT:
    """The result of the stage that ends with a ``kind``.

    Raises:
        StageError: ``ConfigInvalid``, naming the file and the stage to run.
    """
    stage: Stage = kind.model_fields["stage"].default
    path = workspace.result(stage)
    try:
        result = parse_result(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StageError(Reason.CONFIG_INVALID, f"{path}: not there; run the {stage.lower()} stage first") from error
    except (OSError, ValueError) as error:
        raise StageError(
            Reason.CONFIG_INVALID, f"{path}: not a stage's result ({error}); run the {stage.lower()} stage again"
        ) from error
    if isinstance(result, FailureResult):
        raise StageError(
            Reason.CONFIG_INVALID,
            f"{path}: the {stage.lower()} stage failed ({result.reason}: {result.message}); mend that and run it again",
        )
    if not isinstance(result, kind):
        raise StageError(
            Reason.CONFIG_INVALID,
            f"{path}: the result of the {result.stage.lower()} stage; run the {stage.lower()} stage again",
        )
    return result
