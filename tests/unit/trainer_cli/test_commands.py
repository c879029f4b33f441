"""``mtp-trainer`` as a person or a Job calls it, up to where a stage would begin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.cli import main, run_stage
from mtp_trainer.contract import MAX_RESULT_BYTES, FailureResult, Reason, Stage, parse_result

COMMAND = Path(sys.executable).with_name("mtp-trainer")
SOURCE = {"uri": "pvc://models/m", "path": "/models/m"}
TRAIN = {"workspace": "/nowhere", "verifier": SOURCE}


def run(*arguments: str | Path, termination: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    environment.pop("MTP_TERMINATION_LOG", None)
    if termination is not None:
        environment["MTP_TERMINATION_LOG"] = str(termination)
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=environment, check=False)


def failure(termination: Path) -> FailureResult:
    result = parse_result(termination.read_text())
    assert isinstance(result, FailureResult)
    return result


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "not JSON"),
        ("[1]", "(top level)"),
        ("\udcff", "not JSON"),
        (json.dumps({"workspace": "/w"}), "verifier: Field required"),
        (json.dumps(TRAIN | {"training": {"learningRte": 1}}), "training.learningRte: Extra inputs are not permitted"),
        (json.dumps(TRAIN | {"training": {"steps": 9}}), "training.steps: Input should be less than or equal to 8"),
        (json.dumps(TRAIN | {"training": {"objective": "MSE"}}), "training.objective: Input should be 'Auto', 'CE'"),
        (json.dumps(TRAIN | {"verifier": {"path": "/m"}}), "verifier.uri: Field required"),
    ],
    ids=["half", "list", "binary", "missing", "unknown", "range", "word", "nested"],
)
def test_a_wrong_configuration_names_file_and_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, named: str
) -> None:
    config, termination = tmp_path / "config.json", tmp_path / "termination"
    config.write_bytes(text.encode(errors="surrogateescape"))
    monkeypatch.setenv("MTP_TERMINATION_LOG", str(termination))
    assert run_stage(Stage.TRAIN, config) == 3
    found = failure(termination)
    assert (found.stage, found.reason) == (Stage.TRAIN, Reason.CONFIG_INVALID)
    assert found.message.startswith(f"{config}: ")
    assert named in found.message
    assert capsys.readouterr() == ("", f"mtp-trainer train: ConfigInvalid: {found.message}\n")


def test_every_wrong_field_is_named_at_once(tmp_path: Path) -> None:
    config, termination = tmp_path / "config.json", tmp_path / "termination"
    config.write_text(json.dumps({"verifier": SOURCE, "training": {"steps": 0, "colour": "red"}}))
    assert run("train", "--config", config, termination=termination).returncode == 3
    for field in ("workspace", "training.steps", "training.colour"):
        assert f"{field}: " in failure(termination).message


@pytest.mark.parametrize("stage", ["prepare", "train", "evaluate", "publish"])
def test_every_stage_names_a_configuration_that_is_absent(tmp_path: Path, stage: str) -> None:
    termination = tmp_path / "termination"
    ended = run(stage, "--config", tmp_path / "absent.json", termination=termination)
    assert ended.returncode == 3
    found = failure(termination)
    assert (found.stage, found.reason) == (Stage(stage.capitalize()), Reason.CONFIG_INVALID)
    assert f"{tmp_path / 'absent.json'}: cannot be read" in found.message


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    ended = run("train", "--config", tmp_path)
    assert ended.returncode == 3
    assert f"{tmp_path}: cannot be read" in ended.stderr


def test_a_long_message_is_cut_to_what_kubernetes_keeps(tmp_path: Path) -> None:
    config, termination = tmp_path / "config.json", tmp_path / "termination"
    unknown: dict[str, Any] = {f"fieldNumber{number}ü": number for number in range(300)}
    config.write_text(json.dumps(TRAIN | unknown))
    ended = run("train", "--config", config, termination=termination)
    assert ended.returncode == 3
    assert len(termination.read_bytes()) <= MAX_RESULT_BYTES
    assert "fieldNumber0ü" in failure(termination).message
    assert "fieldNumber299ü" in ended.stderr


def test_a_termination_message_that_cannot_be_written_does_not_hide_the_error(tmp_path: Path) -> None:
    ended = run("train", "--config", tmp_path / "absent.json", termination=tmp_path)
    assert ended.returncode == 3
    assert "ConfigInvalid" in ended.stderr
    assert f"the termination message can't be written to {tmp_path}" in ended.stderr


@pytest.mark.parametrize("arguments", [[], ["train"], ["dance"], ["train", "--config"], ["inspect"]])
def test_a_wrong_command_line_is_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: mtp-trainer")


def test_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {code} " in shown for code in (0, 1, 2, 3, 75))
