"""Held-out prompts as prepare leaves them, and files that aren't."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.contract import ExitCode, Reason, StageError
from mtp_trainer.evaluate.prompts import read_prompts

GOOD = '{"promptTokenIds": [1, 2, 3], "text": "more"}\n'


def test_prompts_are_numbered_by_line(write_jsonl: Callable[[str, list[Any]], Path]) -> None:
    path = write_jsonl("domain.jsonl", [{"promptTokenIds": [5, 6]}, {"promptTokenIds": [7]}])
    assert read_prompts(path) == [(0, [5, 6]), (1, [7])]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not json",
        "[]",
        "null",
        "3",
        '{"prompt": [1]}',
        '{"promptTokenIds": null}',
        '{"promptTokenIds": []}',
        '{"promptTokenIds": 5}',
        '{"promptTokenIds": "123"}',
        '{"promptTokenIds": [1, "2"]}',
        '{"promptTokenIds": [1, 2.5]}',
        '{"promptTokenIds": [1, -2]}',
        '{"promptTokenIds": [1, 2',
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "domain.jsonl"
    path.write_text(GOOD * 2 + line + "\n" + GOOD)
    with pytest.raises(StageError) as caught:
        read_prompts(path)
    assert caught.value.reason is Reason.DATASET_INVALID
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert caught.value.message.startswith(f"{path}:3: ")
    assert "prepare stage" in caught.value.message


def test_bytes_that_are_no_text_name_their_file(tmp_path: Path) -> None:
    path = tmp_path / "domain.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StageError, match=str(path)) as caught:
        read_prompts(path)
    assert caught.value.reason is Reason.DATASET_INVALID


@pytest.mark.parametrize(("content", "says"), [(None, "run the prepare stage"), ("", "name a larger")])
def test_no_prompts_say_what_to_do(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "domain.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(StageError, match=says) as caught:
        read_prompts(path)
    assert caught.value.reason is Reason.DATASET_EMPTY
    assert str(path) in caught.value.message
