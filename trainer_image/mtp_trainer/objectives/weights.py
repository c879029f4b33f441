"""How much each recursion step weighs."""

from __future__ import annotations

import torch
from torch import Tensor

from mtp_trainer.contract.configs import StepWeights


def step_means(values: Tensor, counted: Tensor) -> Tensor:
    """``[K]``: means of ``values[K, N]`` over what counts; 0 where nothing does."""
    return torch.where(counted, values, 0.0).sum(1) / counted.sum(1).clamp(min=1)


def weighted_mean(losses: Tensor, counted: Tensor, alpha: Tensor, weights: StepWeights) -> Tensor:
    """One number from per-anchor ``losses[K, N]``.

    ``Beta``: sum_k w_k mean_k, w_k = beta^k / sum_j beta^j (FastMTP, arXiv:2509.18362, eq. 4; .51, .31, .18 for 0.6).

    ``Survival``: the mean over all anchors and steps, each weighted by the detached probability that the server gets
    there, the product of ``alpha[K, N]`` of the steps before. A step that doesn't count (its token is the prompt's) is
    passed for sure. Weights are divided by their sum, so that the loss keeps its size while alpha grows.
    """
    if weights.kind == "Beta":
        powers = weights.beta ** torch.arange(len(losses), device=losses.device, dtype=losses.dtype)
        return (powers / powers.sum() * step_means(losses, counted)).sum()
    passed = torch.where(counted, alpha.detach(), 1.0).cumprod(0)
    reached = torch.cat([torch.ones_like(passed[:1]), passed[:-1]])
    reached = torch.where(counted, reached, 0.0)
    return (reached * losses).sum() / reached.sum().clamp(min=torch.finfo(losses.dtype).tiny)
