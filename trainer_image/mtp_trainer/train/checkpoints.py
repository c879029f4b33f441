"""Checkpoints of a run in training.

::

    checkpoints/
      step-000200/
        head.safetensors        parameters, float32, under the verifier's names
        optimizer.safetensors   first and second moments of each parameter, float32
        state.json              step, best validation, configuration digest, SHA-256 of the two files

A folder gets its name when it is whole (see :mod:`mtp_trainer.storage`), and its hashes are checked on load: a damaged
one is passed over for the one before. Batches and learning rates follow from the step, so there is no other state.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtp_trainer.checkpoints import read_header, write_tensors
from mtp_trainer.checkpoints.tensors import read_tensor
from mtp_trainer.contract import Reason, StageError
from mtp_trainer.head import MTPHead
from mtp_trainer.storage import file_digest, new_folder

HEAD, OPTIMIZER, STATE = "head.safetensors", "optimizer.safetensors", "state.json"
KEPT = 2


@dataclass(frozen=True)
class Best:
    """The best validation so far; step 0 is the shipped head, which isn't a candidate."""

    step: int
    mean_acceptance_length: float
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Resumed:
    """What a run goes on from."""

    step: int
    best: Best | None
    first_loss: float
    passed_over: tuple[str, ...]
    """Sentences about damaged checkpoints."""


class TrainCheckpoints:
    """The folder of one run's checkpoints."""

    def __init__(self, folder: Path, config_digest: str) -> None:
        self._folder, self._config_digest = folder, config_digest

    def save(self, step: int, head: MTPHead, optimizer: torch.optim.Optimizer, best: Best | None, first: float) -> None:
        """Write a checkpoint after ``step`` optimiser steps, then remove those no longer needed.

        Raises:
            StageError: ``DiskFull`` or ``OutputNotWritable``; earlier checkpoints stay.
        """
        target = self._path(step)
        if not target.is_dir():
            with new_folder(target) as folder:
                write_tensors(folder / HEAD, head.to_tensors())
                write_tensors(folder / OPTIMIZER, _moments(head, optimizer))
                state = {
                    "step": step,
                    "config": self._config_digest,
                    "firstLoss": first,
                    "best": None if best is None else asdict(best),
                    "sha256": {name: file_digest(folder / name).sha256 for name in (HEAD, OPTIMIZER)},
                }
                (folder / STATE).write_text(json.dumps(state), encoding="utf-8")
        self._prune(best)

    def resume(self, head: MTPHead, optimizer: torch.optim.Optimizer) -> Resumed | None:
        """Load the newest whole checkpoint into head and optimiser; None when there is none at all.

        Raises:
            StageError: ``ConfigInvalid`` when they belong to another configuration, ``CheckpointCorrupt`` when all are
                damaged.
        """
        damaged: list[str] = []
        for step in reversed(self._steps()):
            try:
                state = self._verified(step)
            except (OSError, ValueError, KeyError, StageError) as error:
                damaged.append(f"{self._path(step)} is damaged ({error}); went on from the one before")
                continue
            if state["config"] != self._config_digest:
                raise StageError(
                    Reason.CONFIG_INVALID,
                    f"{self._path(step)}: belongs to another configuration or verifier; "
                    "use a new workspace, or remove its train folder",
                )
            self._load(step, head, optimizer)
            best = state["best"]
            return Resumed(
                step,
                None if best is None else Best(best["step"], best["mean_acceptance_length"], tuple(best["rates"])),
                float(state["firstLoss"]),
                tuple(damaged),
            )
        if damaged:
            raise StageError(
                Reason.CHECKPOINT_CORRUPT,
                f"{self._folder}: every checkpoint is damaged ({damaged[0]}); remove the folder to start again",
            )
        return None

    def head(self, step: int) -> dict[str, Tensor]:
        """The head's tensors of one checkpoint.

        Raises:
            StageError: ``CheckpointCorrupt``.
        """
        try:
            self._verified(step)
        except (OSError, ValueError, KeyError) as error:
            raise StageError(Reason.CHECKPOINT_CORRUPT, f"{self._path(step)}: damaged ({error})") from error
        return _read(self._path(step) / HEAD)

    def _verified(self, step: int) -> dict[str, object] | dict[str, object]:
        path = self._path(step)
        state: dict[str, object] = json.loads((path / STATE).read_text(encoding="utf-8"))
        hashes = state["sha256"]
        assert isinstance(hashes, dict)  # noqa: S101 - narrows the type of what this module wrote
        for name, expected in hashes.items():
            if file_digest(path / name).sha256 != expected:
                raise StageError(Reason.CHECKPOINT_CORRUPT, f"{name} does not have the hash that was recorded")
        return state

    def _load(self, step: int, head: MTPHead, optimizer: torch.optim.Optimizer) -> None:
        tensors, moments = _read(self._path(step) / HEAD), _read(self._path(step) / OPTIMIZER)
        parameters = dict(head.named_parameters())
        with torch.no_grad():
            for parameter, name in head.family.tensor_names.items():
                parameters[parameter].copy_(tensors[name])
        for parameter in parameters:
            mean = moments[f"{parameter}.exp_avg"]
            optimizer.state[parameters[parameter]] = {
                "step": torch.tensor(float(step)),
                "exp_avg": mean.to(parameters[parameter].device),
                "exp_avg_sq": moments[f"{parameter}.exp_avg_sq"].to(parameters[parameter].device),
            }

    def _prune(self, best: Best | None) -> None:
        steps = self._steps()
        keep = {*steps[-KEPT:], *([] if best is None else [best.step])}
        for step in steps:
            if step not in keep:
                shutil.rmtree(self._path(step), ignore_errors=True)

    def _steps(self) -> list[int]:
        return sorted(int(path.name.removeprefix("step-")) for path in self._folder.glob("step-*") if path.is_dir())

    def _path(self, step: int) -> Path:
        return self._folder / f"step-{step:06d}"


def _moments(head: MTPHead, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    moments = {}
    for name, parameter in head.named_parameters():
        for kind in ("exp_avg", "exp_avg_sq"):
            moments[f"{name}.{kind}"] = optimizer.state[parameter][kind].detach().cpu().contiguous()
    return moments


def _read(path: Path) -> dict[str, Tensor]:
    return {name: read_tensor(path.parent, info) for name, info in read_header(path).items()}
