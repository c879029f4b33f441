from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mtp_trainer.contract import StepWeights
from mtp_trainer.recursion import Anchors, recursive_loss, recursive_states

OBJECTIVES = ["CE", "KL", "TV", "LK", "E2ETV"]


def gradients(head, output):
    head.zero_grad()
    output.loss.backward()
    return {name: parameter.grad.clone() for name, parameter in head.named_parameters()}


@pytest.mark.parametrize("kv_context", ["Serving", "SameDepth"])
def test_the_ce_loss_equals_full_logits_and_autograd(head, batch, embedding, kv_context):
    output = recursive_loss(head, batch, embedding, embedding, "CE", 3, kv_context, chunk_tokens=5)
    mine = gradients(head, output)
    states = recursive_states(head, batch, embedding, 3, kv_context, Anchors.every(batch, 3))
    counted, loss = batch.counted(3), 0.0
    for k, state in enumerate(states):
        logits = (state @ embedding.T)[:, : 24 - k - 2]
        rows = counted[k][:, : 24 - k - 2]
        step = torch.nn.functional.cross_entropy(logits[rows], batch.tokens[:, k + 2 :][rows])
        loss = loss + 0.6**k / 1.96 * step
        torch.testing.assert_close(output.step_losses[k], step.detach())
    torch.testing.assert_close(output.loss, loss)
    head.zero_grad()
    loss.backward()
    for name, parameter in head.named_parameters():
        torch.testing.assert_close(mine[name], parameter.grad, msg=name)


@pytest.mark.parametrize("kv_context", ["Serving", "SameDepth"])
@pytest.mark.parametrize("objective", ["CE", "KL", "TV", "E2ETV"])  # LK's lambda is detached: a difference would see it
def test_every_gradient_equals_finite_differences(head, batch, embedding, objective, kv_context):
    def loss():
        return recursive_loss(head, batch, embedding, embedding, objective, 3, kv_context, chunk_tokens=7)

    analytic = gradients(head, loss())
    generator = torch.Generator().manual_seed(9)
    for name, parameter in head.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            step = 1e-6
            parameter.add_(direction, alpha=step)
            above = loss().loss
            parameter.add_(direction, alpha=-2 * step)
            below = loss().loss
            parameter.add_(direction, alpha=step)
        slope = (analytic[name] * direction).sum()
        torch.testing.assert_close(slope, (above - below) / (2 * step), rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_only_the_head_gets_a_gradient(head, batch, embedding, objective):
    embedding, lm_head = embedding.clone().requires_grad_(), embedding.clone().requires_grad_()
    batch = replace(batch, hidden=batch.hidden.clone().requires_grad_())
    got = gradients(head, recursive_loss(head, batch, embedding, lm_head, objective))
    assert all(gradient.abs().sum() > 0 for gradient in got.values())
    assert embedding.grad is None
    assert lm_head.grad is None
    assert batch.hidden.grad is None


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_chunks_change_neither_loss_nor_gradient(head, batch, embedding, objective):
    outputs = [recursive_loss(head, batch, embedding, embedding, objective, chunk_tokens=c) for c in (2, 1000)]
    torch.testing.assert_close(outputs[0].loss, outputs[1].loss)
    first, second = (gradients(head, output) for output in outputs)
    for name in first:
        torch.testing.assert_close(first[name], second[name], msg=name)


@pytest.mark.parametrize("kv_context", ["Serving", "SameDepth"])
def test_the_loss_of_a_document_does_not_feel_another(head, batch, disturbed, embedding, kv_context):
    alone = (batch.documents == 2) & batch.loss_mask
    before = recursive_loss(head, replace(batch, loss_mask=alone), embedding, embedding, "LK", 3, kv_context)
    after = recursive_loss(head, replace(disturbed, loss_mask=alone), embedding, embedding, "LK", 3, kv_context)
    torch.testing.assert_close(before.loss, after.loss, rtol=1e-12, atol=0)
    for mine, theirs in zip(gradients(head, before).values(), gradients(head, after).values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


def test_packing_does_not_change_the_loss(head, batch, embedding, spans):
    packed = recursive_loss(head, batch, embedding, embedding, "KL")
    total = torch.zeros(3, dtype=torch.float64)
    counted = torch.zeros(3, dtype=torch.long)
    for row, start, end in spans:
        part = replace(
            batch, **{name: getattr(batch, name)[row : row + 1, start:end] for name in batch.__dataclass_fields__}
        )
        output = recursive_loss(head, part, embedding, embedding, "KL")
        total += output.step_losses.detach() * output.counted
        counted += output.counted
    assert torch.equal(counted, packed.counted)
    torch.testing.assert_close(packed.step_losses, total / counted)


def test_rows_without_anything_to_learn_give_zero(head, batch, embedding):
    empty = replace(batch, loss_mask=torch.zeros_like(batch.loss_mask))
    output = recursive_loss(head, empty, embedding, embedding, "LK")
    assert float(output.loss.detach()) == 0.0
    assert float(output.predicted_length) == 1.0
    assert all(gradient.abs().sum() == 0 for gradient in gradients(head, output).values())


def test_survival_weights_reach_the_loss(head, batch, embedding):
    survival = recursive_loss(head, batch, embedding, embedding, "KL", step_weights=StepWeights(kind="Survival"))
    beta = recursive_loss(head, batch, embedding, embedding, "KL")
    assert float(survival.loss.detach()) != float(beta.loss.detach())
    torch.testing.assert_close(survival.step_losses, beta.step_losses)


def test_bfloat16_compute_stays_near_float32_and_keeps_float32_gradients(head, batch, embedding):
    head = head.float()
    wide = recursive_loss(head, batch, embedding.float(), embedding.float(), "LK")
    head.compute_dtype = torch.bfloat16
    narrow = recursive_loss(head, batch, embedding.float(), embedding.bfloat16(), "LK")
    assert abs(float(narrow.loss) / float(wide.loss) - 1) < 0.05
    assert all(gradient.dtype == torch.float32 for gradient in gradients(head, narrow).values())
