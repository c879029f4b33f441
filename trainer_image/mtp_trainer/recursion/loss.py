"""One call from hidden states to the loss of the recursion, its acceptance and the length that it predicts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mtp_trainer.contract.configs import KVContext, Objective, StepWeights
from mtp_trainer.head import MTPHead
from mtp_trainer.objectives.losses import NEEDED, loss_of, predicted_length, resolve
from mtp_trainer.objectives.terms import Scoring, vocabulary_terms
from mtp_trainer.objectives.weights import step_means
from mtp_trainer.recursion.batch import Anchors, Batch
from mtp_trainer.recursion.states import recursive_states


class RecursionOutput(NamedTuple):
    """What one batch gives. Only ``loss`` carries a gradient, and only the head's parameters receive it."""

    loss: Tensor
    """Scalar to call ``backward`` on; 0 (with zero gradients) where nothing counts."""
    alpha: Tensor
    """``[K]``: mean of sum(min(p, q)), the acceptance of rejection sampling, at each step; 0 where nothing counts."""
    step_losses: Tensor
    """``[K]``: mean loss at each step, before step weights."""
    predicted_length: Tensor
    """Scalar: 1 + mean over whole chains of the sum over j of the product of alpha up to j; 1 without whole chains."""
    counted: Tensor
    """``[K]``: anchors that count at each step."""


def recursive_loss(
    head: MTPHead,
    batch: Batch,
    embedding: Tensor,
    lm_head: Tensor,
    objective: Objective = "Auto",
    steps: int = 3,
    kv_context: KVContext = "Serving",
    step_weights: StepWeights = StepWeights(),  # noqa: B008 - frozen
    top_k: int = 0,
    chunk_tokens: int = 1024,
    temperature: float = 1.0,
) -> RecursionOutput:
    """Loss of ``steps`` recursion steps from every anchor of packed rows.

    Each step's loss is a mean over the anchors that count there; see :mod:`mtp_trainer.recursion.batch`. In a
    distributed run each process has its own mean: average the gradients. Everything but the head is detached.

    Args:
        head: the head in training; its ``compute_dtype`` decides about autocast.
        batch: the rows, with the verifier's states.
        embedding: ``[V, H]``, the verifier's.
        lm_head: ``[V, H]``, the verifier's; its dtype is that of the vocabulary products.
        objective: see :mod:`mtp_trainer.objectives`; ``Auto`` is resolved there.
        steps: K, the depth of the recursion.
        kv_context: ``Serving`` or ``SameDepth``, see :mod:`mtp_trainer.recursion.states`.
        step_weights: see :mod:`mtp_trainer.objectives.weights`.
        top_k: teacher symbols kept apart, the rest being one tail symbol; 0 keeps all.
        chunk_tokens: anchors whose vocabulary scores are in memory at once; changes neither loss nor gradient.
        temperature: that both distributions are taken at.
    """
    objective = resolve(objective)
    anchors = Anchors.every(batch, steps) if kv_context == "SameDepth" else Anchors.needed(batch, steps)
    states = torch.stack(recursive_states(head, batch, embedding, steps, kv_context, anchors))
    chosen = anchors.counted.any(0).flatten().nonzero().squeeze(1)
    counted = anchors.counted.flatten(1)[:, chosen]
    if not len(chosen):
        zero = states.new_zeros(steps)
        return RecursionOutput(states.sum() * 0.0, zero, zero, zero.new_ones(()), counted.sum(1))
    teacher, teacher_index, labels = _targets(batch, anchors, chosen, steps)
    scoring = Scoring(NEEDED[objective], top_k, chunk_tokens, temperature)
    picked = states.flatten(1, 2).index_select(1, chosen)
    terms = vocabulary_terms(picked, lm_head, teacher, teacher_index, labels, scoring)
    loss = loss_of(objective, terms, counted, step_weights)
    return RecursionOutput(
        loss=loss.total,
        alpha=step_means(terms.alpha.detach(), counted),
        step_losses=loss.steps,
        predicted_length=predicted_length(terms.alpha, counted),
        counted=counted.sum(1),
    )


def _targets(batch: Batch, anchors: Anchors, chosen: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Teacher states ``[M, H]``, index into them ``[K, N]`` and labels ``[K, N]`` of the chosen N of R * A anchors."""
    length, last = batch.tokens.shape[1], batch.tokens.shape[1] - 1
    row = chosen.div(anchors.index.shape[1], rounding_mode="floor") * length
    place = anchors.index.flatten()[chosen]
    distance = torch.arange(1, steps + 1, device=place.device).unsqueeze(1)
    positions, index = (row + (place + distance).clamp(max=last)).unique(return_inverse=True)
    labels = batch.tokens.flatten()[row + (place + distance + 1).clamp(max=last)].long()
    return batch.hidden.flatten(0, 1).index_select(0, positions), index, labels
