"""A head is compared with what its configuration says, in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mtp_trainer.checkpoints import inspect_verifier, load_inspection, read_tensors
from mtp_trainer.contract import Reason, StageError

Change = Callable[[dict[str, Any], dict[str, torch.Tensor], dict[str, torch.Tensor]], Any]
Make = Callable[..., Path]

QUERY = "mtp.layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize("layout", ["Single", "Sharded", "Composite"])
def test_a_whole_head_is_found_in_every_layout(make_checkpoint: Make, layout: str) -> None:
    inspection = inspect_verifier(make_checkpoint(layout), revision="abc")
    assert inspection.family == "Qwen3.5"
    assert len(inspection.head_tensors) == 15
    assert inspection.head_parameters == sum(tensor.elements for tensor in inspection.head_tensors.values())
    assert inspection.head_tensors[QUERY].shape == (16, 8)
    assert inspection.digest.startswith("sha256:")
    assert len(inspection.shards) == (3 if layout == "Sharded" else 1)


def test_an_inspection_survives_being_saved(make_checkpoint: Make, tmp_path: Path) -> None:
    inspection = inspect_verifier(make_checkpoint("Sharded"), revision="abc")
    inspection.save(tmp_path / "workspace" / "verifier.json")
    assert load_inspection(tmp_path / "workspace" / "verifier.json") == inspection


def test_a_missing_inspection_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="run the prepare stage first"):
        load_inspection(tmp_path / "verifier.json")


def test_the_digest_follows_weights_and_configuration_but_not_the_place(make_checkpoint: Make) -> None:
    first = inspect_verifier(make_checkpoint(name="one"))
    assert inspect_verifier(make_checkpoint(name="two")).digest == first.digest
    scaled: Change = lambda config, trunk, head: trunk.update({"model.norm.weight": trunk["model.norm.weight"] * 2})  # noqa: E731
    assert inspect_verifier(make_checkpoint(name="three", change=scaled)).digest != first.digest
    longer: Change = lambda config, trunk, head: config.update(max_position_embeddings=9)  # noqa: E731
    assert inspect_verifier(make_checkpoint(name="four", change=longer)).digest != first.digest


def without_head(config: dict[str, Any], trunk: dict[str, Any], head: dict[str, Any]) -> None:
    head.clear()


def without_anything(config: dict[str, Any], trunk: dict[str, Any], head: dict[str, Any]) -> None:
    head.clear()
    config.pop("mtp_num_hidden_layers")


def without_declaration(config: dict[str, Any], trunk: dict[str, Any], head: dict[str, Any]) -> None:
    config.get("text_config", config).pop("mtp_num_hidden_layers")


def replaced(name: str, tensor: torch.Tensor) -> Change:
    return lambda config, trunk, head: head.update({name: tensor})


BAD: dict[str, tuple[Change, Reason, list[str]]] = {
    "no head at all": (without_anything, Reason.NO_MTP_HEAD, ["no tensor is named mtp.*", "mtp_num_hidden_layers"]),
    "declared, not there": (without_head, Reason.NO_MTP_HEAD, ["mtp_num_hidden_layers: 1", "transformers drops them"]),
    "there, not declared": (without_declaration, Reason.INCOMPLETE_MTP_HEAD, ["set mtp_num_hidden_layers to 1"]),
    "two heads declared": (
        lambda config, trunk, head: config.update(mtp_num_hidden_layers=2),
        Reason.UNSUPPORTED_FAMILY,
        ["mtp_num_hidden_layers: 2"],
    ),
    "a tensor missing": (lambda config, trunk, head: head.pop(QUERY), Reason.INCOMPLETE_MTP_HEAD, ["missing", QUERY]),
    "a tensor too many": (
        replaced("mtp.layers.1.mlp.up_proj.weight", torch.ones(2)),
        Reason.INCOMPLETE_MTP_HEAD,
        ["unknown mtp.layers.1.mlp.up_proj.weight"],
    ),
    "a wrong shape": (
        replaced(QUERY, torch.ones(8, 8)),
        Reason.INCOMPLETE_MTP_HEAD,
        [f"{QUERY} has shape [8, 8], not [16, 8]"],
    ),
    "8-bit floats": (
        replaced(QUERY, torch.ones(16, 8).to(torch.float8_e4m3fn)),
        Reason.QUANTIZED_HEAD,
        [f"{QUERY} (F8_E4M3)"],
    ),
    "scales beside it": (
        replaced(f"{QUERY}_scale_inv", torch.ones(1, 1)),
        Reason.QUANTIZED_HEAD,
        [f"{QUERY}_scale_inv"],
    ),
    "packed integers": (
        replaced("mtp.fc.qweight", torch.ones(2, 2, dtype=torch.int32)),
        Reason.QUANTIZED_HEAD,
        ["mtp.fc.qweight (I32)"],
    ),
    "another family": (
        lambda config, trunk, head: config.update(model_type="gpt2"),
        Reason.UNSUPPORTED_FAMILY,
        ["model_type is 'gpt2'", "qwen3_5_text"],
    ),
    "code of its own": (
        lambda config, trunk, head: config.update(auto_map={"AutoModel": "m.M"}),
        Reason.CONFIG_INVALID,
        ["auto_map", "trustRemoteCode"],
    ),
}


@pytest.mark.parametrize(("change", "reason", "parts"), BAD.values(), ids=BAD.keys())
def test_a_bad_head_is_refused_with_its_names(
    make_checkpoint: Make, change: Change, reason: Reason, parts: list[str]
) -> None:
    folder = make_checkpoint(change=change)
    with pytest.raises(StageError) as caught:
        inspect_verifier(folder)
    assert caught.value.reason is reason
    assert all(part in caught.value.message for part in parts), caught.value.message


def test_the_key_of_a_composite_checkpoint_is_named_where_it_belongs(make_checkpoint: Make) -> None:
    with pytest.raises(StageError, match=r"set text_config\.mtp_num_hidden_layers to 1"):
        inspect_verifier(make_checkpoint("Composite", change=without_declaration))


def test_trusted_code_is_let_through(make_checkpoint: Make) -> None:
    folder = make_checkpoint(change=BAD["code of its own"][0])
    assert inspect_verifier(folder, trust_remote_code=True).family == "Qwen3.5"


def test_a_tokenizer_with_code_of_its_own_is_refused(make_checkpoint: Make) -> None:
    folder = make_checkpoint()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**settings, "auto_map": {"AutoTokenizer": ["t.T", None]}})
    )
    with pytest.raises(StageError, match=r"tokenizer_config\.json: auto_map"):
        inspect_verifier(folder)


def test_a_name_that_is_in_no_file_is_named(make_checkpoint: Make) -> None:
    with pytest.raises(StageError, match=r"has no tensor lm_head\.weight"):
        read_tensors(make_checkpoint(), ["lm_head.weight"])
