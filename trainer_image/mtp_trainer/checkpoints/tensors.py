"""Tensors from and to safetensors files, one at a time, without a model around them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from mtp_trainer.checkpoints.header import TensorInfo
from mtp_trainer.checkpoints.weights import listing, read_weights
from mtp_trainer.contract.exits import Reason, StageError

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def read_tensors(folder: Path, names: Iterable[str]) -> dict[str, Tensor]:
    """The named tensors of a checkpoint, on the CPU, in the checkpoint's dtype.

    Raises:
        StageError: ``CheckpointCorrupt`` when a file is damaged or a name is in none of them.
    """
    wanted = list(names)
    tensors = read_weights(folder).tensors
    if absent := [name for name in wanted if name not in tensors]:
        raise StageError(
            Reason.CHECKPOINT_CORRUPT, f"{folder}: has no tensor {listing(absent)}; use the model's own checkpoint"
        )
    return {name: read_tensor(folder, tensors[name]) for name in wanted}


def read_tensor(folder: Path, info: TensorInfo) -> Tensor:
    """One tensor, by its place."""
    data = bytearray(info.end - info.begin)
    with (folder / info.file).open("rb") as file:
        file.seek(info.begin)
        if file.readinto(data) != len(data):
            raise StageError(Reason.CHECKPOINT_CORRUPT, f"{folder / info.file} became shorter while it was read")
    if not data:
        return torch.empty(info.shape, dtype=DTYPES[info.dtype])
    return torch.frombuffer(data, dtype=DTYPES[info.dtype]).reshape(info.shape)


def tensor_bytes(tensor: Tensor) -> memoryview:
    """A tensor's bytes in row-major order, as safetensors stores them (little-endian, as all supported machines)."""
    flat = tensor.detach().to("cpu").contiguous().flatten()
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file, one tensor at a time.

    The library's own writer reports a full disk as an error without its number, so that nobody can tell it apart.
    """
    # The widest dtypes first, so that every tensor is aligned to its element size, as the format asks.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, object] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    place = 0
    for name in order:
        size = tensors[name].numel() * tensors[name].element_size()
        shape, dtype = list(tensors[name].shape), NAMES[tensors[name].dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            file.write(tensor_bytes(tensors[name]))


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Digest of names, dtypes, shapes and values, whatever file the tensors are in: ``sha256:...``."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, NAMES[tensor.dtype], list(tensor.shape)]).encode())
        digest.update(tensor_bytes(tensor))
    return "sha256:" + digest.hexdigest()
