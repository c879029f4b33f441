"""The ``mtp`` command: what it prints, and its exit status."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from mtp_operator.cli.main import main

MTP = [sys.executable, "-m", "mtp_operator.cli.main"]
EXAMPLES = Path(__file__).parents[3] / "examples" / "quickstart"


def run_manifest(**spec: Any) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / "mtpfinetune.yaml").read_text())
    manifest["spec"] |= spec
    return manifest


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def written(tmp_path: Path, *manifests: dict[str, Any]) -> str:
    file = tmp_path / "manifest.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    return str(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": {"learningRate": 0.0001}}, "must be of type string"),
        ({"colour": "red"}, 'unknown field "spec.colour"'),
        ({"workspace": {}}, "workspace: set exactly one of"),
    ],
)
def test_a_wrong_manifest_is_refused_before_anything_is_stored(
    tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str], change: dict[str, Any], message: str
) -> None:
    assert main(["local", "apply", "-f", written(tmp_path, run_manifest(**change)), "--state", state]) == 2
    assert message in capsys.readouterr().err
    assert not list(Path(state).rglob("objects/**/*.json"))


@pytest.mark.parametrize(("text", "message"), [("a: [", "not YAML"), ("", "no object"), (None, "cannot be read")])
def test_an_unreadable_file_is_named(
    tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    file = tmp_path / "broken.yaml"
    if text is not None:
        file.write_text(text)
    assert main(["local", "apply", "-f", str(file), "--state", state]) == 2
    assert message in (error := capsys.readouterr().err)
    assert "broken.yaml" in error


def test_render_prints_each_stages_configuration_and_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-f", str(EXAMPLES / "mtpfinetune.yaml")]) == 0
    kinds = [document["kind"] for document in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["PersistentVolumeClaim", *["ConfigMap", "Job"] * 4]


def test_render_of_a_serving_that_needs_a_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "-f", str(EXAMPLES / "specdecodeserving.yaml")]) == 2
    assert "ModelNotFound" in capsys.readouterr().err


def test_status_shows_conditions_and_acceptance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    positions = [{"position": 0, "rate": "0.900", "accepted": 90}]
    head = {"drafts": 100, "meanAcceptanceLength": "1.90", "positions": positions}
    manifest = run_manifest() | {
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Completed"}],
            "evaluation": {"shipped": head, "tuned": head},
        }
    }
    assert main(["status", "-f", written(tmp_path, manifest)]) == 0
    out = capsys.readouterr().out
    assert "Ready" in out
    assert out.count("0.900") == 2


def test_get_of_an_empty_state_says_so(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "get", "--state", state]) == 0
    assert "nothing in" in capsys.readouterr().out


def test_an_unknown_kind_is_refused_with_the_known_ones(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "get", "cats", "--state", state]) == 2
    assert "mtpft" in capsys.readouterr().err


def test_ctrl_c_stops_the_stage_and_keeps_the_run_for_the_next_time(tmp_path: Path, state: str) -> None:
    program, pid_file = tmp_path / "mtp-trainer", tmp_path / "pid"
    program.write_text(
        f"#!{sys.executable}\nimport os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    program.chmod(0o755)
    manifest = run_manifest(pods={"gpus": 0, "env": [{"name": "PATH", "value": str(tmp_path)}]})
    session = subprocess.Popen(
        [*MTP, "local", "apply", "-f", written(tmp_path, manifest), "--state", state],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (pid_file.exists() and pid_file.read_text()):
        assert session.poll() is None
        time.sleep(0.05)
    session.send_signal(signal.SIGINT)
    out, err = session.communicate(timeout=60)
    assert session.returncode == 130, err
    assert "quickstart" in out
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    shown = subprocess.run([*MTP, "local", "get", "mtpft", "quickstart", "--state", state], check=False)
    assert shown.returncode == 0
    logs = subprocess.run([*MTP, "local", "logs", "quickstart", "--stage", "prepare", "--state", state], check=False)
    assert logs.returncode == 0


def test_applying_an_ended_run_again_says_that_it_has_ended(
    tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "mtp-trainer"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    manifest = run_manifest(pods={"gpus": 0, "env": [{"name": "PATH", "value": str(tmp_path)}]})
    apply = ["local", "apply", "-f", written(tmp_path, manifest), "--state", state]
    assert main(apply) == 1
    assert "nothing to do" not in capsys.readouterr().err
    assert main(apply) == 1
    assert "mtpfinetune/quickstart unchanged: the run has ended, nothing to do" in capsys.readouterr().err


def test_deleting_what_is_not_there_says_so(tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "delete", "mtpft", "absent", "--state", state]) == 1
    assert "not found" in capsys.readouterr().err
