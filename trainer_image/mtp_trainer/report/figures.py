"""Everything that the report shows, read from a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mtp_trainer.contract import PrepareResult, Reason, Stage, StageError, TrainResult, Workspace
from mtp_trainer.measurements import Measurements, SetMeasurement, read_measurements
from mtp_trainer.report.history import Curves, read_curves
from mtp_trainer.results import read_result

ResultT = TypeVar("ResultT", PrepareResult, TrainResult)


@dataclass(frozen=True)
class Figures:
    """The report's content. Only ``measurements`` is always there."""

    measurements: Measurements
    configuration: Mapping[str, Any]
    prepared: PrepareResult | None = None
    trained: TrainResult | None = None
    curves: Curves | None = None
    unreadable: tuple[str, ...] = ()
    """Of files that are there and say nothing usable: what is wrong. The page says so where it lists warnings."""


def read_figures(workspace: Workspace, configuration: Mapping[str, Any]) -> Figures:
    """Read all inputs; optional ones may be missing.

    Raises:
        StageError: ``ConfigInvalid`` without measurements, naming the file and the stage to run.
    """
    unreadable: list[str] = []
    return Figures(
        measurements=_measurements(workspace.measurements),
        configuration=configuration,
        prepared=_result(workspace, Stage.PREPARE, PrepareResult, unreadable),
        trained=_result(workspace, Stage.TRAIN, TrainResult, unreadable),
        curves=read_curves(workspace.history),
        unreadable=tuple(unreadable),
    )


def round_ratios(measured: SetMeasurement) -> tuple[float, ...]:
    """Tuned over shipped tokens per second, of each pair of neighbouring rounds."""
    pairs = zip(measured.shipped.tokens_per_second, measured.tuned.tokens_per_second, strict=False)
    return tuple(after / before for before, after in pairs if before > 0)


def _measurements(path: Path) -> Measurements:
    try:
        return read_measurements(path)
    except FileNotFoundError as error:
        raise StageError(Reason.CONFIG_INVALID, f"{path}: not there; run the evaluate stage first") from error
    except (OSError, ValueError) as error:
        raise StageError(
            Reason.CONFIG_INVALID, f"{path}: cannot be read ({error}); run the evaluate stage again"
        ) from error


def _result(workspace: Workspace, stage: Stage, kind: type[ResultT], unreadable: list[str]) -> ResultT | None:
    if not workspace.result(stage).exists():
        return None
    try:
        return read_result(workspace, kind)
    except StageError as error:
        unreadable.append(error.message)
        return None
