"""The header of a safetensors file, read without trusting it.

Format: 8 bytes little-endian length, that many bytes of JSON, then the tensors' bytes. Byte ranges come from here when
a checkpoint is stitched, so they are checked: inside the file, without overlaps or holes, of the size that dtype and
shape say.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from mtp_trainer.contract.exits import Reason, StageError

MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors library; a longer header is a damaged length."""

BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
"""Bits per element of each dtype that the format names."""

FLOATING = ("F64", "F32", "BF16", "F16")
"""Dtypes that hold a tensor's values as they are, not quantised."""


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor's bytes are."""

    dtype: str
    """As safetensors writes it: ``BF16``, ``F32``, ..."""
    shape: tuple[int, ...]
    file: str
    """Name of the file within the checkpoint's folder."""
    begin: int
    """Offset of the first byte, from the start of the file."""
    end: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def read_header(path: Path) -> dict[str, TensorInfo]:
    """Name of every tensor in a safetensors file and where it is.

    Raises:
        StageError: ``CheckpointCorrupt``, naming the file and what is wrong with it.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size < 8:
                raise corrupt(path, f"has {size} bytes, too few for a safetensors file")
            (length,) = struct.unpack("<Q", file.read(8))
            if length > MAX_HEADER_BYTES:
                raise corrupt(path, f"says that its header has {length} bytes, more than any safetensors file's")
            if length > size - 8:
                raise corrupt(path, f"is truncated: {size} bytes, while its header alone should have {length}")
            header = parse(path, file.read(length))
    except OSError as error:
        raise unreadable(path, error) from error
    header.pop("__metadata__", None)
    tensors = {name: tensor_info(path, name, entry, 8 + length) for name, entry in header.items()}
    check_ranges(path, tensors, 8 + length, size)
    return tensors


def parse(path: Path, data: bytes) -> dict[str, Any]:
    """The header's JSON object; a name that occurs twice is an error, since readers would disagree about it."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) != len(pairs):
            names = [name for name, _ in pairs]
            raise corrupt(path, f"names {next(n for n in names if names.count(n) > 1)} twice in its header")
        return entries

    try:
        header = json.loads(data, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise corrupt(path, f"has a header that is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise corrupt(path, "has a header that is not a JSON object")
    return header


def tensor_info(path: Path, name: str, entry: Any, data_start: int) -> TensorInfo:
    """Check one entry of the header by itself."""
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or not is_sizes(shape) or not is_sizes(offsets) or len(offsets) != 2:
        raise corrupt(path, f"describes tensor {name} as {json.dumps(entry)[:200]}")
    begin, end = offsets
    # A dtype newer than this table can't be sized, and only its range is checked.
    bits = math.prod(shape) * BITS[dtype] if dtype in BITS else 8 * (end - begin)
    if begin > end or 8 * (end - begin) != bits:
        raise corrupt(path, f"gives tensor {name} {end - begin} bytes, but {dtype} {shape} needs {bits // 8}")
    return TensorInfo(dtype, tuple(shape), path.name, data_start + begin, data_start + end)


def check_ranges(path: Path, tensors: dict[str, TensorInfo], data_start: int, size: int) -> None:
    """The tensors' ranges must follow each other without overlap or hole up to the end of the file."""
    place = data_start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != place:
            problem = "overlaps the one before it" if tensor.begin < place else "leaves a hole before it"
            raise corrupt(path, f"has a tensor {name} that {problem}")
        place = tensor.end
    if place > size:
        raise corrupt(path, f"is truncated: {size} bytes instead of {place}")
    if place < size:
        raise corrupt(path, f"has {size - place} bytes after its last tensor")


def is_sizes(value: Any) -> TypeGuard[list[int]]:
    """Whether a JSON value is a list of whole numbers, none negative (``true`` is none)."""
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)


def corrupt(path: Path, problem: str) -> StageError:
    """The error for a damaged file."""
    return StageError(Reason.CHECKPOINT_CORRUPT, f"{path} {problem}; download or copy the checkpoint again")


def unreadable(path: Path, error: OSError) -> StageError:
    """The error for a file that the system does not give."""
    return StageError(
        Reason.CHECKPOINT_CORRUPT,
        f"{path} cannot be read ({error.strerror}); it must be there, and readable for the user that runs this",
    )
