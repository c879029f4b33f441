"""Checkpoints that two readers would read differently are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtp_trainer.checkpoints import read_config, read_weights
from mtp_trainer.contract import Reason, StageError

FIRST, SECOND, THIRD = (f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3))
INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(make_checkpoint: Callable[..., Path]) -> Path:
    return make_checkpoint("Sharded")


def test_all_tensors_of_all_shards_are_found(sharded: Path) -> None:
    expected = {name for file in (FIRST, SECOND, THIRD) for name in load_file(sharded / file)}
    weights = read_weights(sharded)
    assert weights.tensors.keys() == expected
    assert weights.shards == (FIRST, SECOND, THIRD)


def remove_shard(folder: Path) -> None:
    (folder / THIRD).unlink()


def truncate_shard(folder: Path) -> None:
    data = (folder / THIRD).read_bytes()
    (folder / THIRD).write_bytes(data[:-10])


def duplicate(folder: Path) -> None:
    tensors = load_file(folder / THIRD)
    save_file({**tensors, "model.norm.weight": torch.ones(8)}, folder / THIRD)


def unnamed(folder: Path) -> None:
    save_file({**load_file(folder / THIRD), "mtp.old.weight": torch.ones(8)}, folder / THIRD)


def moved(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["mtp.norm.weight"] = FIRST
    (folder / INDEX).write_text(json.dumps(index))


def phantom(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["lm_head.weight"] = FIRST
    (folder / INDEX).write_text(json.dumps(index))


def outside(folder: Path) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))


def no_map(folder: Path) -> None:
    (folder / INDEX).write_text("{}")


def not_json(folder: Path) -> None:
    (folder / INDEX).write_text("{")


def both(folder: Path) -> None:
    shutil.copy(folder / FIRST, folder / "model.safetensors")


def only_pickles(folder: Path) -> None:
    for path in [*folder.glob("*.safetensors"), folder / INDEX]:
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"1")


def nothing(folder: Path) -> None:
    for path in [*folder.glob("*.safetensors"), folder / INDEX]:
        path.unlink()


BAD = {
    "an absent shard": (remove_shard, f"names {THIRD}, which is absent"),
    "a truncated shard": (truncate_shard, f"{THIRD} is truncated"),
    "a tensor in two shards": (duplicate, "model.norm.weight, which"),
    "a tensor that the index lacks": (unnamed, "mtp.old.weight"),
    "a tensor in another shard": (moved, f"puts into {FIRST}"),
    "a tensor in no shard": (phantom, "names lm_head.weight, which no file holds"),
    "a file outside": (outside, "'../model.safetensors'"),
    "an index without a map": (no_map, "no weight_map"),
    "an index that is not JSON": (not_json, "not JSON"),
    "a single file beside the shards": (both, "delete one"),
    "pickled weights": (only_pickles, "convert them to model.safetensors"),
    "no weights": (nothing, "neither model.safetensors nor"),
}


@pytest.mark.parametrize(("spoil", "problem"), BAD.values(), ids=BAD.keys())
def test_a_bad_set_of_files_is_named(sharded: Path, spoil: Callable[[Path], None], problem: str) -> None:
    spoil(sharded)
    with pytest.raises(StageError) as caught:
        read_weights(sharded)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT
    assert problem in caught.value.message
    assert str(sharded) in caught.value.message


@pytest.mark.parametrize("content", ["{", "[]", None])
def test_a_bad_configuration_is_named(sharded: Path, content: str | None) -> None:
    if content is None:
        (sharded / "config.json").unlink()
    else:
        (sharded / "config.json").write_text(content)
    with pytest.raises(StageError, match=r"config\.json") as caught:
        read_config(sharded)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT


def test_an_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="no such folder") as caught:
        read_config(tmp_path / "absent")
    assert caught.value.reason is Reason.VOLUME_MISSING
