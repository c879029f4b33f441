"""Packed rows, and which of their positions are anchors of which steps.

An *anchor* is a row position t at which a draft starts: the server has committed tokens up to t + 1 and holds the
verifier's states up to t. Step k (from 0) at anchor t reads token t + k + 1 and predicts token t + k + 2; its teacher
is the verifier's distribution at position t + k + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Packed rows. R rows of T positions, H hidden size.

    A document's positions are next to each other in one row. Documents never see each other.
    """

    hidden: Tensor
    """``[R, T, H]``: the verifier's states, after its final norm unless the family says otherwise."""
    tokens: Tensor
    """``[R, T]`` integers."""
    loss_mask: Tensor
    """``[R, T]`` booleans: the tokens to be predicted (what the verifier wrote)."""
    documents: Tensor
    """``[R, T]`` integers: document number, -1 for padding."""
    positions: Tensor
    """``[R, T]`` integers: position within the document, from 0."""

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))

    def ahead(self, values: Tensor, distance: int) -> Tensor:
        """``values[R, T]`` moved so that position t holds what was at t + ``distance``; the row's end repeats."""
        index = torch.arange(values.shape[1], device=values.device).add_(distance).clamp_(max=values.shape[1] - 1)
        return values[:, index]

    def counted(self, steps: int) -> Tensor:
        """``[steps, R, T]``: whether step k at anchor t counts.

        It does where its target t + k + 2 is in the anchor's own document and under the loss mask.
        """
        length = self.tokens.shape[1]
        place = torch.arange(length, device=self.tokens.device)
        return torch.stack(
            [
                (self.documents >= 0)
                & (self.ahead(self.documents, k + 2) == self.documents)
                & self.ahead(self.loss_mask.bool(), k + 2)
                & (place < length - k - 2)
                for k in range(steps)
            ]
        )

    def starts(self) -> Tensor:
        """``[R, T]``: index within the row of the first position of each position's document."""
        place = torch.arange(self.tokens.shape[1], device=self.tokens.device).expand_as(self.documents)
        first = torch.ones_like(self.documents, dtype=torch.bool)
        first[:, 1:] = self.documents[:, 1:] != self.documents[:, :-1]
        return torch.where(first, place, 0).cummax(dim=1).values


@dataclass(frozen=True)
class Anchors:
    """The positions at which chains run: A per row, rows with fewer repeat their last, which then doesn't count."""

    index: Tensor
    """``[R, A]``: positions within the row, ascending."""
    counted: Tensor
    """``[steps, R, A]`` booleans."""

    @classmethod
    def every(cls, batch: Batch, steps: int) -> Anchors:
        """All positions of all rows."""
        place = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        return cls(place.expand(batch.tokens.shape).contiguous(), batch.counted(steps))

    @classmethod
    def needed(cls, batch: Batch, steps: int) -> Anchors:
        """Positions at which some step counts: served chains of different anchors don't depend on each other."""
        counted = batch.counted(steps)
        return cls.where(counted.any(dim=0), counted)

    @classmethod
    def whole(cls, batch: Batch, steps: int) -> Anchors:
        """Positions at which every step counts."""
        counted = batch.counted(steps)
        return cls.where(counted.all(dim=0), counted)

    @classmethod
    def where(cls, wanted: Tensor, counted: Tensor) -> Anchors:
        """The ``wanted[R, T]`` positions of ``counted[steps, R, T]``."""
        sizes = wanted.sum(dim=1)
        # A stable sort puts the wanted positions first, in order.
        order = wanted.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, : max(int(sizes.max()), 1)]
        real = torch.arange(order.shape[1], device=order.device) < sizes.unsqueeze(1)
        index = torch.where(real, order, order.gather(1, (sizes.unsqueeze(1) - 1).clamp(min=0)))
        return cls(index, counted.gather(2, index.expand(len(counted), -1, -1)) & real)

    def take(self, values: Tensor) -> Tensor:
        """``values[R, T, ...]`` at the anchors: ``[R, A, ...]``."""
        rows, length = values.shape[:2]
        offset = torch.arange(rows, device=values.device).unsqueeze(1) * length
        return values.flatten(0, 1).index_select(0, (self.index + offset).flatten()).unflatten(0, self.index.shape)
