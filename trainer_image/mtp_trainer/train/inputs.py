"""What the stage trains on: what prepare left, and a verifier that is still the one that it was left for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from mtp_trainer.checkpoints import VerifierInspection, load_inspection
from mtp_trainer.contract import PrepareResult, Reason, StageError, TrainConfig, Workspace
from mtp_trainer.data import PackedRows, load_rows
from mtp_trainer.results import read_result
from mtp_trainer.sources import verifier_folder
from mtp_trainer.storage import file_digest


@dataclass(frozen=True)
class Inputs:
    """Verifier and rows, and what identifies them."""

    verifier: Path
    inspection: VerifierInspection
    rows: PackedRows
    held_out: PackedRows
    data_digest: str
    config_digest: str
    """Of all that decides about the trained head: recipe, verifier, data."""


def read_inputs(config: TrainConfig) -> Inputs:
    """Read what the prepare stage left.

    Raises:
        StageError: ``ConfigInvalid`` without a finished prepare stage, with another verifier than was prepared for, or
            with hidden states that this version can't get; ``VolumeMissing``; ``DatasetInvalid`` or ``DatasetEmpty``;
            ``CheckpointCorrupt`` for damaged rows.
    """
    training = config.training
    if training.hidden_states == "VLLM":
        raise StageError(
            Reason.CONFIG_INVALID,
            "training.hiddenStates: VLLM is not available in this version; write Transformers",
        )
    workspace = Workspace(config.workspace)
    data_digest = read_result(workspace, PrepareResult).data_digest
    verifier = verifier_folder(config.verifier, workspace)
    inspection = load_inspection(workspace.inspection)
    check_unchanged(verifier, inspection, workspace.inspection)
    rows, held_out = load_rows(workspace.train_rows), load_rows(workspace.validation_rows)
    if not len(rows):
        raise StageError(Reason.DATASET_EMPTY, f"{workspace.train_rows}: has no rows; name a larger dataset")
    text = f"{training.model_dump_json()}|{config.temperature}|{inspection.digest}|{data_digest}"
    config_digest = hashlib.sha256(text.encode()).hexdigest()
    return Inputs(verifier, inspection, rows, held_out, data_digest, config_digest)


def check_unchanged(verifier: Path, inspection: VerifierInspection, inspected: Path) -> None:
    """Compare the verifier's files with those that were inspected.

    Sizes don't tell two checkpoints of one architecture apart, and hashing all weights takes minutes. So files are
    hashed only when they changed after the file ``inspected`` was written, by the time of change, which no copying
    tool can set.

    Raises:
        StageError: ``ConfigInvalid``, naming the file.
    """
    since = inspected.stat().st_mtime_ns
    for name, known in inspection.files.items():
        path = verifier / name
        same = path.is_file() and path.stat().st_size == known.size
        if not same or (path.stat().st_ctime_ns >= since and file_digest(path) != known):
            raise StageError(
                Reason.CONFIG_INVALID,
                f"{path}: not the file that the prepare stage saw; run that stage again in a new workspace",
            )
