"""The verifier's distribution at some positions, whole or as its top k and a tail, compared with a student's.

Shapes: M positions, C anchors of one step, V vocabulary, H hidden size.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mtp_trainer.objectives import divergences as d


class Teacher(Protocol):
    """A teacher at C anchors; ``q[C, V]`` is the student there."""

    def rows(self, index: Tensor) -> Teacher:
        """The same teacher at ``index[C]`` of its positions."""

    def acceptance(self, q: Tensor) -> Tensor:
        """``[C]``."""

    def acceptance_gradient(self, q: Tensor) -> Tensor:
        """``[C, V]``, by the student's scores."""

    def divergence(self, q: Tensor, log_q: Tensor) -> Tensor:
        """``[C]``."""

    def divergence_gradient(self, q: Tensor) -> Tensor:
        """``[C, V]``, by the student's scores."""


class FullTeacher(NamedTuple):
    """All symbols: ``p[M, V]`` and its negative entropy ``[M]``."""

    p: Tensor
    negative_entropy: Tensor

    def rows(self, index: Tensor) -> FullTeacher:
        where = _where(index)
        return FullTeacher(self.p[where], self.negative_entropy[where])

    def acceptance(self, q: Tensor) -> Tensor:
        return d.acceptance(self.p, q)

    def acceptance_gradient(self, q: Tensor) -> Tensor:
        return d.acceptance_gradient(self.p, q)

    def divergence(self, q: Tensor, log_q: Tensor) -> Tensor:
        return d.divergence(self.p, self.negative_entropy, log_q)

    def divergence_gradient(self, q: Tensor) -> Tensor:
        return d.divergence_gradient(self.p, q)


class TopTeacher(NamedTuple):
    """The k likeliest symbols and one for all others."""

    top: d.Top

    def rows(self, index: Tensor) -> TopTeacher:
        return TopTeacher(self.top.rows(_where(index)))

    def acceptance(self, q: Tensor) -> Tensor:
        return d.top_acceptance(self.top, q)

    def acceptance_gradient(self, q: Tensor) -> Tensor:
        return d.top_acceptance_gradient(self.top, q)

    def divergence(self, q: Tensor, log_q: Tensor) -> Tensor:
        return d.top_divergence(self.top, q, log_q)

    def divergence_gradient(self, q: Tensor) -> Tensor:
        return d.top_divergence_gradient(self.top, q)


def teacher_of(states: Tensor, lm_head: Tensor, top_k: int, temperature: float) -> Teacher:
    """The teacher at states ``[M, H]``; ``top_k`` 0, or as large as the vocabulary, keeps all symbols."""
    log_p = log_softmax(states, lm_head, temperature)
    p = log_p.exp()
    if 0 < top_k < lm_head.shape[0]:
        return TopTeacher(d.Top.of(p, top_k))
    return FullTeacher(p, torch.linalg.vecdot(p, log_p))


def log_softmax(states: Tensor, lm_head: Tensor, temperature: float) -> Tensor:
    """Log-probabilities ``[C, V]`` of ``states[C, H]``, float32 or wider; the product is in ``lm_head``'s dtype."""
    scores = states.to(lm_head.dtype) @ lm_head.T
    scores = scores.to(torch.promote_types(lm_head.dtype, torch.float32))
    return torch.log_softmax(scores if temperature == 1.0 else scores.div_(temperature), dim=-1)


def _where(index: Tensor) -> slice | Tensor:
    """A slice where ``index[C]`` is consecutive, as it is within an answer, so that nothing is copied."""
    first, last = int(index[0]), int(index[-1])
    consecutive = last - first + 1 == len(index) and bool((index.diff() == 1).all())
    return slice(first, last + 1) if consecutive else index
