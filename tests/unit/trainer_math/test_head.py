from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.families import family_for
from mtp_trainer.head import MTPHead


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_tensors_come_back_to_the_bit(config, tensors, dtype):
    stored = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    written = MTPHead.from_tensors(family_for(config), config, stored).to_tensors(dtype)
    assert written.keys() == stored.keys()
    assert all(torch.equal(written[name], stored[name]) and written[name].dtype == dtype for name in stored)


def test_written_tensors_are_copies(config, tensors):
    head = MTPHead.from_tensors(family_for(config), config, tensors)
    written = head.to_tensors()
    with torch.no_grad():
        head.projection.weight.zero_()
    assert torch.equal(written["mtp.fc.weight"], tensors["mtp.fc.weight"])


def test_every_parameter_is_a_float32_master_that_learns(config, tensors):
    stored = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    head = MTPHead.from_tensors(family_for(config), config, stored)
    assert len(list(head.parameters())) == 15
    assert all(p.dtype == torch.float32 and p.requires_grad for p in head.parameters())


def test_a_head_that_is_not_complete_is_refused_with_every_fault(config, tensors):
    tensors["mtp.extra.weight"] = torch.zeros(1)
    tensors["mtp.norm.weight"] = torch.zeros(3)
    del tensors["mtp.fc.weight"]
    with pytest.raises(
        StageError, match=r"mtp.fc.weight is missing; mtp.extra.weight is unknown; .*\(3,\), not \(64,\)"
    ) as e:
        MTPHead.from_tensors(family_for(config), config, tensors)
    assert e.value.reason is Reason.INCOMPLETE_MTP_HEAD


def variant(config, tensors, **conventions) -> MTPHead:
    return MTPHead.from_tensors(replace(family_for(config), **conventions), config, tensors)


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(4)
    embedding, hidden = (torch.randn(5, 64, generator=generator) for _ in range(2))
    return embedding, hidden, torch.arange(5)


def test_the_order_of_concatenation_is_the_familys(config, tensors, inputs):
    fc = tensors["mtp.fc.weight"]
    swapped = tensors | {"mtp.fc.weight": torch.cat([fc[:, 64:], fc[:, :64]], dim=1)}
    expected = variant(config, tensors).combine(*inputs)
    torch.testing.assert_close(variant(config, swapped, concat="HiddenEmbedding").combine(*inputs), expected)


def test_the_embedding_is_zeroed_at_position_zero_only_where_the_family_says_so(config, tensors, inputs):
    embedding, hidden, positions = inputs
    kept = variant(config, tensors).combine(*inputs)
    zeroed = variant(config, tensors, zero_embedding_at_position_zero=True).combine(*inputs)
    without = variant(config, tensors).combine(torch.zeros_like(embedding), hidden, positions)
    assert torch.equal(zeroed[1:], kept[1:])
    torch.testing.assert_close(zeroed[0], without[0])


def test_a_norm_without_offset_scales_by_the_weight_itself(config, tensors, inputs):
    shifted = {name: tensor + 1.0 if tensor.dim() == 1 else tensor for name, tensor in tensors.items()}
    expected = variant(config, tensors).combine(*inputs)
    torch.testing.assert_close(variant(config, shifted, norm="Weight").combine(*inputs), expected)


def test_the_recycled_state_is_the_familys(config, tensors, inputs):
    x, mixed = inputs[1], torch.ones(5, 128)
    after, before = (variant(config, tensors, recycled=r).close(x, mixed, mixed) for r in ("AfterNorm", "BeforeNorm"))
    assert torch.equal(after.recycled, after.state)
    assert torch.equal(before.state, after.state)
    head = variant(config, tensors)
    torch.testing.assert_close(head.final_norm(before.recycled), after.state)
