"""The Qwen3.5 text architecture with its MTP head, made for training on a CPU.

``transformers`` can run this architecture too, but not with documents packed into a row: its gated delta rule carries
state from one document into the next. Here every mixing operation (convolution, delta rule, attention) stops at a
document's start, so a packed row equals its documents run one by one. Module names are the checkpoint's tensor names,
so a ``state_dict`` is what vLLM and ``transformers`` load.

Shapes: B rows, T tokens in a row (a multiple of the delta rule's chunk size), H hidden size, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from verifier.delta import GatedDeltaNet
from verifier.layers import Attention, Mlp, Packing, RMSNorm, Shape


class Block(nn.Module):
    """Pre-norm residual layer: a mixer (attention or delta rule), then the MLP."""

    def __init__(self, shape: Shape, layer_type: str) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.linear = layer_type == "linear_attention"
        if self.linear:
            self.linear_attn = GatedDeltaNet(shape)
        else:
            self.self_attn = Attention(shape)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, packed: Packing) -> Tensor:
        mixer = self.linear_attn if self.linear else self.self_attn
        x = x + mixer(self.input_layernorm(x), packed)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    """Embedding, layers and final norm; returns the states after that norm, ``[B, T, H]``."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Block(shape, layer_type) for layer_type in shape.layer_types)
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)

    def forward(self, tokens: Tensor, packed: Packing) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, packed)
        return self.norm(x)


class Head(nn.Module):
    """The MTP head: one attention layer over ``fc([norm(embedding of x[t+1]), norm(h[t])])``, then its own norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * shape.hidden_size, shape.hidden_size, bias=False)
        self.pre_fc_norm_embedding = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.pre_fc_norm_hidden = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.layers = nn.ModuleList([Block(shape, "full_attention")])
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)

    def forward(self, embedded: Tensor, hidden: Tensor, packed: Packing) -> Tensor:
        pair = torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)], dim=-1)
        return self.norm(self.layers[0](self.fc(pair).float(), packed))


class Verifier(nn.Module):
    """Trunk (``model.*``) and head (``mtp.*``); the output projection is the tied embedding."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Trunk(shape)
        self.mtp = Head(shape)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deep = name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.012 if deep else 0.04)

    def logits(self, states: Tensor) -> Tensor:
        """Vocabulary scores ``[..., V]`` of normed states ``[..., H]``."""
        return F.linear(states, self.model.embed_tokens.weight)
