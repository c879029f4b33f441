"""A real, tiny Qwen3.5 with a random head, a workspace that prepare left, and real runs of the train stage on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.contract import FailureResult, Stage, StageResult, Workspace, parse_result

from .tiny import conversation, make_verifier

STEPS = 40
TRAINING = {
    "epochs": 100,
    "maxSteps": STEPS,
    "rowsPerBatch": 2,
    "learningRate": 0.003,
    "validateEverySteps": 4,
    "checkpointEverySteps": 4,
}
"""Ten passes, with a checkpoint and a validation every four steps."""


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    """Exit status, or minus the signal that killed it."""
    termination: str
    """Termination message; empty when there is none."""
    log: str

    @property
    def result(self) -> StageResult:
        return parse_result(self.termination)

    @property
    def failure(self) -> FailureResult:
        result = self.result
        assert isinstance(result, FailureResult), self.log
        return result


class Launcher:
    """The process that forks runs; see ``launcher.py``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        )

    def ask(self, request: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Running:
    """A run of the command."""

    launcher: Launcher
    pid: int
    folder: Path

    def alive(self) -> bool:
        # An ended process stays a zombie until the launcher waits for it.
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> Ended:
        code = self.launcher.ask(self.pid)
        termination = self.folder / "termination"
        return Ended(code, termination.read_text() if termination.exists() else "", (self.folder / "log").read_text())


class Runs:
    """Runs of stages in one workspace."""

    def __init__(self, launcher: Launcher, workspace: Path, verifier: Path) -> None:
        self.launcher, self.verifier, self.workspace = launcher, verifier, Workspace(workspace)
        self._count = 0

    def configure(self, stage: str, **fields: Any) -> Path:
        """Write a stage's configuration."""
        verifier = {"uri": "pvc://models/verifier", "path": str(self.verifier)}
        path = self.workspace.root.with_name(f"{self.workspace.root.name}-{stage}.json")
        path.write_text(json.dumps({"workspace": str(self.workspace.root), "verifier": verifier} | fields))
        return path

    def start(self, training: dict[str, Any] | None = None, largest_file: int | None = None, **fields: Any) -> Running:
        """Start the train stage; ``training`` differs from :data:`TRAINING` where it says something."""
        return self.launch(
            "train", self.configure("train", training=TRAINING | (training or {}), **fields), largest_file
        )

    def train(self, training: dict[str, Any] | None = None, **fields: Any) -> Ended:
        """Run the train stage to its end."""
        return self.start(training, **fields).wait()

    def launch(self, stage: str, config: Path, largest_file: int | None = None) -> Running:
        self._count += 1
        folder = self.workspace.root.with_name(f"{self.workspace.root.name}-run-{self._count}")
        folder.mkdir()
        request = {
            "arguments": [stage, "--config", str(config)],
            "log": str(folder / "log"),
            "environment": {"MTP_TERMINATION_LOG": str(folder / "termination")},
            "largestFile": largest_file,
        }
        return Running(self.launcher, self.launcher.ask(request), folder)

    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.workspace.history.read_text().splitlines()]

    def losses(self) -> dict[int, float]:
        """Loss of each step."""
        return {line["step"]: line["loss"] for line in self.history() if "loss" in line}

    def result(self) -> StageResult:
        """What the train stage left."""
        return parse_result(self.workspace.result(Stage.TRAIN).read_text())

    def head(self) -> bytes:
        """The tuned head's file."""
        return (self.workspace.head / "model.safetensors").read_bytes()

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in self.workspace.checkpoints.iterdir())


def wait_until(happened: Callable[[], Any], running: Running) -> None:
    """Until something can be seen, or the run has ended."""
    while not happened() and running.alive():
        time.sleep(0.001)


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    launcher = Launcher()
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed by a test."""
    return make_verifier(tmp_path_factory.mktemp("models") / "verifier")


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The fields of the prepare stage's configuration that are about data."""
    folder = tmp_path_factory.mktemp("data")
    for name, numbers in {"train": range(20), "exam": range(100, 103)}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(conversation(n)) + "\n" for n in numbers))

    def named(name: str) -> dict[str, Any]:
        return {"source": {"uri": f"pvc://data/{name}.jsonl", "path": str(folder / f"{name}.jsonl")}}

    return {
        "dataset": named("train"),
        "evaluation": {"domain": named("exam")},
        "responses": "AsIs",
        "sequenceLength": 112,
        "validationFraction": 0.2,
    }


@pytest.fixture(scope="session")
def prepared(
    launcher: Launcher, verifier: Path, dataset: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A workspace after prepare, to be copied."""
    runs = Runs(launcher, tmp_path_factory.mktemp("prepared") / "workspace", verifier)
    ended = runs.launch("prepare", runs.configure("prepare", **dataset)).wait()
    assert ended.code == 0, ended.log
    return runs.workspace.root


@pytest.fixture
def make_runs(launcher: Launcher, verifier: Path, prepared: Path, tmp_path: Path) -> Callable[..., Runs]:
    """Runs in a fresh copy of the prepared workspace."""

    def make(name: str = "workspace", verifier: Path = verifier) -> Runs:
        return Runs(launcher, Path(shutil.copytree(prepared, tmp_path / name)), verifier)

    return make


@pytest.fixture
def runs(make_runs: Callable[..., Runs]) -> Runs:
    return make_runs()
