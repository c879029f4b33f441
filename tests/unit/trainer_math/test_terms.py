from __future__ import annotations

import pytest
import torch

from mtp_trainer.objectives.divergences import Top, top_acceptance, top_divergence
from mtp_trainer.objectives.terms import Scoring, vocabulary_terms

K, N, H, V = 2, 7, 6, 11
EVERYTHING = frozenset({"CE", "KL", "Alpha"})


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(K, N, H, generator=generator, dtype=torch.float64, requires_grad=True)
    lm_head = torch.randn(V, H, generator=generator, dtype=torch.float64)
    teacher = torch.randn(9, H, generator=generator, dtype=torch.float64)
    index = torch.tensor([[0, 1, 2, 4, 5, 6, 7], [1, 2, 3, 5, 6, 7, 8]])
    labels = torch.randint(0, V, (K, N), generator=generator)
    return states, lm_head, teacher, index, labels


def plainly(states, lm_head, teacher, index, labels, top_k=0, temperature=1.0):
    """The three terms as their definitions say, for autograd to differentiate."""
    q = (states @ lm_head.T / temperature).softmax(-1)
    p = (teacher @ lm_head.T / temperature).softmax(-1)[index]
    cross_entropy = -q.gather(-1, labels.unsqueeze(-1)).squeeze(-1).log()
    if top_k:
        ids = p.topk(top_k, dim=-1).indices
        p, q = p.gather(-1, ids), q.gather(-1, ids)
        p, q = (torch.cat([x, 1 - x.sum(-1, keepdim=True)], dim=-1) for x in (p, q))
    return cross_entropy, (p * (p / q).log()).sum(-1), torch.minimum(p, q).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("top_k", [0, 3])
@pytest.mark.parametrize("term", [0, 1, 2], ids=["CE", "KL", "Alpha"])
def test_each_term_and_its_gradient_equal_the_definition(inputs, term, top_k, temperature):
    mine = vocabulary_terms(*inputs, Scoring(EVERYTHING, top_k, 3, temperature))[term]
    expected = plainly(*inputs, top_k, temperature)[term]
    torch.testing.assert_close(mine, expected)
    outer = torch.linspace(-1, 2, K * N, dtype=torch.float64).view(K, N)
    (gradient,) = torch.autograd.grad(mine, inputs[0], outer)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, inputs[0], outer)[0])


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_the_chunk_size_changes_nothing(inputs, chunk):
    terms = vocabulary_terms(*inputs, Scoring(EVERYTHING, 0, chunk))
    whole = vocabulary_terms(*inputs, Scoring(EVERYTHING, 0, N))
    for mine, expected in zip(terms, whole, strict=True):
        torch.testing.assert_close(mine, expected)
        (a,), (b,) = (torch.autograd.grad(x.sum(), inputs[0], retain_graph=True) for x in (mine, expected))
        torch.testing.assert_close(a, b)


def test_all_symbols_as_the_top_equal_no_top(inputs):
    mine, expected = (vocabulary_terms(*inputs, Scoring(EVERYTHING, k)) for k in (V, 0))
    assert all(torch.equal(a, b) for a, b in zip(mine, expected, strict=True))


def test_the_top_and_its_tail_are_a_distribution():
    p = torch.randn(5, V, dtype=torch.float64).softmax(-1)
    top = Top.of(p, 4)
    torch.testing.assert_close(top.probability.sum(-1) + top.tail, torch.ones(5, dtype=torch.float64))


def test_a_student_that_leaks_into_the_tail_is_punished():
    p = torch.tensor([[0.6, 0.4, 0.0, 0.0]], dtype=torch.float64)
    q = torch.tensor([[0.3, 0.2, 0.25, 0.25]], dtype=torch.float64)
    top = Top.of(p, 2)
    assert float(top_acceptance(top, q)) == pytest.approx(0.5)
    assert float(top_divergence(top, q, q.log())) == pytest.approx(torch.log(torch.tensor(2.0)).item())


def test_a_term_that_was_not_asked_for_has_no_gradient(inputs):
    terms = vocabulary_terms(*inputs, Scoring(frozenset({"KL"})))
    assert terms.divergence.requires_grad
    assert not terms.alpha.requires_grad
    assert not terms.cross_entropy.requires_grad
