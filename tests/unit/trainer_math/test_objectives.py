from __future__ import annotations

import math

import pytest
import torch

from mtp_trainer.contract import StepWeights
from mtp_trainer.objectives import resolve
from mtp_trainer.objectives.losses import loss_of, predicted_length
from mtp_trainer.objectives.terms import Terms

BETA = StepWeights(kind="Beta", beta=0.6)
SURVIVAL = StepWeights(kind="Survival")


@pytest.fixture
def terms() -> Terms:
    """Three steps, four anchors, warm."""
    alpha = torch.tensor([[0.9, 0.8, 0.7, 0.6], [0.8, 0.6, 0.5, 0.9], [0.5, 0.4, 0.7, 0.6]], dtype=torch.float64)
    other = torch.arange(12, dtype=torch.float64).view(3, 4) / 10 + 0.1
    return Terms(*(x.clone().requires_grad_() for x in (other + 1.0, other, alpha)))


@pytest.fixture
def counted() -> torch.Tensor:
    return torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 1]], dtype=torch.bool)


def beta_mean(values, counted):
    weights = [0.6**k / (1 + 0.6 + 0.36) for k in range(3)]
    return sum(w * values[k][counted[k]].mean() for k, w in enumerate(weights))


def test_auto_stands_for_a_real_objective():
    assert resolve("Auto") == "KL"
    assert resolve("CE") == "CE"


@pytest.mark.parametrize(("objective", "field"), [("CE", 0), ("KL", 1)])
def test_ce_and_kl_are_the_weighted_means_of_their_terms(terms, counted, objective, field):
    loss = loss_of(objective, terms, counted, BETA)
    torch.testing.assert_close(loss.total, beta_mean(terms[field], counted))


def test_tv_is_one_minus_alpha(terms, counted):
    torch.testing.assert_close(loss_of("TV", terms, counted, BETA).total, beta_mean(1 - terms.alpha, counted))


def test_lk_moves_from_kl_to_tv_by_the_steps_mean_alpha(terms, counted):
    mixed = []
    for k in range(3):
        share = math.exp(-3 * float(terms.alpha[k][counted[k]].mean()))
        mixed.append(share * terms.divergence[k] + (1 - share) * (1 - terms.alpha[k]))
    loss = loss_of("LK", terms, counted, BETA)
    torch.testing.assert_close(loss.total, beta_mean(torch.stack(mixed), counted))
    (gradient,) = torch.autograd.grad(loss.total, terms.alpha)
    share = math.exp(-3 * 0.8)
    assert float(gradient[0, 0]) == pytest.approx(-(1 - share) / 3 / 1.96), "lambda itself is detached"


def test_end_to_end_tv_is_one_minus_the_expected_length_gained(terms, counted):
    loss = loss_of("E2ETV", terms, counted, BETA)
    length = predicted_length(terms.alpha, counted)
    whole = [0, 1]
    by_hand = sum(1 + a[0] + a[0] * a[1] + a[0] * a[1] * a[2] for a in terms.alpha.T[whole].tolist() for a in [a]) / 2
    assert float(length) == pytest.approx(by_hand)
    assert float(loss.total) == pytest.approx(1 - (by_hand - 1) / 3)


def test_end_to_end_tv_adds_kl_on_steps_that_are_cold(terms, counted):
    alpha = terms.alpha.detach().clone()
    alpha[2] = 0.1
    cold = terms._replace(alpha=alpha.requires_grad_())
    loss = loss_of("E2ETV", cold, counted, BETA)
    (gradient,) = torch.autograd.grad(loss.total, terms.divergence)
    assert gradient[:2].abs().sum() == 0
    assert (gradient[2][counted[2]] > 0).all()


def test_survival_weighs_a_step_by_the_chance_to_reach_it(terms, counted):
    a, kl = terms.alpha.detach(), terms.divergence
    reached = torch.stack([torch.ones(4, dtype=torch.float64), a[0], a[0] * a[1]])
    reached[1:, 3] = torch.tensor([1.0, a[1, 3]])
    weights = torch.where(counted, reached, 0)
    loss = loss_of("KL", terms, counted, SURVIVAL)
    torch.testing.assert_close(loss.total, (weights * kl).sum() / weights.sum())
    assert torch.autograd.grad(loss.total, terms.alpha, allow_unused=True)[0] is None


def test_predicted_length_is_one_where_no_chain_is_whole(terms, counted):
    assert float(predicted_length(terms.alpha, torch.zeros_like(counted))) == 1.0


def test_an_unknown_objective_is_refused_with_the_known_ones(terms, counted):
    with pytest.raises(ValueError, match="'MSE': write one of CE, KL"):
        loss_of("MSE", terms, counted, BETA)
