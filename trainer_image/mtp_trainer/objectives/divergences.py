"""Acceptance and divergence of two distributions with their gradients by the student's scores.

p: the teacher, q: the student, both ``[C, V]`` of C anchors over V symbols; z: the scores with q = softmax(z).
Gradients are written out, because the chunked pass needs them while p and q are in memory. With u_v = df/dq_v,
df/dz_v = q_v (u_v - sum_w q_w u_w).

The top-k forms keep the teacher's k likeliest symbols and put all others into one tail symbol on both sides. Without
the tail the student's mass outside the k symbols would be free, which rejection sampling punishes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Top(NamedTuple):
    """The teacher's k likeliest symbols: ``ids[C, k]``, their probability ``[C, k]``, and that of the rest ``[C]``."""

    ids: Tensor
    probability: Tensor
    tail: Tensor

    @classmethod
    def of(cls, p: Tensor, k: int) -> Top:
        """Of ``p[C, V]``; probability and tail sum to 1."""
        probability, ids = p.topk(k, dim=-1, sorted=False)
        return cls(ids, probability, (1.0 - probability.sum(-1)).clamp_(min=0.0))

    def rows(self, index: Tensor | slice) -> Top:
        """The chosen rows."""
        return Top(self.ids[index], self.probability[index], self.tail[index])


def acceptance(p: Tensor, q: Tensor) -> Tensor:
    """``[C]``: alpha = sum_v min(p_v, q_v) = 1 - TV, the acceptance of rejection sampling (arXiv:2211.17192, 3.2)."""
    return torch.minimum(p, q).sum(-1)


def acceptance_gradient(p: Tensor, q: Tensor) -> Tensor:
    """``[C, V]``: d alpha / dz_v = q_v ([q_v <= p_v] - S), S = sum of q where q <= p. Bounded, and 0 where q is."""
    kept = torch.where(q <= p, q, 0.0)
    return kept.addcmul_(q, kept.sum(-1, keepdim=True), value=-1.0)


def divergence(p: Tensor, negative_entropy: Tensor, log_q: Tensor) -> Tensor:
    """``[C]``: KL = sum_v p_v log(p_v / q_v), given sum_v p_v log p_v ``[C]``."""
    return negative_entropy - torch.linalg.vecdot(p, log_q)


def divergence_gradient(p: Tensor, q: Tensor) -> Tensor:
    """``[C, V]``: d KL / dz = q - p."""
    return q - p


def label_gradient(q: Tensor, labels: Tensor) -> Tensor:
    """``[C, V]``: of -log q at ``labels[C]``, q - onehot."""
    gradient = q.clone()
    gradient[torch.arange(len(labels), device=q.device), labels] -= 1.0
    return gradient


def top_acceptance(top: Top, q: Tensor) -> Tensor:
    """``[C]``: sum of min(p, q) over the k symbols and the tail."""
    kept, tail = _student(top, q)
    return torch.minimum(top.probability, kept).sum(-1) + torch.minimum(top.tail, tail)


def top_acceptance_gradient(top: Top, q: Tensor) -> Tensor:
    """``[C, V]``: as :func:`acceptance_gradient`; a symbol of the tail has the tail's indicator."""
    kept, tail = _student(top, q)
    below, below_tail = (kept <= top.probability).to(q.dtype), (tail <= top.tail).to(q.dtype)
    mass = (kept * below).sum(-1) + tail * below_tail
    gradient = q * (below_tail - mass).unsqueeze(-1)
    return gradient.scatter_add_(-1, top.ids, kept * (below - below_tail.unsqueeze(-1)))


def top_divergence(top: Top, q: Tensor, log_q: Tensor) -> Tensor:
    """``[C]``: sum of p log(p / q) over the k symbols and the tail."""
    p, tail = top.probability, _student(top, q)[1]
    inside = torch.special.xlogy(p, p).sum(-1) - (p * log_q.gather(-1, top.ids)).sum(-1)
    return inside + torch.special.xlogy(top.tail, top.tail / tail)


def top_divergence_gradient(top: Top, q: Tensor) -> Tensor:
    """``[C, V]``: q - p on the k symbols; q (1 - p_tail / q_tail) on the others."""
    kept, tail = _student(top, q)
    ratio = (top.tail / tail).unsqueeze(-1)
    return (q * (1.0 - ratio)).scatter_add_(-1, top.ids, kept * ratio - top.probability)


def _student(top: Top, q: Tensor) -> tuple[Tensor, Tensor]:
    """The student's probability of the k symbols, and of the tail, never quite 0 so that ratios stay finite."""
    kept = q.gather(-1, top.ids)
    return kept, (1.0 - kept.sum(-1)).clamp_(min=torch.finfo(q.dtype).eps)
