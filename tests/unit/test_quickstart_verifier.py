"""The quickstart's checkpoint and data sets, as they are checked in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open
from transformers import AutoTokenizer, PreTrainedTokenizerBase

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
VERIFIER, DATA = QUICKSTART / "verifier", QUICKSTART / "data"
SIZE_LIMIT_BYTES = 13_000_000
DATA_LIMIT_BYTES = 1_000_000
DATA_SETS = {"train": 1500, "heldout": 200, "general": 150}


@pytest.fixture(scope="module")
def config() -> dict:
    return json.loads((VERIFIER / "config.json").read_text())


@pytest.fixture(scope="module")
def tensors() -> dict[str, tuple[str, list[int]]]:
    with safe_open(VERIFIER / "model.safetensors", framework="np") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (part.get_dtype(), list(part.get_shape())) for name, part in slices.items()}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(VERIFIER)


@pytest.fixture(scope="module")
def conversations() -> dict[str, list[list[dict[str, str]]]]:
    return {
        name: [json.loads(line)["messages"] for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
        for name in DATA_SETS
    }


def test_the_files_stay_small_enough_for_a_repository() -> None:
    assert sum(file.stat().st_size for file in VERIFIER.iterdir()) < SIZE_LIMIT_BYTES
    for name in DATA_SETS:
        assert (DATA / f"{name}.jsonl").stat().st_size < DATA_LIMIT_BYTES


def test_the_head_is_fifteen_tensors_of_the_shapes_its_config_says(config: dict, tensors: dict) -> None:
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, groups = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    layer = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [2 * queries, hidden],
        "self_attn.k_proj": [groups, hidden],
        "self_attn.v_proj": [groups, hidden],
        "self_attn.o_proj": [hidden, queries],
        "self_attn.q_norm": [size],
        "self_attn.k_norm": [size],
        "mlp.gate_proj": [inner, hidden],
        "mlp.up_proj": [inner, hidden],
        "mlp.down_proj": [hidden, inner],
    }
    expected = {f"mtp.layers.0.{name}.weight": shape for name, shape in layer.items()}
    expected |= {f"mtp.{name}.weight": [hidden] for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")}
    expected["mtp.fc.weight"] = [hidden, 2 * hidden]
    assert {name: shape for name, (_, shape) in tensors.items() if name.startswith("mtp.")} == expected
    assert config["mtp_num_hidden_layers"] == 1


def test_the_trunk_has_every_layer_in_bfloat16_and_ties_its_embedding(config: dict, tensors: dict) -> None:
    assert config["layer_types"] == ["linear_attention"] * 3 + ["full_attention"]
    for number, layer_type in enumerate(config["layer_types"]):
        mixer = "linear_attn.in_proj_qkv" if layer_type == "linear_attention" else "self_attn.q_proj"
        assert f"model.layers.{number}.{mixer}.weight" in tensors
    assert config["tie_word_embeddings"]
    assert "lm_head.weight" not in tensors
    assert tensors["model.embed_tokens.weight"][1] == [config["vocab_size"], config["hidden_size"]]
    assert {dtype for dtype, _ in tensors.values()} == {"BF16"}


def test_the_generation_mask_covers_the_answer_and_its_end(
    tokenizer: PreTrainedTokenizerBase, conversations: dict
) -> None:
    for messages in conversations["heldout"][:20]:
        rendered = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        pairs = zip(rendered["input_ids"], rendered["assistant_masks"], strict=True)
        assert tokenizer.decode([token for token, written in pairs if written]) == messages[1]["content"] + "<|im_end|>"
        prompt = tokenizer.apply_chat_template(messages[:1], add_generation_prompt=True, return_dict=True)["input_ids"]
        assert rendered["input_ids"][: len(prompt)] == prompt
        question = f"<|im_start|>user\n{messages[0]['content']}<|im_end|>\n"
        assert tokenizer.decode(prompt) == f"{question}<|im_start|>assistant\n"


def test_tokens_fit_the_vocabulary_and_the_special_ones_are_the_configs(
    tokenizer: PreTrainedTokenizerBase, config: dict
) -> None:
    assert len(tokenizer) == config["vocab_size"]
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == ("<|endoftext|>", config["pad_token_id"])
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", config["eos_token_id"])
    generation = json.loads((VERIFIER / "generation_config.json").read_text())
    assert config["eos_token_id"] in generation["eos_token_id"]


def test_data_sets_are_conversations_of_one_question_and_one_answer(conversations: dict) -> None:
    for name, least in DATA_SETS.items():
        assert len(conversations[name]) >= least
        for messages in conversations[name]:
            assert [message["role"] for message in messages] == ["user", "assistant"]
            assert all(message["content"].strip() for message in messages)


def test_data_sets_share_no_question(conversations: dict) -> None:
    questions = {name: {m[0]["content"] for m in rows} for name, rows in conversations.items()}
    assert all(len(questions[name]) == len(conversations[name]) for name in DATA_SETS)
    assert questions["train"].isdisjoint(questions["heldout"])
    assert questions["general"].isdisjoint(questions["train"] | questions["heldout"])
