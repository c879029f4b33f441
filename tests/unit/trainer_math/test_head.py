from __future__ import annotations

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
