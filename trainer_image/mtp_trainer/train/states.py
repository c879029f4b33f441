"""The verifier's states of the packed rows.

The verifier is frozen, so its states are the same in every pass: they are computed once and kept while they fit a
budget, and again for each batch when they don't. They are never written to disk, where they could outlive the
checkpoint that they belong to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from mtp_trainer.contract import StageError
from mtp_trainer.data import PackedRows
from mtp_trainer.hidden_states import TransformersVerifier
from mtp_trainer.interruption import Interrupted, interruption
from mtp_trainer.recursion import Batch

MEMORY_BYTES = 4 * 2**30
"""States are kept up to this size."""

ROWS_AT_ONCE = 8


class RowStates:
    """Batches of packed rows with the verifier's states.

    Raises:
        StageError: ``HiddenStatesNotFinite``, naming the file and the document; when made, or with each batch.
    """

    def __init__(self, verifier: TransformersVerifier, rows: PackedRows, name: str, say: Callable[[str], None]) -> None:
        self._verifier, self._rows, self._name = verifier, rows, name
        size = rows.tokens.numel() * verifier.embedding.shape[1] * verifier.embedding.element_size()
        self._kept = self._compute_all(say) if size <= MEMORY_BYTES else None

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: Sequence[int]) -> Batch:
        """The given rows, on the verifier's device."""
        index = torch.tensor(rows, dtype=torch.long)
        tokens, mask, documents, positions = (
            x[index] for x in (self._rows.tokens, self._rows.loss_mask, self._rows.documents, self._rows.positions)
        )
        hidden = self._states(index) if self._kept is None else self._kept[index]
        return Batch(hidden, tokens.long(), mask, documents.long(), positions.long()).to(self._verifier.device)

    def _states(self, index: Tensor) -> Tensor:
        rows = self._rows
        try:
            return self._verifier.states(rows.tokens[index], rows.documents[index], rows.positions[index])
        except StageError as error:
            raise StageError(error.reason, f"{self._name}: {error.message}", error.exit_code) from error

    def _compute_all(self, say: Callable[[str], None]) -> Tensor:
        parts, began, said = [], time.monotonic(), time.monotonic()
        for index in torch.arange(len(self._rows)).split(ROWS_AT_ONCE):
            if interruption.requested:
                raise Interrupted
            parts.append(self._states(index).cpu())
            if time.monotonic() - said > 10:
                done = sum(len(part) for part in parts)
                say(f"{self._name}: states of {done} of {len(self._rows)} rows")
                said = time.monotonic()
        say(f"{self._name}: states of {len(self._rows)} rows in {time.monotonic() - began:.0f} s")
        return torch.cat(parts) if parts else torch.empty(0)
