"""Each objective as a function of per-anchor terms.

p is the verifier's distribution (detached), q_k the head's at step k, alpha_k = sum_v min(p_v, q_v).

=======  ====================================================  ================================================
CE       -log q_k(token)                                       FastMTP, arXiv:2509.18362; the baseline
KL       sum_v p_v log(p_v / q_v)                              distillation; safe
TV       1 - alpha_k                                           DistillSpec, arXiv:2310.08461; not from cold
LK       s KL + (1 - s) TV, s = exp(-3 mean alpha_k)           LK losses, arXiv:2602.23881 (hybrid)
E2ETV    1 - (1/K) sum_j prod_{i<=j} alpha_i                   Bebop, arXiv:2606.12370; 1 - (E[length] - 1) / K
=======  ====================================================  ================================================
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mtp_trainer.contract.configs import Objective, StepWeights
from mtp_trainer.objectives.terms import Term, Terms
from mtp_trainer.objectives.weights import step_means, weighted_mean

AUTO_OBJECTIVE: Objective = "KL"
"""What ``Auto`` means. Measured in vLLM on the quickstart verifier (docs/results.md) KL and CE lead by 0.1 tokens per
step and are equal within noise; KL also fits heads that are sampled from."""

LK_DECAY = 3.0
"""eta of LK: KL keeps 74 % of the weight at alpha 0.1, 7 % at 0.9."""

COLD_ALPHA = 0.3
"""Mean alpha below which a step of E2ETV is cold: TV's gradient vanishes where q has no mass on p's symbols."""

NEEDED: dict[Objective, frozenset[Term]] = {
    "CE": frozenset({"CE"}),
    "KL": frozenset({"KL"}),
    "TV": frozenset({"Alpha"}),
    "LK": frozenset({"KL", "Alpha"}),
    "E2ETV": frozenset({"KL", "Alpha"}),
}
"""Terms whose gradient each objective needs."""


class Loss(NamedTuple):
    """``total`` scalar; ``steps[K]``, mean per step before weights, detached."""

    total: Tensor
    steps: Tensor


def resolve(objective: Objective) -> Objective:
    """The objective that ``Auto`` stands for; any other unchanged."""
    return AUTO_OBJECTIVE if objective == "Auto" else objective


def loss_of(objective: Objective, terms: Terms, counted: Tensor, weights: StepWeights) -> Loss:
    """Loss from terms ``[K, N]`` of the anchors that count ``[K, N]``."""
    objective = resolve(objective)
    if objective == "E2ETV":
        return _end_to_end(terms, counted, weights)
    losses = _per_anchor(objective, terms, counted)
    total = weighted_mean(losses, counted, terms.alpha, weights)
    return Loss(total, step_means(losses.detach(), counted))


def _per_anchor(objective: Objective, terms: Terms, counted: Tensor) -> Tensor:
    """``[K, N]`` losses of the objectives that look at one step at a time."""
    match objective:
        case "CE":
            return terms.cross_entropy
        case "KL":
            return terms.divergence
        case "TV":
            return 1.0 - terms.alpha
        case "LK":
            # One lambda per step from the batch's mean, as published; per anchor it would favour the easy ones.
            share = torch.exp(-LK_DECAY * step_means(terms.alpha.detach(), counted)).unsqueeze(1)
            return share * terms.divergence + (1.0 - share) * (1.0 - terms.alpha)
    raise ValueError(f"objective {objective!r}: write one of {', '.join(NEEDED)}, Auto")


def _end_to_end(terms: Terms, counted: Tensor, weights: StepWeights) -> Loss:
    """E2ETV over anchors at which all K steps count, and KL on steps that are still cold.

    The loss has its own step weights (later steps count as far as they are reached); ``weights`` are for KL only.
    """
    whole = counted.all(0, keepdim=True)
    lost = 1.0 - terms.alpha.cumprod(0).mean(0, keepdim=True)
    mean_alpha = step_means(terms.alpha.detach(), counted)
    cold = (mean_alpha < COLD_ALPHA).unsqueeze(1)
    warm_up = weighted_mean(torch.where(cold, terms.divergence, 0.0), counted, terms.alpha, weights)
    return Loss(step_means(lost, whole)[0] + warm_up, 1.0 - mean_alpha)


def predicted_length(alpha: Tensor, counted: Tensor) -> Tensor:
    """Scalar: 1 + mean over whole chains of sum_j prod_{i<=j} ``alpha[K, N]``; 1 where no chain is whole."""
    whole = counted.all(0, keepdim=True)
    return 1.0 + step_means(alpha.detach().cumprod(0).sum(0, keepdim=True), whole)[0]
