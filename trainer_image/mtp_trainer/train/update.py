"""One optimiser step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mtp_trainer.contract import Reason, StageError, TrainConfig
from mtp_trainer.head import MTPHead
from mtp_trainer.hidden_states import TransformersVerifier
from mtp_trainer.recursion import Batch, RecursionOutput, recursive_loss


@dataclass(frozen=True)
class Update:
    """What one step did."""

    output: RecursionOutput
    loss: float
    grad_norm: float
    """Of all parameters of the head together, before clipping."""
    learning_rate: float


def update(
    step: int,
    config: TrainConfig,
    head: MTPHead,
    optimizer: torch.optim.Optimizer,
    verifier: TransformersVerifier,
    batch: Batch,
    learning_rate: float,
) -> Update:
    """Take optimiser step ``step`` (from 0) on a batch.

    Raises:
        StageError: ``LossNotFinite``, naming step and documents; the head is then as it was.
    """
    training = config.training
    output = recursive_loss(
        head,
        batch,
        verifier.embedding,
        verifier.lm_head,
        training.objective,
        training.steps,
        training.kv_context,
        training.step_weights,
        training.top_k,
        temperature=config.temperature or 1.0,
    )
    optimizer.zero_grad(set_to_none=True)
    output.loss.backward()
    norm = float(torch.nn.utils.clip_grad_norm_(head.parameters(), training.max_grad_norm))
    loss = float(output.loss.detach())
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise _not_finite(step, loss, norm, batch)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    return Update(output, loss, norm, learning_rate)


def _not_finite(step: int, loss: float, norm: float, batch: Batch) -> StageError:
    documents = sorted({int(d) for d in batch.documents.unique().tolist() if d >= 0})
    named = ", ".join(map(str, documents[:20])) + (", ..." if len(documents) > 20 else "")
    return StageError(
        Reason.LOSS_NOT_FINITE,
        f"step {step + 1}: loss {loss}, gradient norm {norm} on documents {named}; "
        "lower training.learningRate, or look at these documents",
    )
