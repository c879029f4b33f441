"""A safetensors header is read without trusting it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtp_trainer.checkpoints import read_header, read_tensors, write_tensors
from mtp_trainer.contract import Reason, StageError


def raw(path: Path, header: Any, data: bytes = b"") -> Path:
    """A file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_ranges_point_to_the_tensors_bytes(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6, dtype=torch.float32).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "model.safetensors")
    data = (tmp_path / "model.safetensors").read_bytes()
    header = read_header(tmp_path / "model.safetensors")
    for name, tensor in tensors.items():
        info = header[name]
        assert data[info.begin : info.end] == tensor.view(torch.uint8).numpy().tobytes()
        assert info.shape == tuple(tensor.shape)
        assert info.elements == tensor.numel()


BAD = {
    "too few bytes": (b"\x01", "too few"),
    "a length beyond the file": (struct.pack("<Q", 500) + b"{}", "truncated"),
    "an absurd length": (struct.pack("<Q", 1 << 60) + b"{}", "more than any"),
    "no JSON": (struct.pack("<Q", 4) + b"{{{{", "not JSON"),
    "not UTF-8": (struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc", "not JSON"),
    "endless nesting": (struct.pack("<Q", 200_000) + b"[" * 200_000, "not JSON"),
    "a list": (struct.pack("<Q", 2) + b"[]", "not a JSON object"),
}


@pytest.mark.parametrize(("content", "problem"), BAD.values(), ids=BAD.keys())
def test_a_damaged_beginning_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert_corrupt(path, problem)


HEADERS = {
    "an overlap": ({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, 12, "b that overlaps"),
    "a hole": ({"a": entry(0, 4, [1]), "b": entry(8, 12, [1])}, 12, "b that leaves a hole"),
    "data that is cut off": ({"a": entry(0, 8, [2])}, 4, "truncated"),
    "data that nobody describes": ({"a": entry(0, 8, [2])}, 20, "12 bytes after"),
    "a size other than the shape's": ({"a": entry(0, 8, [3])}, 8, "needs 12"),
    "a range backwards": ({"a": entry(8, 0, [2])}, 8, "needs 8"),
    "a negative offset": ({"a": entry(-8, 0, [2])}, 8, "describes tensor a"),
    "a negative size": ({"a": entry(0, 8, [-2])}, 8, "describes tensor a"),
    "a fraction": ({"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}}, 8, "describes tensor a"),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 8]}}, 8, "describes tensor a"),
    "an entry that is no object": ({"a": 3}, 0, "describes tensor a"),
    "three offsets": ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}, 8, "describes tensor a"),
    "a name twice": (b'{"a": {}, "a": {}}', 0, "names a twice"),
}


@pytest.mark.parametrize(("header", "size", "problem"), HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_lies_is_named(tmp_path: Path, header: Any, size: int, problem: str) -> None:
    assert_corrupt(raw(tmp_path / "model.safetensors", header, bytes(size)), problem)


def assert_corrupt(path: Path, problem: str) -> None:
    with pytest.raises(StageError) as caught:
        read_header(path)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT
    assert problem in caught.value.message
    assert str(path) in caught.value.message


def test_tensors_without_elements_take_no_place(tmp_path: Path) -> None:
    header = read_header(raw(tmp_path / "a.safetensors", {"a": entry(0, 0, [0, 4]), "b": entry(0, 4, [1])}, bytes(4)))
    assert header["a"].begin == header["a"].end


def test_dtypes_of_tomorrow_are_placed_by_their_range(tmp_path: Path) -> None:
    header = read_header(raw(tmp_path / "a.safetensors", {"a": entry(0, 5, [3], "F12")}, bytes(5)))
    assert header["a"].dtype == "F12"


def test_what_is_written_the_safetensors_library_reads(tmp_path: Path) -> None:
    tensors = {
        "half": torch.randn(3, 5).to(torch.float16),
        "brain": torch.randn(7).to(torch.bfloat16),
        "mask": torch.tensor([True, False, True]),
        "wide": torch.randn(2, 2, dtype=torch.float64),
        "scalar": torch.tensor(3.0),
        "none": torch.empty(0, 4),
    }
    write_tensors(tmp_path / "model.safetensors", tensors)
    for read in (load_file(tmp_path / "model.safetensors"), read_tensors(tmp_path, tensors)):
        assert read.keys() == tensors.keys()
        assert all(torch.equal(read[name], tensors[name]) for name in tensors)
        assert all(read[name].dtype == tensors[name].dtype for name in tensors)
