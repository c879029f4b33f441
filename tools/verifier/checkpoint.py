"""Write the verifier as a checkpoint folder that vLLM and ``transformers`` load.

The weights are written tensor by tensor: ``save_pretrained`` would drop ``mtp.*`` without a word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from verifier.corpus import CHAT_TEMPLATE, END, PAD, START
from verifier.layers import Shape
from verifier.model import Verifier

CONTEXT = 1024


def config(shape: Shape, tokenizer: Tokenizer) -> dict[str, Any]:
    """``config.json`` of a Qwen3.5 text model with one MTP layer."""
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "dtype": "bfloat16",
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": len(shape.layer_types),
        "layer_types": list(shape.layer_types),
        "full_attention_interval": len(shape.layer_types),
        "num_attention_heads": shape.num_attention_heads,
        "num_key_value_heads": shape.num_key_value_heads,
        "head_dim": shape.head_dim,
        "attn_output_gate": True,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "linear_num_key_heads": shape.linear_heads,
        "linear_num_value_heads": shape.linear_heads,
        "linear_key_head_dim": shape.linear_head_dim,
        "linear_value_head_dim": shape.linear_head_dim,
        "linear_conv_kernel_dim": shape.linear_conv_kernel_dim,
        "mamba_ssm_dtype": "float32",
        "hidden_act": "silu",
        "rms_norm_eps": shape.rms_norm_eps,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": shape.rope_theta,
            "partial_rotary_factor": shape.partial_rotary_factor,
        },
        "tie_word_embeddings": True,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "pad_token_id": tokenizer.token_to_id(PAD),
        "eos_token_id": tokenizer.token_to_id(END),
        "bos_token_id": None,
        "use_cache": True,
        "initializer_range": 0.02,
    }


def write_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """``tokenizer.json`` and ``tokenizer_config.json`` with the chat template."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "eos_token": END,
        "bos_token": None,
        "unk_token": None,
        "additional_special_tokens": [START, END],
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    write_json(folder / "tokenizer_config.json", settings)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Indented JSON with a final newline."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write(folder: Path, verifier: Verifier, tokenizer: Tokenizer) -> None:
    """The whole checkpoint: configuration, tokenizer, generation settings and bfloat16 weights in one file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config(verifier.shape, tokenizer))
    ends = [tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)]
    generation = {"do_sample": False, "eos_token_id": ends, "pad_token_id": ends[1]}
    write_json(folder / "generation_config.json", generation)
    write_tokenizer(folder, tokenizer)
    tensors = {name: value.detach().to(torch.bfloat16).contiguous() for name, value in verifier.state_dict().items()}
    partial = folder / "model.safetensors.partial"
    save_file(tensors, str(partial), metadata={"format": "pt"})
    partial.chmod(0o644)
    partial.replace(folder / "model.safetensors")


def read_trunk(path: Path, verifier: Verifier) -> None:
    """Load ``model.*`` of a saved checkpoint file; its head, if any, is ignored."""
    tensors = load_file(str(path))
    trunk = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    verifier.model.load_state_dict({name: value.float() for name, value in trunk.items()})
