"""A tiny Qwen3.5 that transformers can run, with a random MTP head, and conversations for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from mtp_trainer.families import family_for

from ..conftest import write_tokenizer

TEXT_CONFIG = {
    "vocab_size": 272,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 1,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    "tie_word_embeddings": True,
    "mtp_num_hidden_layers": 1,
}


def make_verifier(folder: Path) -> Path:
    """Write a checkpoint that transformers can run, with all tensors of an MTP head, in bfloat16."""
    folder.mkdir(parents=True)
    torch.manual_seed(5)
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**TEXT_CONFIG))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    model.to(torch.bfloat16).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | {"mtp_num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config))
    head = {
        name: (torch.randn(shape) * 0.1).to(torch.bfloat16)
        for name, shape in sorted(family_for(config).expected_head_tensors(config).items())
    }
    change_weights(folder, lambda tensors: tensors.update(head))
    write_tokenizer(folder)
    return folder


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """Write a checkpoint's tensors again after ``change``."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def conversation(number: int) -> dict[str, Any]:
    answer = f"{number} and {number + 1} make {2 * number + 1}."
    return {"messages": [{"role": "user", "content": f"add {number}"}, {"role": "assistant", "content": answer}]}
