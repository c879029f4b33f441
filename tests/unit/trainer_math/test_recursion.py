from __future__ import annotations

import pytest
import torch

from mtp_trainer.recursion import Anchors, recursive_states
from mtp_trainer.recursion.attention import chain_attention

STEPS = 3


def test_the_served_recursion_equals_a_server_with_a_cache(head, batch, embedding, served, spans):
    states = recursive_states(head, batch, embedding, STEPS, "Serving", Anchors.every(batch, STEPS))
    compared = 0
    for row, start, end in spans:
        tokens, hidden = batch.tokens[row, start:end], batch.hidden[row, start:end]
        for anchor in range(end - start - STEPS - 1):
            for k, expected in enumerate(served.chain(tokens, hidden, anchor, STEPS)):
                torch.testing.assert_close(states[k][row, start + anchor], expected, rtol=0, atol=1e-6)
                compared += 1
    assert compared == STEPS * (5 + 0 + 4 + 20)


def test_anchors_left_out_do_not_change_the_others(head, batch, embedding):
    some = Anchors.needed(batch, STEPS)
    assert some.index.shape[1] < batch.tokens.shape[1]
    every = recursive_states(head, batch, embedding, STEPS, "Serving", Anchors.every(batch, STEPS))
    for state, whole in zip(recursive_states(head, batch, embedding, STEPS, "Serving", some), every, strict=True):
        torch.testing.assert_close(state, some.take(whole), rtol=0, atol=1e-12)


def test_same_depth_lets_every_row_see_the_same_steps_keys(head, batch, embedding, served, spans):
    states = recursive_states(head, batch, embedding, STEPS, "SameDepth", Anchors.every(batch, STEPS))
    for row, start, end in spans:
        recycled = list(batch.hidden[row, start:end])
        for k in range(STEPS):
            cache: list = []
            for i in range(end - start - k - 1):
                recycled[i] = served.run(int(batch.tokens[row, start + i + k + 1]), recycled[i], i, cache)
                torch.testing.assert_close(states[k][row, start + i], recycled[i], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kv_context", ["Serving", "SameDepth"])
def test_a_document_does_not_feel_another(head, batch, disturbed, embedding, kv_context):
    every = Anchors.every(batch, STEPS)
    before = recursive_states(head, batch, embedding, STEPS, kv_context, every)
    after = recursive_states(head, disturbed, embedding, STEPS, kv_context, every)
    for k in range(STEPS):
        own = slice(12, 20 - k - 1)
        assert torch.equal(before[k][0, own], after[k][0, own])


@pytest.mark.parametrize("own", [0, 2])
@pytest.mark.parametrize("block", [3, 128])
def test_chain_attention_and_its_gradient_equal_one_softmax_over_all_keys(own, block):
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)

    query, key, value = random(2, 5, 4, 8), random(2, 9, 2, 8), random(2, 9, 2, 8)
    own_key, own_value = random(own, 2, 5, 2, 8), random(own, 2, 5, 2, 8)
    index = torch.tensor([[0, 2, 3, 6, 8], [1, 2, 4, 7, 7]])
    starts = torch.tensor([[0, 0, 3, 3, 3], [0, 0, 0, 5, 5]])
    inputs = [query, key, value, *([own_key, own_value] if own else [])]
    mixed = chain_attention(query, key, value, *(inputs[3:] or (None, None)), index, starts, block)

    rows = []
    for r in range(2):
        for a in range(5):
            seen = slice(int(starts[r, a]), int(index[r, a]) + 1)
            keys = torch.cat([key[r, seen], own_key[:, r, a]]).repeat_interleave(2, dim=1)
            values = torch.cat([value[r, seen], own_value[:, r, a]]).repeat_interleave(2, dim=1)
            weights = (torch.einsum("nd,jnd->nj", query[r, a], keys) / 8**0.5).softmax(-1)
            rows.append(torch.einsum("nj,jnd->nd", weights, values))
    expected = torch.stack(rows).view(2, 5, 4, 8)
    torch.testing.assert_close(mixed, expected)
    outer = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    for mine, theirs in zip(
        torch.autograd.grad(mixed, inputs, outer), torch.autograd.grad(expected, inputs, outer), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


def test_an_anchor_counts_where_its_target_is_in_the_document_and_under_the_mask(batch):
    counted = batch.counted(STEPS)
    for k in range(STEPS):
        for row in range(2):
            for t in range(24):
                target = t + k + 2
                expected = (
                    target < 24
                    and bool(batch.loss_mask[row, target])
                    and int(batch.documents[row, t]) == int(batch.documents[row, target]) >= 0
                )
                assert bool(counted[k, row, t]) == expected, (k, row, t)
