"""The MTP head: its parameters, and one step of its recursion in the pieces that the recursion arranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.families import Family
from mtp_trainer.families.descriptor import Config
from mtp_trainer.head.layers import DecoderLayer, Norm, Rotary


class StepOutput(NamedTuple):
    """What one step gives: ``state[..., H]`` for the verifier's lm_head, ``recycled[..., H]`` for the next step."""

    state: Tensor
    recycled: Tensor


class MTPHead(nn.Module):
    """One MTP head; parameters are float32 masters unless moved.

    ``compute_dtype`` is that of the matrix products (autocast); norms and softmax stay wide.
    The head owns neither embedding nor lm_head: both are the verifier's, and served heads get the verifier's.
    """

    def __init__(self, family: Family, config: Config, compute_dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.family, self.compute_dtype = family, compute_dtype
        self.shape = shape = family.shape(config)
        self.expected = family.expected_head_tensors(config)
        offset = 1.0 if family.norm == "OnePlusWeight" else 0.0
        self.embedding_norm = Norm(shape.hidden_size, shape.norm_epsilon, offset)
        self.hidden_norm = Norm(shape.hidden_size, shape.norm_epsilon, offset)
        self.projection = nn.Linear(2 * shape.hidden_size, shape.hidden_size, bias=False)
        self.layer = DecoderLayer(shape, offset)
        self.final_norm = Norm(shape.hidden_size, shape.norm_epsilon, offset)
        self.rotary = Rotary(shape)

    @classmethod
    def from_tensors(
        cls, family: Family, config: Config, tensors: Mapping[str, Tensor], compute_dtype: torch.dtype = torch.float32
    ) -> MTPHead:
        """Build the head from a checkpoint's tensors, converted to float32 (exact from bfloat16 and float16).

        Raises:
            StageError: ``IncompleteMTPHead``, naming tensors that are missing, unknown or of a wrong shape.
        """
        head = cls(family, config, compute_dtype)
        wrong = [f"{name} is missing" for name in head.expected if name not in tensors]
        wrong += [f"{name} is unknown" for name in tensors if name not in head.expected]
        wrong += [
            f"{name} has shape {tuple(tensors[name].shape)}, not {shape}"
            for name, shape in head.expected.items()
            if name in tensors and tuple(tensors[name].shape) != shape
        ]
        if wrong:
            raise StageError(
                Reason.INCOMPLETE_MTP_HEAD,
                f"MTP head: {'; '.join(wrong)}; use the {family.name} model's own checkpoint",
            )
        parameters = dict(head.named_parameters())
        with torch.no_grad():
            for parameter, name in family.tensor_names.items():
                parameters[parameter].copy_(tensors[name])
        return head

    def to_tensors(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """Copies of the head's tensors on the CPU, under the checkpoint's names, in ``dtype`` (default: as held)."""
        parameters = dict(self.named_parameters())
        return {
            name: parameters[parameter].detach().to(device="cpu", dtype=dtype, copy=True).contiguous()
            for parameter, name in self.family.tensor_names.items()
        }

    def combine(self, embedding: Tensor, hidden: Tensor, positions: Tensor) -> Tensor:
        """The layer's input ``[..., H]`` from a token's embedding and a state ``[..., H]`` at ``positions[...]``."""
        if self.family.zero_embedding_at_position_zero:
            embedding = embedding.masked_fill((positions == 0).unsqueeze(-1), 0.0)
        pair = [self.embedding_norm(embedding), self.hidden_norm(hidden)]
        if self.family.concat == "HiddenEmbedding":
            pair.reverse()
        return self.projection(torch.cat(pair, dim=-1))

    def close(self, x: Tensor, mixed: Tensor, gate: Tensor) -> StepOutput:
        """End a step: attention output ``mixed[..., N * D]`` and gate onto the layer's input ``x[..., H]``."""
        raw = self.layer.close(x, mixed, gate)
        state = self.final_norm(raw)
        return StepOutput(state, state if self.family.recycled == "AfterNorm" else raw)
