"""What the real vLLM does when it can't start or dies: the stage ends with a reason, and no process is left."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from mtp_trainer.contract import EngineConfig, Reason, StageError
from mtp_trainer.engine import Completions, VLLMServer
from mtp_trainer.engine.command import Speculation

from .conftest import QUICKSTART

VERIFIER = QUICKSTART / "verifier"
ENGINE = EngineConfig(max_model_len=1024, startup_timeout_seconds=300)


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children(child)]
    return found


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_head_that_does_not_fit_keeps_vllm_from_starting_and_the_cause_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "verifier"
    shutil.copytree(VERIFIER, broken)
    tensors = load_file(broken / "model.safetensors")
    tensors["mtp.fc.weight"] = tensors["mtp.fc.weight"][:, :-8].contiguous()
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    server = VLLMServer(broken, tmp_path / "vllm.log", ENGINE, Speculation(3), False)
    try:
        server.start()
        with pytest.raises(StageError, match="ended with exit code") as caught:
            server.wait_ready()
    finally:
        server.stop()
    assert caught.value.reason is Reason.ENGINE_FAILED
    assert "vllm.log" in caught.value.message


def test_a_vllm_that_dies_while_it_answers_ends_the_stage_and_leaves_no_process(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(VERIFIER)
    ids = tokenizer("Sort these numbers in ascending order: 5, 3, 9")["input_ids"]
    server = VLLMServer(VERIFIER, tmp_path / "vllm.log", ENGINE, Speculation(3), False)
    server.start()
    try:
        server.wait_ready()
        below = children(server.pid)
        assert below
        with Completions(server.url, 4, 60, server.raise_if_crashed) as client:
            answers = client.complete([(i, ids) for i in range(2000)], 32, 1.0, 0)
            next(answers)
            os.kill(below[-1], signal.SIGKILL)
            with pytest.raises(StageError) as caught:
                list(answers)
    finally:
        server.stop()
    assert caught.value.reason is Reason.ENGINE_CRASHED
    deadline = time.monotonic() + 60
    while not all(map(gone, below)):
        assert time.monotonic() < deadline, "a process of vLLM's is left"
        time.sleep(0.2)
