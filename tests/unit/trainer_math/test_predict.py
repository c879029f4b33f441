from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mtp_trainer.predict import predict_acceptance
from mtp_trainer.recursion import Batch


@pytest.fixture
def lm_head(embedding):
    """Few tokens, so that random drafts are accepted now and then."""
    return embedding[:3].clone()


@pytest.fixture
def greedy(batch: Batch, lm_head) -> Batch:
    """``batch`` as its own verifier would have written it: each token is the argmax of the state before."""
    tokens = batch.tokens.clone() % 3
    argmax = (batch.hidden @ lm_head.T).argmax(-1)
    tokens[:, 1:] = torch.where(batch.loss_mask[:, 1:], argmax[:, :-1], tokens[:, 1:])
    return replace(batch, tokens=tokens)


def serve(served, lm_head, tokens, hidden, first, end, steps):
    """A server on one answer: draft, compare with the verifier's argmax, commit, repeat. Yields (anchor, accepted)."""
    anchor = first
    while anchor + steps + 1 < end:
        drafts = [int((lm_head @ s).argmax()) for s in served.chain(tokens, hidden, anchor, steps, lm_head)]
        accepted = 0
        while accepted < steps and drafts[accepted] == int((lm_head @ hidden[anchor + 1 + accepted]).argmax()):
            accepted += 1
        yield anchor, drafts, accepted
        anchor += accepted + 1


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_walk_visits_drafts_and_accepts_as_a_server(head, greedy, embedding, lm_head, served, steps):
    answers = [
        (0, 0, 1, 9),
        (0, 9, 10, 12),
        (0, 12, 13, 20),
        (1, 0, 1, 12),
        (1, 0, 14, 24),
    ]  # row, document, first, end
    expected = []
    for row, start, first, end in answers:
        tokens, hidden = greedy.tokens[row, start:end], greedy.hidden[row, start:end]
        for anchor, drafts, accepted in serve(served, lm_head, tokens, hidden, first - start, end - start, steps):
            expected.append((row, start + anchor, drafts, accepted))
    predicted = predict_acceptance(head, greedy, embedding, lm_head, steps, chunk_tokens=4)
    found = zip(
        predicted.anchors.tolist(), predicted.draft_tokens.tolist(), predicted.accepted_lengths.tolist(), strict=True
    )
    assert [(row, place, drafts, accepted) for (row, place), drafts, accepted in found] == expected
    assert predicted.drafts == len(expected)
    assert predicted.accepted == tuple(sum(a > i for *_, a in expected) for i in range(steps))
    assert sum(predicted.accepted) > 0
    assert predicted.undecided == 0


def test_rates_and_length_follow_the_servers_counters(head, greedy, embedding, lm_head):
    predicted = predict_acceptance(head, greedy, embedding, lm_head, 3)
    assert predicted.counts.rates == tuple(n / predicted.drafts for n in predicted.accepted)
    assert predicted.counts.mean_acceptance_length == 1 + float(predicted.accepted_lengths.double().mean())


def test_every_anchor_counts_each_position_at_which_a_whole_draft_fits(head, greedy, embedding, lm_head):
    predicted = predict_acceptance(head, greedy, embedding, lm_head, 3, every_anchor=True)
    assert predicted.drafts == int(greedy.counted(3).all(0).sum())


def test_a_chain_is_cut_where_an_accepted_draft_is_not_what_the_row_holds(head, greedy, embedding, lm_head):
    exact = predict_acceptance(head, greedy, embedding, lm_head, 3, every_anchor=True)
    hit = int((exact.accepted_lengths >= 2).nonzero()[0])
    row, place = exact.anchors[hit].tolist()
    tokens = greedy.tokens.clone()
    tokens[row, place + 2] = (tokens[row, place + 2] + 1) % 3
    sampled = predict_acceptance(head, replace(greedy, tokens=tokens), embedding, lm_head, 3, every_anchor=True)
    assert int(sampled.accepted_lengths[hit]) == 1
    assert sampled.undecided >= 1


def test_rows_without_an_answer_give_no_drafts(head, greedy, embedding, lm_head):
    empty = replace(greedy, loss_mask=torch.zeros_like(greedy.loss_mask))
    predicted = predict_acceptance(head, empty, embedding, lm_head, 3)
    assert predicted.drafts == 0
    assert predicted.accepted == (0, 0, 0)
    assert predicted.counts.mean_acceptance_length is None
