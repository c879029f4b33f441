"""Tiny checkpoints and datasets on disk, and the ways in which a disk refuses."""

from __future__ import annotations

import json
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from mtp_trainer.families import family_for

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' %}{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ message.content }}<|im_end|>{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tiny_config(composite: bool = False) -> dict[str, Any]:
    """Configuration of a Qwen3.5 so small that its weights are a few kilobytes."""
    text = {
        "vocab_size": 300,
        "hidden_size": 8,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 4,
        "tie_word_embeddings": True,
        "mtp_num_hidden_layers": 1,
    }
    if composite:
        return {"model_type": "qwen3_5", "tie_word_embeddings": True, "text_config": text}
    return {"model_type": "qwen3_5_text", **text}


def tiny_weights(config: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Random tensors of the trunk (some of them, which is all that files need) and of the whole head."""
    generator = torch.Generator().manual_seed(7)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(torch.bfloat16)

    prefix = "model.language_model." if "text_config" in config else "model."
    trunk = {f"{prefix}embed_tokens.weight": random(300, 8), f"{prefix}norm.weight": random(8)}
    for layer in range(2):
        trunk[f"{prefix}layers.{layer}.mlp.up_proj.weight"] = random(12, 8)
    head = {name: random(*shape) for name, shape in sorted(family_for(config).expected_head_tensors(config).items())}
    return trunk, head


def write_tokenizer(folder: Path, template: str | None = CHAT_TEMPLATE) -> None:
    """A tokenizer with a token for each byte and the special ones; every text comes back as it was."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_weights(folder: Path, tensors: dict[str, torch.Tensor], shards: dict[str, list[str]] | None) -> None:
    """One file, or the named shards with an index."""
    if shards is None:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    for file, names in shards.items():
        save_file({name: tensors[name] for name in names}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, names in shards.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def shard_names(trunk: dict[str, torch.Tensor], head: dict[str, torch.Tensor]) -> dict[str, list[str]]:
    """Three shards: trunk only, trunk with a part of the head, the rest of the head."""
    first, second, third = (f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3))
    return {first: list(trunk)[:2], second: [*list(trunk)[2:], *list(head)[:5]], third: list(head)[5:]}


@pytest.fixture
def make_checkpoint(tmp_path: Path) -> Callable[..., Path]:
    """Write a tiny checkpoint: ``layout`` Single, Sharded or Composite; ``change(config, trunk, head)`` spoils it."""

    def make(
        layout: str = "Single",
        change: Callable[[dict[str, Any], dict[str, torch.Tensor], dict[str, torch.Tensor]], None] | None = None,
        name: str = "verifier",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        config = tiny_config(composite=layout == "Composite")
        trunk, head = tiny_weights(config)
        if change is not None:
            change(config, trunk, head)
        write_weights(folder, trunk | head, shard_names(trunk, head) if layout == "Sharded" else None)
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "generation_config.json").write_text('{"temperature": 0.6}')
        (folder / "templates").mkdir()
        (folder / "templates" / "tool.jinja").write_text("{{ tools }}")
        write_tokenizer(folder)
        return folder

    return make


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[[str, list[Any]], Path]:
    """Write records as jsonl below the test's folder."""

    def write(name: str, records: list[Any]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    return write


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let the kernel refuse to let any file of this process grow beyond ``size`` bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def full_disk() -> Callable[[int], Any]:
    """A context in which files can't grow beyond some bytes."""
    return largest_file


@contextmanager
def without_privileges() -> Iterator[None]:
    """Be somebody whom file modes bind, which root isn't."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def unprivileged() -> Callable[[], Any]:
    """A context in which file modes count."""
    return without_privileges


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder that its user may look into but not write to, reachable by any user."""
    parent = Path(tempfile.mkdtemp())
    parent.chmod(0o755)
    folder = parent / "output"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(parent)
