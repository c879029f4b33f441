"""A tiny random head, packed rows, and a reference written token by token, as a server with a key-value cache works."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mtp_trainer.families import family_for
from mtp_trainer.head import MTPHead
from mtp_trainer.recursion import Batch

CONFIG = {
    "model_type": "qwen3_5_text",
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    "tie_word_embeddings": True,
    "mtp_num_hidden_layers": 1,
}


@pytest.fixture
def config() -> dict:
    return dict(CONFIG)


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    family = family_for(CONFIG)
    return {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) == 1 else 0.15)
        for name, shape in family.expected_head_tensors(CONFIG).items()
    }


@pytest.fixture
def head(tensors: dict[str, Tensor]) -> MTPHead:
    """In float64, so that comparisons show mistakes and not rounding."""
    return MTPHead.from_tensors(family_for(CONFIG), CONFIG, tensors).double()


@pytest.fixture
def embedding() -> Tensor:
    return torch.randn(97, 64, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 0.5


@pytest.fixture
def batch() -> Batch:
    """Two rows: documents of 9, 3 and 8 positions with 4 of padding, and one document of 24."""
    generator = torch.Generator().manual_seed(3)
    documents = torch.tensor([[0] * 9 + [1] * 3 + [2] * 8 + [-1] * 4, [3] * 24])
    positions = torch.tensor([[*range(9), *range(3), *range(8), 0, 0, 0, 0], [*range(24)]])
    mask = (positions >= 2) & (documents >= 0)
    mask[1, 12:15] = False
    return Batch(
        hidden=torch.randn(2, 24, 64, generator=generator, dtype=torch.float64),
        tokens=torch.randint(0, 97, (2, 24), generator=generator),
        loss_mask=mask,
        documents=documents,
        positions=positions,
    )


class Served:
    """The head as a server runs it on one document: one token at a time, keys and values in a list."""

    def __init__(self, tensors: dict[str, Tensor], embedding: Tensor) -> None:
        self.weights = {name.removeprefix("mtp."): tensor.double() for name, tensor in tensors.items()}
        self.embedding = embedding

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * (1 + self.weights[name])

    def rope(self, x: Tensor, position: int) -> Tensor:
        result = x.clone()
        for i in range(4):
            angle = torch.tensor(position / 10000.0 ** (2 * i / 8), dtype=torch.float32)
            cosine, sine = angle.cos().double(), angle.sin().double()
            result[:, i] = x[:, i] * cosine - x[:, i + 4] * sine
            result[:, i + 4] = x[:, i + 4] * cosine + x[:, i] * sine
        return result

    def run(self, token: int, hidden: Tensor, position: int, cache: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Append this token's key and value to ``cache`` and return the state, which is also what is recycled."""
        w, layer = self.weights, "layers.0."
        pair = [
            self.norm(self.embedding[token], "pre_fc_norm_embedding.weight"),
            self.norm(hidden, "pre_fc_norm_hidden.weight"),
        ]
        x = w["fc.weight"] @ torch.cat(pair)
        y = self.norm(x, layer + "input_layernorm.weight")
        query, gate = (w[layer + "self_attn.q_proj.weight"] @ y).view(4, 64).split(32, dim=1)
        key = (w[layer + "self_attn.k_proj.weight"] @ y).view(2, 32)
        value = (w[layer + "self_attn.v_proj.weight"] @ y).view(2, 32)
        query = self.rope(self.norm(query, layer + "self_attn.q_norm.weight"), position)
        key = self.rope(self.norm(key, layer + "self_attn.k_norm.weight"), position)
        cache.append((key, value))
        mixed = []
        for n in range(4):
            scores = torch.stack([query[n] @ k[n // 2] / math.sqrt(32) for k, _ in cache])
            mixed.append(sum(p * v[n // 2] for p, (_, v) in zip(scores.softmax(0), cache, strict=True)))
        x = x + w[layer + "self_attn.o_proj.weight"] @ (torch.stack(mixed) * gate.sigmoid()).flatten()
        y = self.norm(x, layer + "post_attention_layernorm.weight")
        up = w[layer + "mlp.up_proj.weight"] @ y
        x = x + w[layer + "mlp.down_proj.weight"] @ (
            torch.nn.functional.silu(w[layer + "mlp.gate_proj.weight"] @ y) * up
        )
        return self.norm(x, "norm.weight")

    def chain(self, tokens: Tensor, hidden: Tensor, anchor: int, steps: int, lm_head: Tensor | None = None) -> list:
        """States of a draft at ``anchor`` of one document; on its own drafts where ``lm_head`` is given."""
        cache: list[tuple[Tensor, Tensor]] = []
        for i in range(anchor + 1):
            state = self.run(int(tokens[i + 1]), hidden[i], i, cache)
        states = [state]
        for k in range(1, steps):
            token = int(tokens[anchor + k + 1]) if lm_head is None else int((lm_head @ state).argmax())
            state = self.run(token, state, anchor + k, cache)
            states.append(state)
        return states


@pytest.fixture
def served(tensors: dict[str, Tensor], embedding: Tensor) -> Served:
    return Served(tensors, embedding)


@pytest.fixture
def spans() -> list[tuple[int, int, int]]:
    """(row, start, end) of the documents in ``batch``."""
    return [(0, 0, 9), (0, 9, 12), (0, 12, 20), (1, 0, 24)]


@pytest.fixture
def disturbed(batch: Batch) -> Batch:
    """``batch`` with other tokens and states everywhere but in the document at row 0, positions 12 to 19."""
    hidden, tokens = batch.hidden.clone(), batch.tokens.clone()
    elsewhere = batch.documents != 2
    hidden[elsewhere] = torch.randn(int(elsewhere.sum()), 64, dtype=torch.float64)
    tokens[elsewhere] = (tokens[elsewhere] + 31) % 97
    return replace(batch, hidden=hidden, tokens=tokens)
