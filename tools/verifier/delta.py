"""The gated delta rule of Qwen3.5's linear-attention layers, in its chunked form.

Per head a state S (key size × value size) follows S_t = a_t (I − b_t k_t k_tᵀ) S_{t−1} + b_t k_t v_tᵀ and gives
o_t = S_tᵀ q_t, with decay a_t in (0, 1] and write strength b_t (Gated Delta Networks, arXiv 2412.06464). Within a chunk
the recurrence is one triangular system, so the time goes into matrix products, and only chunks run in sequence.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from verifier.layers import RESET_LOG_DECAY, GatedRMSNorm, Packing, Shape

CHUNK = 64


def chunked_delta_rule(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, strength: Tensor) -> Tensor:
    """Outputs ``[B, N, T, D]`` for float32 ``query, key, value [B, N, T, D]``, ``log_decay, strength [B, N, T]``.

    Keys are unit vectors, queries are scaled; T is a multiple of ``CHUNK``.
    """
    rows, heads, length, size = key.shape
    chunks = length // CHUNK
    query, key, value = (x.reshape(rows * heads, chunks, CHUNK, size) for x in (query, key, value))
    total = log_decay.reshape(rows * heads, chunks, CHUNK).cumsum(-1)
    strength = strength.reshape(rows * heads, chunks, CHUNK, 1)

    future = torch.ones(CHUNK, CHUNK, dtype=torch.bool).triu(1)
    between = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(future, float("-inf")).exp()
    strong_key = key * strength
    system = (strong_key @ key.transpose(-1, -2)) * between
    reading = (query @ key.transpose(-1, -2)) * between
    from_start = total.exp().unsqueeze(-1)
    right = torch.cat([value * strength, strong_key * from_start], dim=-1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    written, erased = solved.split(size, dim=-1)

    query = query * from_start
    to_end = key * (total[..., -1:] - total).exp().unsqueeze(-1)
    whole = total[..., -1].exp()[..., None, None]
    state = torch.zeros(rows * heads, size, size)
    outputs = []
    for chunk in range(chunks):
        news = written[:, chunk] - erased[:, chunk] @ state
        outputs.append(query[:, chunk] @ state + reading[:, chunk] @ news)
        state = state * whole[:, chunk] + to_end[:, chunk].transpose(-1, -2) @ news
    return torch.stack(outputs, dim=1).reshape(rows, heads, length, size)


class GatedDeltaNet(nn.Module):
    """Linear attention: projection, short causal convolution, gated delta rule, gated norm, projection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.size = shape.linear_heads, shape.linear_head_dim
        width = self.heads * self.size
        self.in_proj_qkv = nn.Linear(shape.hidden_size, 3 * width, bias=False)
        self.in_proj_z = nn.Linear(shape.hidden_size, width, bias=False)
        self.in_proj_b = nn.Linear(shape.hidden_size, self.heads, bias=False)
        self.in_proj_a = nn.Linear(shape.hidden_size, self.heads, bias=False)
        self.conv1d = nn.Conv1d(3 * width, 3 * width, shape.linear_conv_kernel_dim, groups=3 * width, bias=False)
        self.norm = GatedRMSNorm(self.size, shape.rms_norm_eps)
        self.out_proj = nn.Linear(width, shape.hidden_size, bias=False)
        # Decays start between fast and very slow, as in state-space models: long memory needs the slow ones.
        step = torch.exp(torch.empty(self.heads).uniform_(math.log(1e-3), math.log(1e-1)))
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.A_log = nn.Parameter(torch.empty(self.heads).uniform_(1.0, 8.0).log())

    def convolve(self, x: Tensor, packed: Packing) -> Tensor:
        """Depthwise causal convolution of ``x[B, T, C]`` that does not look into the previous document."""
        weight = self.conv1d.weight[:, 0].to(x.dtype)
        result = x * weight[:, -1]
        for distance, same in enumerate(packed.taps, start=1):
            shifted = F.pad(x, (0, 0, distance, 0))[:, : x.shape[1]]
            result = result + shifted * same.to(x.dtype) * weight[:, -1 - distance]
        return F.silu(result)

    def forward(self, x: Tensor, packed: Packing) -> Tensor:
        rows, length, _ = x.shape
        mixed = self.convolve(self.in_proj_qkv(x), packed)
        mixed = mixed.float().view(rows, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        query, key = (y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6) for y in (mixed[0], mixed[1]))
        strength = self.in_proj_b(x).float().sigmoid().transpose(1, 2)
        log_decay = -self.A_log.exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias)
        log_decay = log_decay.masked_fill(packed.first.unsqueeze(-1), RESET_LOG_DECAY).transpose(1, 2)
        with torch.autocast("cpu", enabled=False):
            output = chunked_delta_rule(query * self.size**-0.5, key, mixed[2], log_decay, strength)
        output = output.transpose(1, 2)
        gate = self.in_proj_z(x).float().view(rows, length, self.heads, self.size)
        return self.out_proj(self.norm(output, gate).reshape(rows, length, -1))
