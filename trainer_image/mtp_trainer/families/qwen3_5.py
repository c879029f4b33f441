"""Qwen3.5, dense: text checkpoints and the language model of composite ones.

Conventions as in vLLM's ``model_executor/models/qwen3_5_mtp.py``: ``fc([norm(embedding), norm(hidden)])``, one
full-attention decoder layer of the verifier's own kind (output gate beside each query, normed queries and keys, partial
rotary positions), final norm, and the normed state is what is recycled.
"""

from __future__ import annotations

from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.families.descriptor import Config, Family, HeadShape

LAYER = "mtp.layers.0."

TENSOR_NAMES = {
    "projection.weight": "mtp.fc.weight",
    "embedding_norm.weight": "mtp.pre_fc_norm_embedding.weight",
    "hidden_norm.weight": "mtp.pre_fc_norm_hidden.weight",
    "final_norm.weight": "mtp.norm.weight",
    "layer.input_norm.weight": LAYER + "input_layernorm.weight",
    "layer.post_attention_norm.weight": LAYER + "post_attention_layernorm.weight",
    "layer.attention.query.weight": LAYER + "self_attn.q_proj.weight",
    "layer.attention.key.weight": LAYER + "self_attn.k_proj.weight",
    "layer.attention.value.weight": LAYER + "self_attn.v_proj.weight",
    "layer.attention.output.weight": LAYER + "self_attn.o_proj.weight",
    "layer.attention.query_norm.weight": LAYER + "self_attn.q_norm.weight",
    "layer.attention.key_norm.weight": LAYER + "self_attn.k_norm.weight",
    "layer.mlp.gate.weight": LAYER + "mlp.gate_proj.weight",
    "layer.mlp.up.weight": LAYER + "mlp.up_proj.weight",
    "layer.mlp.down.weight": LAYER + "mlp.down_proj.weight",
}


def read_shape(text: Config) -> HeadShape:
    """Sizes from the language model's configuration; refuses variants that would be read wrongly."""
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    for key, value, known in (
        ("rope_parameters.rope_type", rope_type, ("default", "mrope")),
        ("hidden_act", text.get("hidden_act", "silu"), ("silu",)),
        ("attention_bias", bool(text.get("attention_bias", False)), (False,)),
    ):
        if value not in known:
            raise StageError(
                Reason.UNSUPPORTED_FAMILY,
                f"config.json: {key} is {value!r}; for Qwen3.5 this trainer knows only {', '.join(map(repr, known))}",
            )
    try:
        head_dim = int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"])
        fraction = float(rope.get("partial_rotary_factor") or text.get("partial_rotary_factor") or 0.25)
        return HeadShape(
            hidden_size=int(text["hidden_size"]),
            intermediate_size=int(text["intermediate_size"]),
            attention_heads=int(text["num_attention_heads"]),
            key_value_heads=int(text["num_key_value_heads"]),
            head_dim=head_dim,
            rotary_dim=int(head_dim * fraction),
            rope_theta=float(rope.get("rope_theta") or text.get("rope_theta") or 10000.0),
            norm_epsilon=float(text.get("rms_norm_eps", 1e-6)),
            vocab_size=int(text["vocab_size"]),
        )
    except KeyError as error:
        raise StageError(
            Reason.CHECKPOINT_CORRUPT, f"config.json: {error.args[0]} is missing; use the model's own config.json"
        ) from error


def read_tensors(family: Family, shape: HeadShape) -> dict[str, tuple[int, ...]]:
    """The 15 tensors of a dense head. The query projection has a gate beside each query head, so twice the rows."""
    hidden, inner, size = shape.hidden_size, shape.intermediate_size, shape.head_dim
    queries, keys = shape.attention_heads * size, shape.key_value_heads * size
    by_parameter: dict[str, tuple[int, ...]] = {
        "projection.weight": (hidden, 2 * hidden),
        "layer.attention.query.weight": (2 * queries, hidden),
        "layer.attention.key.weight": (keys, hidden),
        "layer.attention.value.weight": (keys, hidden),
        "layer.attention.output.weight": (hidden, queries),
        "layer.attention.query_norm.weight": (size,),
        "layer.attention.key_norm.weight": (size,),
        "layer.mlp.gate.weight": (inner, hidden),
        "layer.mlp.up.weight": (inner, hidden),
        "layer.mlp.down.weight": (hidden, inner),
    }
    return {name: by_parameter.get(parameter, (hidden,)) for parameter, name in family.tensor_names.items()}


QWEN3_5 = Family(
    name="Qwen3.5",
    model_types=("qwen3_5_text", "qwen3_5"),
    architecture="Qwen3_5MTP",
    head_prefix="mtp.",
    heads_key="mtp_num_hidden_layers",
    tensor_names=TENSOR_NAMES,
    concat="EmbeddingHidden",
    zero_embedding_at_position_zero=False,
    norm="OnePlusWeight",
    recycled="AfterNorm",
    verifier_state="AfterNorm",
    embedding_names=("model.embed_tokens.weight", "model.language_model.embed_tokens.weight"),
    lm_head_names=("lm_head.weight",),
    final_norm_names=("model.norm.weight", "model.language_model.norm.weight"),
    read_shape=read_shape,
    read_tensors=read_tensors,
)
