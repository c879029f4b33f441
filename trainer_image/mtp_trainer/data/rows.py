"""Packed rows: what the train stage reads.

``documents`` numbers the conversations within the whole file, -1 for padding at the end of a row; positions start again
at 0 in each document, and no document attends to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mtp_trainer.checkpoints.header import read_header
from mtp_trainer.checkpoints.tensors import read_tensor, write_tensors
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.storage.atomic import new_file


@dataclass(frozen=True)
class PackedRows:
    """N rows of T token positions."""

    tokens: Tensor
    """``int32 [N, T]``; 0 where padded."""
    loss_mask: Tensor
    """``bool [N, T]``: tokens to be predicted, which are those that the verifier wrote."""
    documents: Tensor
    """``int32 [N, T]``: number of the document, -1 for padding."""
    positions: Tensor
    """``int32 [N, T]``: position within the document, from 0."""

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def token_count(self) -> int:
        """Tokens, without padding."""
        return int((self.documents >= 0).sum())

    @property
    def trained_token_count(self) -> int:
        """Tokens under the loss mask."""
        return int(self.loss_mask.sum())

    @property
    def document_count(self) -> int:
        return int(self.documents.max()) + 1 if self.documents.numel() else 0


FIELDS = {"tokens": "I32", "loss_mask": "BOOL", "documents": "I32", "positions": "I32"}


def save_rows(rows: PackedRows, path: Path) -> None:
    """Write rows as a safetensors file, whole or not at all.

    Raises:
        StageError: ``DiskFull`` or ``OutputNotWritable``.
    """
    with new_file(path) as temporary:
        write_tensors(temporary, {name: getattr(rows, name) for name in FIELDS})


def load_rows(path: Path) -> PackedRows:
    """Read rows.

    Raises:
        StageError: ``DatasetInvalid`` when the file is absent or not such a file, ``CheckpointCorrupt`` when damaged.
    """
    if not path.is_file():
        raise StageError(Reason.DATASET_INVALID, f"{path}: no such file; run the prepare stage first")
    header = read_header(path)
    if {name: info.dtype for name, info in header.items()} != FIELDS or len({i.shape for i in header.values()}) != 1:
        raise StageError(Reason.DATASET_INVALID, f"{path}: these are no packed rows; run the prepare stage again")
    return PackedRows(**{name: read_tensor(path.parent, info) for name, info in header.items()})


def empty_rows(length: int) -> PackedRows:
    """No rows of ``length`` positions."""
    numbers = torch.empty((0, length), dtype=torch.int32)
    return PackedRows(numbers, torch.empty((0, length), dtype=torch.bool), numbers.clone(), numbers.clone())
