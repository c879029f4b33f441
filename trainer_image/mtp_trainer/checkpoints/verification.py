"""Compare a stitched checkpoint with its verifier, byte by byte where they must be equal.

Servers accept half a head, wrong values and foreign tensors without a word, so this is the only check there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from mtp_trainer.checkpoints.artefact import MANIFEST, check_head
from mtp_trainer.checkpoints.header import TensorInfo
from mtp_trainer.checkpoints.inspection import inspect_head
from mtp_trainer.checkpoints.tensors import tensor_bytes
from mtp_trainer.checkpoints.weights import OTHER_WEIGHTS, listing
from mtp_trainer.contract.exits import Reason, StageError
from mtp_trainer.storage import folder_files

CHUNK_BYTES = 16 << 20


def verify_stitched(
    verifier: Path, stitched: Path, head: Mapping[str, Tensor], trust_remote_code: bool = False
) -> None:
    """Check that ``stitched`` is ``verifier`` with ``head``: the same files, other bytes only in the head's ranges.

    Streams both checkpoints, except files that are one and the same on disk.

    Raises:
        StageError: ``CheckpointCorrupt``, naming the file and the first place that differs; and what
            ``inspect_verifier`` raises for either folder.
    """
    _, _, weights, stored = inspect_head(verifier, trust_remote_code)
    _, _, new_weights, _ = inspect_head(stitched, trust_remote_code)
    check_head(head, stored)
    if new_weights.tensors != weights.tensors:
        raise wrong(stitched, "its tensors differ in name, dtype, shape or place")
    # What the verifier holds besides safetensors may be weights in other formats, which are left behind.
    kept = {name for name in folder_files(verifier) if name in weights.shards or Path(name).suffix not in OTHER_WEIGHTS}
    if differing := (kept ^ set(folder_files(stitched))) - {MANIFEST}:
        raise wrong(stitched, f"these files are in only one of the two: {listing(sorted(differing))}")
    for name in sorted(kept - {MANIFEST}):
        ranges = sorted((info.begin, info.end) for info in stored.values() if info.file == name)
        if (stitched / name).samefile(verifier / name):
            if ranges:
                raise wrong(stitched, f"{name} is the verifier's own file, and may not be written to")
            continue
        compare_outside(verifier / name, stitched / name, ranges)
    compare_head(stitched, head, stored)


def compare_outside(first: Path, second: Path, ranges: Iterable[tuple[int, int]]) -> None:
    """Two files must have the same size, and the same bytes outside ``ranges`` (sorted, without overlaps)."""
    size = first.stat().st_size
    if second.stat().st_size != size:
        raise wrong(second, f"has {second.stat().st_size} bytes instead of {size}")
    place = 0
    with first.open("rb") as one, second.open("rb") as other:
        for begin, end in [*ranges, (size, size)]:
            one.seek(place)
            other.seek(place)
            while place < begin:
                length = min(CHUNK_BYTES, begin - place)
                if one.read(length) != other.read(length):
                    raise wrong(second, f"differs from {first} between bytes {place} and {place + length}")
                place += length
            place = end


def compare_head(stitched: Path, head: Mapping[str, Tensor], stored: Mapping[str, TensorInfo]) -> None:
    """The head's ranges must hold the head."""
    for name, info in stored.items():
        with (stitched / info.file).open("rb") as file:
            file.seek(info.begin)
            if file.read(info.end - info.begin) != tensor_bytes(head[name]):
                raise wrong(stitched / info.file, f"does not hold the tuned {name}")


def wrong(path: Path, problem: str) -> StageError:
    """The error for a stitched checkpoint that isn't what it should be."""
    return StageError(Reason.CHECKPOINT_CORRUPT, f"{path}: {problem}; was the verifier changed meanwhile? stitch again")
