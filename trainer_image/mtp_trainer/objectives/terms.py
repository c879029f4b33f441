"""Per-anchor terms over the vocabulary, without the K score tensors ``[N, V]`` that they are made of.

Every objective is a function of three numbers per anchor and step: the label's cross-entropy, KL, and acceptance alpha.
:func:`vocabulary_terms` gives these numbers, differentiable, and visits the vocabulary once: while the scores of a
chunk are in memory it also multiplies the gradient of each term that the objective needs into ``[N, H]``. Because a
term's gradient enters the loss's with one coefficient per anchor, the coefficients may depend on all chunks (a batch's
mean alpha) and on all steps (a product of alphas), and still nothing has to be computed twice.

The teacher's scores are shared: what step k needs at anchor t, step k - 1 needs at anchor t + 1.

Shapes: K steps, N anchors, M teacher positions, H hidden size, V vocabulary, C anchors in a chunk.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from mtp_trainer.objectives.divergences import label_gradient
from mtp_trainer.objectives.teacher import Teacher, log_softmax, teacher_of

Term = Literal["CE", "KL", "Alpha"]


class Terms(NamedTuple):
    """``[K, N]`` each. A term carries a gradient only if it was asked for; KL is 0 if it wasn't."""

    cross_entropy: Tensor
    """-log q of the row's token."""
    divergence: Tensor
    """KL of the teacher and the student."""
    alpha: Tensor
    """sum_v min(p_v, q_v)."""


class Scoring(NamedTuple):
    """How the vocabulary is scored."""

    needed: frozenset[Term]
    """Terms whose gradient the objective needs."""
    top_k: int = 0
    """Teacher symbols kept apart; 0 keeps all."""
    chunk_tokens: int = 1024
    """C."""
    temperature: float = 1.0


def vocabulary_terms(
    states: Tensor, lm_head: Tensor, teacher: Tensor, teacher_index: Tensor, labels: Tensor, scoring: Scoring
) -> Terms:
    """Terms of each step and anchor.

    Args:
        states: ``[K, N, H]``, the only input that gets a gradient.
        lm_head: ``[V, H]``; products are in its dtype, softmax in float32 or wider.
        teacher: ``[M, H]``, the verifier's states.
        teacher_index: ``[K, N]``, into ``teacher``, ascending along N.
        labels: ``[K, N]`` tokens.
        scoring: what is needed, and how.
    """
    return Terms(*_VocabularyTerms.apply(states, lm_head.detach(), teacher.detach(), teacher_index, labels, scoring))


class _VocabularyTerms(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, lm_head: Tensor, teacher: Tensor, index: Tensor, labels: Tensor, scoring: Scoring
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, anchors, _ = states.shape
        wide = torch.promote_types(lm_head.dtype, torch.float32)
        values = {term: states.new_zeros(steps, anchors, dtype=wide) for term in ("CE", "KL", "Alpha")}
        needed = sorted(scoring.needed) if ctx.needs_input_grad[0] else []
        gradients = {term: torch.empty_like(states, dtype=wide) for term in needed}
        for first in range(0, anchors, scoring.chunk_tokens):
            chunk = slice(first, first + scoring.chunk_tokens)
            low, high = int(index[:, chunk].min()), int(index[:, chunk].max()) + 1
            shared = teacher_of(teacher[low:high], lm_head, scoring.top_k, scoring.temperature)
            for k in range(steps):
                mine = shared.rows(index[k, chunk] - low)
                log_q = log_softmax(states[k, chunk], lm_head, scoring.temperature)
                q = log_q.exp()
                values["CE"][k, chunk] = -log_q.gather(-1, labels[k, chunk].unsqueeze(-1)).squeeze(-1)
                values["Alpha"][k, chunk] = mine.acceptance(q)
                if "KL" in scoring.needed:
                    values["KL"][k, chunk] = mine.divergence(q, log_q)
                del log_q
                for term in needed:
                    slope = _gradient(term, mine, q, labels[k, chunk])
                    product = slope.to(lm_head.dtype) @ lm_head
                    gradients[term][k, chunk] = product.to(wide).div_(scoring.temperature)
        ctx.save_for_backward(*(gradients[term] for term in needed))
        ctx.needed, ctx.dtype = needed, states.dtype
        ctx.mark_non_differentiable(*(values[term] for term in values if term not in needed))
        return values["CE"], values["KL"], values["Alpha"]

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        by_term = dict(zip(("CE", "KL", "Alpha"), outer, strict=True))
        result = None
        for term, gradient in zip(ctx.needed, ctx.saved_tensors, strict=True):
            part = gradient * by_term[term].unsqueeze(-1)
            result = part if result is None else result.add_(part)
        return (None if result is None else result.to(ctx.dtype)), None, None, None, None, None


def _gradient(term: Term, teacher: Teacher, q: Tensor, labels: Tensor) -> Tensor:
    """``[C, V]``: gradient of a term by the student's scores."""
    match term:
        case "CE":
            return label_gradient(q, labels)
        case "KL":
            return teacher.divergence_gradient(q)
        case "Alpha":
            return teacher.acceptance_gradient(q)
