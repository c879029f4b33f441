"""Sizes, packing, norms, MLP and attention of the Qwen3.5 text architecture, in plain torch.

Shapes: B rows, T tokens in a row (a multiple of the chunk size), H hidden size, N heads, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RESET_LOG_DECAY = -40.0
"""Log decay at a document's first token: e^-40 leaves nothing of earlier state, and its sums stay exact enough."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the verifier; names are those of the checkpoint's ``config.json``."""

    vocab_size: int
    hidden_size: int = 256
    intermediate_size: int = 640
    layer_types: tuple[str, ...] = ("linear_attention",) * 3 + ("full_attention",)
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    linear_heads: int = 4
    linear_head_dim: int = 64
    linear_conv_kernel_dim: int = 4
    partial_rotary_factor: float = 0.25
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6


@dataclass(frozen=True)
class Packing:
    """What the layers need to know of a packed batch, computed once from the document numbers.

    ``first[B, T]`` is true at a document's first token, ``taps[k - 1][B, T, 1]`` is one where token t - k is of the
    same document, ``mask[B, 1, T, T]`` is causal within a document, ``cos`` and ``sin`` are ``[B, 1, T, rotary]``.
    """

    first: Tensor
    taps: tuple[Tensor, ...]
    mask: Tensor
    cos: Tensor
    sin: Tensor


def packing(documents: Tensor, positions: Tensor, shape: Shape) -> Packing:
    """Describe a batch by its document numbers ``[B, T]`` and positions within the document ``[B, T]``."""
    length = documents.shape[1]
    previous = F.pad(documents, (1, 0), value=-1)[:, :-1]
    taps = []
    for distance in range(1, shape.linear_conv_kernel_dim):
        shifted = F.pad(documents, (distance, 0), value=-1)[:, :length]
        taps.append((shifted == documents).float().unsqueeze(-1))
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    mask = (documents[:, None, :, None] == documents[:, None, None, :]) & causal
    rotary = int(shape.head_dim * shape.partial_rotary_factor)
    frequency = shape.rope_theta ** (-torch.arange(0, rotary, 2).float() / rotary)
    angle = (positions[:, None, :, None].float() * frequency).repeat(1, 1, 1, 2)
    return Packing(previous != documents, tuple(taps), mask, angle.cos(), angle.sin())


class RMSNorm(nn.Module):
    """Root-mean-square norm whose stored weight is centred on zero: ``x / rms(x) * (1 + weight)``."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), 1.0 + self.weight, self.eps)


class GatedRMSNorm(nn.Module):
    """The delta rule's output norm: ``x / rms(x) * weight * silu(gate)``, weight centred on one."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps) * F.silu(gate)


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position on the first channels of ``x[B, N, T, D]``; the rest pass through."""
    turned, kept = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    left, right = turned.chunk(2, dim=-1)
    turned = turned * cos + torch.cat([-right, left], dim=-1) * sin
    return torch.cat([turned, kept], dim=-1)


class Attention(nn.Module):
    """Grouped-query attention with normed queries and keys, and a sigmoid gate beside each query head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        heads, groups, size = shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, 2 * heads * size, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, groups * size, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, groups * size, bias=False)
        self.o_proj = nn.Linear(heads * size, shape.hidden_size, bias=False)
        self.q_norm = RMSNorm(size, shape.rms_norm_eps)
        self.k_norm = RMSNorm(size, shape.rms_norm_eps)

    def forward(self, x: Tensor, packed: Packing) -> Tensor:
        rows, length, _ = x.shape
        heads, groups, size = self.shape.num_attention_heads, self.shape.num_key_value_heads, self.shape.head_dim
        query, gate = self.q_proj(x).view(rows, length, heads, 2 * size).chunk(2, dim=-1)
        key = self.k_proj(x).view(rows, length, groups, size)
        value = self.v_proj(x).view(rows, length, groups, size).transpose(1, 2)
        query = rotate(self.q_norm(query).transpose(1, 2), packed.cos, packed.sin).to(value.dtype)
        key = rotate(self.k_norm(key).transpose(1, 2), packed.cos, packed.sin).to(value.dtype)
        key, value = (y.repeat_interleave(heads // groups, dim=1) for y in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=packed.mask)
        mixed = mixed.transpose(1, 2).reshape(rows, length, heads * size)
        return self.o_proj(mixed * gate.reshape(rows, length, heads * size).sigmoid())
