"""Step 0 of the head against the verifier's own decoder layer as ``transformers`` has it."""

from __future__ import annotations

import torch
from transformers import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5DecoderLayer,
    Qwen3_5RMSNorm,
    Qwen3_5TextRotaryEmbedding,
)

from mtp_trainer.families import family_for
from mtp_trainer.head import MTPHead
from mtp_trainer.recursion import Anchors, Batch, recursive_states

CONFIG = {
    "model_type": "qwen3_5_text",
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "layer_types": ["full_attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
}


def test_step_zero_is_the_verifiers_own_layer():
    generator = torch.Generator().manual_seed(0)
    family = family_for(CONFIG)
    tensors = {
        name: torch.randn(shape, generator=generator) * 0.2
        for name, shape in family.expected_head_tensors(CONFIG).items()
    }
    config = Qwen3_5TextConfig(**CONFIG, attn_implementation="eager")
    layer = Qwen3_5DecoderLayer(config, 0)
    layer.load_state_dict(
        {n.removeprefix("mtp.layers.0."): t for n, t in tensors.items() if n.startswith("mtp.layers.0.")}
    )
    norms = {}
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        norms[name] = Qwen3_5RMSNorm(64)
        norms[name].load_state_dict({"weight": tensors[f"mtp.{name}.weight"]})

    hidden, embedding = (torch.randn(n, 64, generator=generator) for n in (12, 97))
    tokens = torch.randint(0, 97, (12,), generator=generator)
    place = torch.arange(12)
    shifted = embedding[tokens.roll(-1)]
    with torch.no_grad():
        pair = torch.cat([norms["pre_fc_norm_embedding"](shifted), norms["pre_fc_norm_hidden"](hidden)], dim=-1)
        x = (pair @ tensors["mtp.fc.weight"].T)[None]
        mask = torch.full((12, 12), float("-inf")).triu(1)[None, None]
        rotary = Qwen3_5TextRotaryEmbedding(config)(x, place[None, None].expand(3, 1, -1))
        expected = norms["norm"](layer(x, position_embeddings=rotary, attention_mask=mask))[0]

        head = MTPHead.from_tensors(family, CONFIG, tensors)
        batch = Batch(hidden[None], tokens[None], torch.ones(1, 12) > 0, torch.zeros(1, 12).long(), place[None])
        (state,) = recursive_states(head, batch, embedding, 1, "Serving", Anchors.every(batch, 1))
    torch.testing.assert_close(state[0, :11], expected[:11], rtol=1e-4, atol=1e-5)
