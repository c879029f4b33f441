"""One call from hidden states to the loss of the recursion, its acceptance and the length that it predicts."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mtp_trainer.contract.configs import KVContext, Objective, StepWeights
from mtp_trainer.head import MTPHead
from mtp_trainer.recursion.batch import Batch


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
    raise NotImplementedError
