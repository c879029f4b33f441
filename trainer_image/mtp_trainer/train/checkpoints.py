"""Checkpoints of a run in training.

::

    checkpoints/
      step-000200/
        head.safetensors        parameters, float32, under the verifier's names
        optimizer.safetensors   first and second moments of each parameter, float32
        state.json              step, best validation, losses, configuration digest; SHA-256 of all three

A folder gets its name when it is whole (see :mod:`mtp_trainer.storage`), and its hashes are checked on load: a damaged
one is removed, and the one before is gone on from. Batches and learning rates follow from the step, so there is no
other state.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
    last_loss: float
    damaged: tuple[str, ...]
    """Sentences about checkpoints that were removed."""


class TrainCheckpoints:
    """The folder of one run's checkpoints."""

    def __init__(self, folder: Path, config_digest: str) -> None:
        self._folder, self._config_digest = folder, config_digest
        self._best_at: dict[int, int] = {}

    def save(
        self,
        step: int,
        head: MTPHead,
        optimizer: torch.optim.Optimizer,
        best: Best | None,
        first_loss: float,
        last_loss: float,
    ) -> None:
        """Write a checkpoint after ``step`` optimiser steps, then remove those no longer needed.

        Raises:
            StageError: ``DiskFull`` or ``OutputNotWritable``; earlier checkpoints stay.
        """
        with new_folder(self._path(step)) as folder:
            write_tensors(folder / HEAD, head.to_tensors())
            write_tensors(folder / OPTIMIZER, _moments(head, optimizer))
            state = {
                "step": step,
                "config": self._config_digest,
                "firstLoss": first_loss,
                "lastLoss": last_loss,
                "best": None if best is None else asdict(best),
            }
            hashes = {name: file_digest(folder / name).sha256 for name in (HEAD, OPTIMIZER)}
            content = {"state": state, "sha256": {**hashes, STATE: _state_digest(state)}}
            (folder / STATE).write_text(json.dumps(content), encoding="utf-8")
        self._prune(step, best)

    def resume(self, head: MTPHead, optimizer: torch.optim.Optimizer) -> Resumed | None:
        """Load the newest whole checkpoint into head and optimiser; None when there is none at all.

        Damaged ones that are newer are removed: the run comes to their steps again.

        Raises:
            StageError: ``ConfigInvalid`` when they belong to another configuration, ``CheckpointCorrupt`` when all are
                damaged.
        """
        damaged: dict[int, StageError] = {}
        for step in reversed(self._steps()):
            try:
                state = self._verified(step)
            except StageError as error:
                damaged[step] = error
                continue
            if state["config"] != self._config_digest:
                raise StageError(
                    Reason.CONFIG_INVALID,
                    f"{self._path(step)}: belongs to another configuration or verifier; "
                    "use a new workspace, or remove its train folder",
                )
            self._load(step, head, optimizer)
            for newer in damaged:
                shutil.rmtree(self._path(newer))
            if (best := _best(state)) is not None:
                self._best_at[step] = best.step
            return Resumed(
                step,
                best,
                float(state["firstLoss"]),
                float(state["lastLoss"]),
                tuple(f"{error.message}; went on from step {step}" for error in damaged.values()),
            )
        if damaged:
            raise StageError(
                Reason.CHECKPOINT_CORRUPT,
                f"{self._folder}: every checkpoint is damaged ({next(iter(damaged.values())).message}); "
                "remove the folder to start again",
            )
        return None

    def head(self, step: int) -> dict[str, Tensor]:
        """The head's tensors of one checkpoint.

        Raises:
            StageError: ``CheckpointCorrupt``.
        """
        self._verified(step)
        return _read(self._path(step) / HEAD)

    def _verified(self, step: int) -> dict[str, Any]:
        """State of a checkpoint whose hashes are right.

        Raises:
            StageError: ``CheckpointCorrupt``.
        """
        path = self._path(step)
        try:
            content = json.loads((path / STATE).read_text(encoding="utf-8"))
            state: dict[str, Any] = content["state"]
            found = {name: file_digest(path / name).sha256 for name in (HEAD, OPTIMIZER)}
            found[STATE] = _state_digest(state)
            wrong = [name for name in found if found[name] != content["sha256"][name]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StageError(Reason.CHECKPOINT_CORRUPT, f"{path} is damaged ({error})") from error
        if wrong:
            raise StageError(
                Reason.CHECKPOINT_CORRUPT, f"{path} is damaged ({', '.join(wrong)} changed since it was written)"
            )
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

    def _prune(self, newest: int, best: Best | None) -> None:
        """Keep the newest, and the best of each, which a run that has to go on from the one before needs."""
        if best is not None:
            self._best_at[newest] = best.step
        steps = self._steps()
        kept = steps[-KEPT:]
        for step in set(steps) - {*kept, *(self._best_at[step] for step in kept if step in self._best_at)}:
            shutil.rmtree(self._path(step), ignore_errors=True)

    def _steps(self) -> list[int]:
        numbers = (path.name.removeprefix("step-") for path in self._folder.glob("step-*") if path.is_dir())
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _path(self, step: int) -> Path:
        return self._folder / f"step-{step:06d}"


def _best(state: dict[str, Any]) -> Best | None:
    best = state["best"]
    return best and Best(best["step"], best["mean_acceptance_length"], tuple(best["rates"]))


def _state_digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _moments(head: MTPHead, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    moments = {}
    for name, parameter in head.named_parameters():
        for kind in ("exp_avg", "exp_avg_sq"):
            moments[f"{name}.{kind}"] = optimizer.state[parameter][kind].detach().cpu().contiguous()
    return moments


def _read(path: Path) -> dict[str, Tensor]:
    return {name: read_tensor(path.parent, info) for name, info in read_header(path).items()}
