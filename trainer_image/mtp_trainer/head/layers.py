"""The parts of a head's decoder layer.

They are written here, and not taken from ``transformers``, because a step of the recursion needs its queries, keys and
values apart: the keys of step 0 and the chain's own keys meet in one softmax, which no attention interface offers.

Shapes: ``...`` is any leading shape, H hidden size, N query heads, G key and value heads, D head size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtp_trainer.families import HeadShape


class Norm(nn.Module):
    """Root-mean-square norm in float32, scaled by ``offset + weight``; returns the input's dtype."""

    def __init__(self, size: int, epsilon: float, offset: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), 1.0 - offset))
        self.epsilon, self.offset = epsilon, offset

    def forward(self, x: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        scale = self.weight + self.offset if self.offset else self.weight
        return F.rms_norm(wide, (x.shape[-1],), scale.to(wide.dtype), self.epsilon).to(x.dtype)


class Rotary:
    """Cosines and sines of token positions, one pair per step and row."""

    def __init__(self, shape: HeadShape) -> None:
        self.dim, self.theta = shape.rotary_dim, shape.rope_theta

    def __call__(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Tables ``[..., 1, rotary_dim]`` of ``positions[...]``, the middle axis standing for the heads."""
        exponent = torch.arange(0, self.dim, 2, device=positions.device, dtype=torch.float32) / self.dim
        angle = positions.unsqueeze(-1).float() * (1.0 / self.theta**exponent)
        angle = torch.cat([angle, angle], dim=-1).unsqueeze(-2)
        return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the first channels of ``x[..., heads, D]`` by their position; the others pass unchanged."""
    cosine, sine = tables
    turned, kept = x.split([cosine.shape[-1], x.shape[-1] - cosine.shape[-1]], dim=-1)
    first, second = turned.chunk(2, dim=-1)
    turned = turned * cosine + torch.cat([-second, first], dim=-1) * sine
    return torch.cat([turned, kept], dim=-1) if kept.shape[-1] else turned


class Attention(nn.Module):
    """Projections around a grouped-query attention whose keys the recursion chooses."""

    def __init__(self, shape: HeadShape, offset: float) -> None:
        super().__init__()
        self.heads, self.groups, self.size = shape.attention_heads, shape.key_value_heads, shape.head_dim
        self.query = nn.Linear(shape.hidden_size, 2 * self.heads * self.size, bias=False)
        self.key = nn.Linear(shape.hidden_size, self.groups * self.size, bias=False)
        self.value = nn.Linear(shape.hidden_size, self.groups * self.size, bias=False)
        self.output = nn.Linear(self.heads * self.size, shape.hidden_size, bias=False)
        self.query_norm = Norm(self.size, shape.norm_epsilon, offset)
        self.key_norm = Norm(self.size, shape.norm_epsilon, offset)

    def queries(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Queries ``[..., N, D]`` and output gates ``[..., N * D]`` (before the sigmoid) of ``x[..., H]``."""
        query, gate = self.query(x).unflatten(-1, (self.heads, 2 * self.size)).chunk(2, dim=-1)
        return rotate(self.query_norm(query), tables).to(gate.dtype), gate.flatten(-2)

    def keys_values(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys and values ``[..., G, D]`` of ``x[..., H]``."""
        key = self.key(x).unflatten(-1, (self.groups, self.size))
        value = self.value(x).unflatten(-1, (self.groups, self.size))
        return rotate(self.key_norm(key), tables).to(value.dtype), value


class MLP(nn.Module):
    """``down(silu(gate(x)) * up(x))``."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class DecoderLayer(nn.Module):
    """Pre-norm residual layer; the recursion calls its parts."""

    def __init__(self, shape: HeadShape, offset: float) -> None:
        super().__init__()
        self.input_norm = Norm(shape.hidden_size, shape.norm_epsilon, offset)
        self.post_attention_norm = Norm(shape.hidden_size, shape.norm_epsilon, offset)
        self.attention = Attention(shape, offset)
        self.mlp = MLP(shape)

    def close(self, x: Tensor, mixed: Tensor, gate: Tensor) -> Tensor:
        """The layer's output ``[..., H]`` from its input ``x``, the attention's ``mixed[..., N * D]`` and its gate."""
        x = x + self.attention.output(mixed * gate.sigmoid())
        return x + self.mlp(self.post_attention_norm(x))
