"""Rows hold every document whole, and say where each begins."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.data import Document, PackedRows, load_rows, pack, save_rows


def documents(lengths: list[int]) -> list[Document]:
    """Documents that differ, each with its second half under the mask."""
    return [
        Document(
            tuple(range(1000 * number, 1000 * number + length)),
            tuple(place >= length // 2 for place in range(length)),
            f"{number:04d}",
        )
        for number, length in enumerate(lengths, start=1)
    ]


def unpacked(rows: PackedRows) -> list[tuple[tuple[int, ...], tuple[bool, ...]]]:
    """The documents in rows, in the order of their numbers; checks their positions on the way."""
    found = []
    for number in range(rows.document_count):
        here = rows.documents == number
        assert rows.positions[here].tolist() == list(range(int(here.sum())))
        assert len(here.any(dim=1).nonzero()) == 1, "in one row"
        found.append((tuple(rows.tokens[here].tolist()), tuple(rows.loss_mask[here].tolist())))
    return found


@given(st.lists(st.integers(1, 16), min_size=1, max_size=30))
def test_every_document_comes_back_whole(lengths: list[int]) -> None:
    some = documents(lengths)
    rows = pack(some, 16)
    assert sorted(unpacked(rows)) == sorted((document.tokens, document.mask) for document in some)
    assert rows.token_count == sum(lengths)
    assert rows.trained_token_count == sum(sum(document.mask) for document in some)
    padding = rows.documents == -1
    assert not rows.loss_mask[padding].any()
    assert not rows.tokens[padding].any()


@given(st.lists(st.integers(1, 16), min_size=1, max_size=30), st.integers(0, 5))
def test_rows_do_not_depend_on_the_order(lengths: list[int], seed: int) -> None:
    some = documents(lengths)
    shuffled = random.Random(seed).sample(some, len(some))
    assert torch.equal(pack(some, 16).tokens, pack(shuffled, 16).tokens)


def test_documents_of_a_row_are_next_to_each_other_and_padding_is_last() -> None:
    rows = pack(documents([3, 2, 2]), 8)
    assert rows.documents.tolist() == [[0, 0, 0, 1, 1, 2, 2, -1]]


@given(st.lists(st.integers(1, 64), min_size=1, max_size=200))
def test_there_are_never_twice_the_rows_that_are_needed(lengths: list[int]) -> None:
    # Two rows at most half full would have been one.
    assert len(pack(documents(lengths), 64)) <= 2 * -(-sum(lengths) // 64)


@pytest.mark.parametrize("length", [0, 17])
def test_a_document_that_does_not_fit_is_the_callers_error(length: int) -> None:
    with pytest.raises(ValueError, match=f"{length} tokens"):
        pack(documents([length]), 16)


def test_rows_survive_being_saved(tmp_path: Path) -> None:
    rows = pack(documents([5, 7, 3]), 8)
    save_rows(rows, tmp_path / "prepare" / "train.safetensors")
    loaded = load_rows(tmp_path / "prepare" / "train.safetensors")
    for name in ("tokens", "loss_mask", "documents", "positions"):
        assert torch.equal(getattr(loaded, name), getattr(rows, name))
        assert getattr(loaded, name).dtype == getattr(rows, name).dtype
    assert [path.name for path in (tmp_path / "prepare").iterdir()] == ["train.safetensors"]


def test_a_full_disk_leaves_no_rows(tmp_path: Path, full_disk: Callable[[int], Any]) -> None:
    with pytest.raises(StageError) as caught, full_disk(100):
        save_rows(pack(documents([5, 7, 3]), 8), tmp_path / "train.safetensors")
    assert caught.value.reason is Reason.DISK_FULL
    assert list(tmp_path.iterdir()) == []


def test_missing_rows_say_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="run the prepare stage first"):
        load_rows(tmp_path / "train.safetensors")


def test_other_tensors_are_no_rows(tmp_path: Path) -> None:
    save_file({"tokens": torch.zeros(2, 2)}, tmp_path / "train.safetensors")
    with pytest.raises(StageError, match="no packed rows"):
        load_rows(tmp_path / "train.safetensors")
