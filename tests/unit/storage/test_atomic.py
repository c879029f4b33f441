"""Files and folders are whole or not there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.storage import create_file, new_folder, storage_errors, write_file


def test_a_folder_gets_its_name_only_when_it_is_full(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with new_folder(target) as folder:
        (folder / "a").write_text("1")
        assert not target.exists()
    assert (target / "a").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_an_interrupted_folder_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def interrupted() -> None:
        with new_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("1")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".out.partial-dead").mkdir()
    (tmp_path / ".out.partial-dead" / "half").write_text("1")
    with new_folder(tmp_path / "out") as folder:
        (folder / "a").write_text("1")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_living_writer_writes_is_left_alone(tmp_path: Path) -> None:
    with new_folder(tmp_path / "out") as first:
        (first / "a").write_text("first")
        with pytest.raises(ValueError, match="second"), new_folder(tmp_path / "out"):
            raise ValueError("second")
    assert (tmp_path / "out" / "a").read_text() == "first"


def test_a_folder_that_exists_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError), new_folder(tmp_path / "out") as folder:
        (folder / "a").write_text("1")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_that_exists_is_not_created_again(tmp_path: Path) -> None:
    create_file(tmp_path / "tag", "first")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "tag", "second")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("tag", "first")]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, full_disk: Callable[[int], Any]) -> None:
    write_file(tmp_path / "a", "old")
    with pytest.raises(StageError, match="no space") as caught, full_disk(100):
        write_file(tmp_path / "a", "new" * 100)
    assert caught.value.reason is Reason.DISK_FULL
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_a_folder_that_may_not_be_written_is_named(read_only_folder: Path, unprivileged: Callable[[], Any]) -> None:
    with pytest.raises(StageError, match="make the folder writable") as caught, unprivileged():
        write_file(read_only_folder / "a", "1")
    assert caught.value.reason is Reason.OUTPUT_NOT_WRITABLE
    assert str(read_only_folder) in caught.value.message


def test_a_file_in_the_place_of_the_folder_is_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    with pytest.raises(StageError) as caught:
        write_file(tmp_path / "file" / "a", "1")
    assert caught.value.reason is Reason.OUTPUT_NOT_WRITABLE


def test_errors_of_other_files_are_not_taken_for_the_output_s(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), storage_errors(tmp_path / "out" / "a"):
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/verifier")
