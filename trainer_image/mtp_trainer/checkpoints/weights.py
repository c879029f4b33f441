"""Which safetensors files a checkpoint consists of, and which tensor is in which.

Readers differ: vLLM loads every tensor of every file that the index names, transformers only those that the index
names, from ``model.safetensors`` when both exist. A checkpoint that two readers would read differently is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mtp_trainer.checkpoints.header import TensorInfo, corrupt, read_header, unreadable
from mtp_trainer.contract.exits import Reason, StageError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".safetensors")
"""Weights that the index doesn't name: another copy of the same model, with the old head in it."""


@dataclass(frozen=True)
class Weights:
    """All tensors of a checkpoint, by name, and the files that hold them, by name."""

    tensors: dict[str, TensorInfo]
    shards: tuple[str, ...]


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a checkpoint.

    Raises:
        StageError: ``VolumeMissing`` without the folder, ``CheckpointCorrupt`` without a readable file.
    """
    if not folder.is_dir():
        raise StageError(Reason.VOLUME_MISSING, f"{folder}: no such folder; name the folder of a checkpoint")
    return read_json(folder / CONFIG)


def read_weights(folder: Path) -> Weights:
    """All tensors of a checkpoint's safetensors files, a single file or shards with an index.

    Raises:
        StageError: ``CheckpointCorrupt``, naming the file and what is wrong with it.
    """
    index = folder / INDEX
    if not index.exists():
        if not (folder / SINGLE).exists():
            raise no_weights(folder)
        return Weights(read_header(folder / SINGLE), (SINGLE,))
    named = read_index(index)
    shards = tuple(sorted(set(named.values())))
    if SINGLE not in shards and (folder / SINGLE).exists():
        raise StageError(
            Reason.CHECKPOINT_CORRUPT,
            f"{folder} has both {SINGLE} and an index of other files, and servers read different ones; delete one",
        )
    found: dict[str, TensorInfo] = {}
    for shard in shards:
        if not (folder / shard).is_file():
            raise corrupt(index, f"names {shard}, which is absent")
        for name, tensor in read_header(folder / shard).items():
            if name in found:
                raise corrupt(folder / shard, f"holds {name}, which {found[name].file} holds too")
            if named.get(name) != shard:
                claim = f"puts into {named[name]}" if name in named else "lacks"
                raise corrupt(folder / shard, f"holds {name}, which {INDEX} {claim}")
            found[name] = tensor
    if absent := sorted(named.keys() - found.keys()):
        raise corrupt(index, f"names {listing(absent)}, which no file holds")
    return Weights(found, shards)


def read_index(path: Path) -> dict[str, str]:
    """``weight_map`` of an index: tensor name -> file name in the same folder."""
    named = read_json(path).get("weight_map")
    if not isinstance(named, dict) or not named or not all(isinstance(file, str) for file in named.values()):
        raise corrupt(path, "has no weight_map of tensor names to file names")
    for file in set(named.values()):
        if len(PurePosixPath(file).parts) != 1 or file == ".." or not file.endswith(".safetensors"):
            raise corrupt(path, f"names the file {file!r}, which is no safetensors file beside it")
    return dict(named)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object in a file.

    Raises:
        StageError: ``CheckpointCorrupt``, naming the file.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise corrupt(path, f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise corrupt(path, "is not a JSON object")
    return value


def no_weights(folder: Path) -> StageError:
    """The error for a folder without safetensors weights, naming what is there instead."""
    others = sorted(path.name for path in folder.iterdir() if path.suffix in OTHER_WEIGHTS)
    if others:
        return StageError(
            Reason.CHECKPOINT_CORRUPT,
            f"{folder} has weights only as {listing(others)}; convert them to {SINGLE} (or shards with {INDEX})",
        )
    return StageError(
        Reason.CHECKPOINT_CORRUPT, f"{folder} has neither {SINGLE} nor {INDEX}; name the folder of a whole checkpoint"
    )


def listing(names: Iterable[str], limit: int = 6) -> str:
    """Names for a message: the first few, and how many more there are."""
    names = list(names)
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")
