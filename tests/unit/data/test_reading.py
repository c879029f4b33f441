"""Datasets in three forms and three kinds of file; what is wrong is named with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from mtp_trainer.contract import Reason, StageError
from mtp_trainer.data import Sample, read_samples
from mtp_trainer.data.samples import sample_from

WriteJsonl = Callable[[str, list[Any]], Path]
MESSAGES = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]


def read(path: Path, subset: str | None = None, split: str = "train", max_samples: int | None = None) -> list[Sample]:
    return read_samples(path, subset, split, max_samples)


FORMS: dict[str, tuple[dict[str, Any], list[dict[str, str]]]] = {
    "messages": ({"messages": MESSAGES}, MESSAGES),
    "strings": ({"prompt": "1+1?", "completion": "2"}, MESSAGES),
    "lists": ({"prompt": MESSAGES[:1], "completion": MESSAGES[1:]}, MESSAGES),
    "other columns beside it": ({"id": 3, "messages": MESSAGES, "text": None}, MESSAGES),
}


@pytest.mark.parametrize(("record", "messages"), FORMS.values(), ids=FORMS.keys())
def test_each_form_becomes_a_conversation(record: dict[str, Any], messages: list[dict[str, str]]) -> None:
    assert list(sample_from(record, "a:1").messages) == messages


def test_plain_text_stays_text() -> None:
    sample = sample_from({"text": "once upon a time"}, "a:1")
    assert (sample.text, sample.messages, sample.has_answer) == ("once upon a time", (), True)


RECORDS = {
    "another form": ({"question": "1+1?", "answer": "2"}, "has the fields question, answer"),
    "nothing": ({}, "has the fields (none)"),
    "a prompt alone": ({"prompt": "1+1?"}, "has the fields prompt"),
    "no list": ({"messages": "hello"}, "messages is not a list"),
    "an empty list": ({"messages": []}, "messages is not a list of messages with something in it"),
    "no object": ({"messages": [*MESSAGES, "2"]}, "messages[2] is not an object"),
    "no role": ({"messages": [{"content": "1"}]}, "messages[0].role is not a string"),
    "no content": ({"messages": [{"role": "user"}]}, "messages[0].content is not a string"),
    "a number as content": ({"prompt": "1+1?", "completion": [{"role": "assistant", "content": 2}]}, "completion[0]"),
    "a number as prompt": ({"prompt": 2, "completion": "2"}, "prompt is not a list"),
    "blank text": ({"text": " "}, "text is not a string with something in it"),
}


@pytest.mark.parametrize(("record", "problem"), RECORDS.values(), ids=RECORDS.keys())
def test_a_bad_record_is_named_by_line_with_what_to_write(
    write_jsonl: WriteJsonl, record: dict[str, Any], problem: str
) -> None:
    path = write_jsonl("train.jsonl", [{"messages": MESSAGES}, record])
    with pytest.raises(StageError) as caught:
        read(path)
    assert caught.value.reason is Reason.DATASET_INVALID
    assert f"{path}:2: {problem}" in caught.value.message
    assert '{"messages": [{"role": "user", "content": ...}, ...]}' in caught.value.message


LINES = {
    "no JSON": (b'{"text": ', "not JSON"),
    "no object": (b"[1, 2]", "not a JSON object"),
    "no UTF-8": (b'{"text": "\xff"}', "in UTF-8"),
    "endless nesting": (b"[" * 200_000, "not JSON"),
}


@pytest.mark.parametrize(("line", "problem"), LINES.values(), ids=LINES.keys())
def test_a_malformed_line_is_named_by_its_number(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'{"text": "a"}\n\n' + line + b"\n")
    with pytest.raises(StageError) as caught:
        read(path)
    assert caught.value.reason is Reason.DATASET_INVALID
    assert f"{path}:3: " in caught.value.message
    assert problem in caught.value.message


def test_empty_lines_and_a_byte_order_mark_are_no_samples(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes('\ufeff{"text": "é"}\n\n  \n{"text": "b"}'.encode())
    assert [(sample.text, sample.where) for sample in read(path)] == [("é", f"{path}:1"), ("b", f"{path}:4")]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_dataset_is_an_error_of_its_own(tmp_path: Path, content: str) -> None:
    (tmp_path / "train.jsonl").write_text(content)
    with pytest.raises(StageError) as caught:
        read(tmp_path)
    assert caught.value.reason is Reason.DATASET_EMPTY
    assert str(tmp_path) in caught.value.message


def test_a_folder_without_any_dataset_is_empty(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("hello")
    with pytest.raises(StageError) as caught:
        read(tmp_path)
    assert caught.value.reason is Reason.DATASET_EMPTY


def test_an_absent_dataset_is_named(tmp_path: Path) -> None:
    with pytest.raises(StageError) as caught:
        read(tmp_path / "absent")
    assert caught.value.reason is Reason.VOLUME_MISSING


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,b")
    with pytest.raises(StageError, match="convert it to jsonl"):
        read(tmp_path / "train.csv")


def write_table(path: Path, records: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(records)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with path.open("wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_tables_give_the_same_samples_as_lines(tmp_path: Path, write_jsonl: WriteJsonl, suffix: str) -> None:
    # A message with a key that others lack: tables fill it in with nothing.
    records = [{"messages": MESSAGES}, {"messages": [{"role": "user", "content": "hi", "name": "x"}]}]
    write_table(tmp_path / f"train{suffix}", records)
    lines = read(write_jsonl("train.jsonl", records))
    assert [sample.messages for sample in read(tmp_path / f"train{suffix}")] == [sample.messages for sample in lines]


def test_a_bad_row_of_a_table_is_named(tmp_path: Path) -> None:
    write_table(tmp_path / "train.parquet", [{"text": "a"}, {"text": ""}])
    with pytest.raises(StageError, match=r"train\.parquet: row 2: text is not a string"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_damaged_table_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"train{suffix}"
    write_table(path, [{"text": "a" * 1000}] * 100)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(StageError) as caught:
        read(path)
    assert caught.value.reason is Reason.DATASET_INVALID
    assert str(path) in caught.value.message


def texts(samples: list[Sample]) -> list[str | None]:
    return [sample.text for sample in samples]


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path, write_jsonl: WriteJsonl) -> None:
    write_jsonl("set/b.jsonl", [{"text": "3"}])
    write_jsonl("set/a.jsonl", [{"text": "1"}, {"text": "2"}])
    write_jsonl("set/.hidden/c.jsonl", [{"text": "0"}])
    assert texts(read(tmp_path / "set")) == ["1", "2", "3"]
    assert texts(read(tmp_path / "set", max_samples=2)) == ["1", "2"]


def test_files_that_name_a_split_are_read_for_that_split_only(tmp_path: Path, write_jsonl: WriteJsonl) -> None:
    write_jsonl("set/main/train-00000-of-00001.jsonl", [{"text": "train"}])
    write_jsonl("set/main/test-00000-of-00001.jsonl", [{"text": "test"}])
    write_jsonl("set/socratic/train-00000-of-00001.jsonl", [{"text": "other"}])
    assert texts(read(tmp_path / "set", subset="main")) == ["train"]
    assert texts(read(tmp_path / "set", subset="main", split="test")) == ["test"]
    assert texts(read(tmp_path / "set")) == ["train", "other"]


@pytest.mark.parametrize(("subset", "split", "field"), [("absent", "train", "subset"), (None, "validation", "split")])
def test_a_split_or_subset_that_is_not_there_is_named(
    tmp_path: Path, write_jsonl: WriteJsonl, subset: str | None, split: str, field: str
) -> None:
    write_jsonl("set/main/train.jsonl", [{"text": "1"}])
    with pytest.raises(StageError, match=f"no file of the {field}") as caught:
        read(tmp_path / "set", subset, split)
    assert "main/train.jsonl" in caught.value.message


def test_a_folder_saved_by_the_datasets_library_is_read(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_table(tmp_path / "set" / split / "data-00000-of-00001.arrow", [{"text": split}])
        (tmp_path / "set" / split / "state.json").write_text(json.dumps({"_split": split}))
    assert texts(read(tmp_path / "set", split="test")) == ["test"]
