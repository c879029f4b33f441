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
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from mtp_trainer.contract import FailureResult, Stage, StageResult, Workspace, parse_result
from mtp_trainer.families import family_for

from ..conftest import write_tokenizer

TEXT_CONFIG = {
    "vocab_size": 272,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 1,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    "tie_word_embeddings": True,
    "mtp_num_hidden_layers": 1,
}
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


def make_verifier(folder: Path) -> Path:
    """Write a checkpoint that transformers can run, with all tensors of an MTP head, in bfloat16."""
    folder.mkdir(parents=True)
    torch.manual_seed(5)
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**TEXT_CONFIG))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    model.to(torch.bfloat16).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | {"mtp_num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config))
    head = {
        name: (torch.randn(shape) * 0.1).to(torch.bfloat16)
        for name, shape in sorted(family_for(config).expected_head_tensors(config).items())
    }
    change_weights(folder, lambda tensors: tensors.update(head))
    write_tokenizer(folder)
    return folder


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    """Write a checkpoint's tensors again after ``change``."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def conversation(number: int) -> dict[str, Any]:
    answer = f"{number} and {number + 1} make {2 * number + 1}."
    return {"messages": [{"role": "user", "content": f"add {number}"}, {"role": "assistant", "content": answer}]}


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
