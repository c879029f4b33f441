"""The train stage on good input: what it writes, and that it learns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mtp_trainer.checkpoints import artefact_digest, read_header
from mtp_trainer.contract import MAX_RESULT_BYTES, Progress, TrainResult, parse_result

from .conftest import STEPS, TRAINING, Ended, Launcher, Runs

COMMAND = Path(sys.executable).with_name("mtp-trainer")


def execute(runs: Runs, stage: str, **fields: Any) -> Ended:
    """Run the installed command, and check that it prints what it leaves as the termination message."""
    termination = runs.workspace.root.with_name(f"{stage}-termination")
    done = subprocess.run(
        [COMMAND, stage, "--config", runs.configure(stage, **fields)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "MTP_TERMINATION_LOG": str(termination)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == termination.read_text()
    return Ended(done.returncode, termination.read_text(), done.stdout + done.stderr)


@pytest.fixture(scope="module")
def commands(
    launcher: Launcher, verifier: Path, dataset: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Runs, Ended, Ended]:
    """Prepare and train as a person runs them."""
    runs = Runs(launcher, tmp_path_factory.mktemp("commands") / "workspace", verifier)
    return runs, execute(runs, "prepare", **dataset), execute(runs, "train", training=TRAINING, progressPort=0)


@pytest.fixture(scope="module")
def runs(commands: tuple[Runs, Ended, Ended]) -> Runs:
    return commands[0]


@pytest.fixture(scope="module")
def result(commands: tuple[Runs, Ended, Ended]) -> TrainResult:
    result = commands[2].result
    assert isinstance(result, TrainResult)
    return result


def test_results_are_the_termination_messages_and_fit_into_them(commands: tuple[Runs, Ended, Ended]) -> None:
    runs, prepared, trained = commands
    for stage, ended in (("prepare", prepared), ("train", trained)):
        assert (runs.workspace.root / stage / "result.json").read_text() == ended.termination
        assert len(ended.termination.encode()) <= MAX_RESULT_BYTES


def test_training_lowers_the_loss_and_raises_the_predicted_acceptance(runs: Runs, result: TrainResult) -> None:
    losses = runs.losses()
    assert max(losses[step] for step in range(STEPS - 8, STEPS + 1)) < min(losses[step] for step in range(1, 4))
    assert (result.first_loss, result.last_loss) == (round(losses[1], 6), round(losses[STEPS], 6))
    assert sum(result.tuned_predicted) > sum(result.shipped_predicted)


def test_the_history_has_a_line_for_each_step_and_each_validation(runs: Runs, result: TrainResult) -> None:
    history = runs.history()
    steps = [line["step"] for line in history if "loss" in line]
    validations = {line["step"]: line["validation"] for line in history if "validation" in line}
    assert steps == list(range(1, STEPS + 1))
    assert list(validations) == list(range(0, STEPS + 1, 4))
    assert all(len(line["alpha"]) == len(line["stepLosses"]) == 3 for line in history if "loss" in line)
    lengths = {step: figures["meanAcceptanceLength"] for step, figures in validations.items() if step}
    assert result.best_step == max(lengths, key=lambda step: (lengths[step], step))
    best = validations[result.best_step]
    assert list(result.tuned_predicted) == [round(accepted / best["drafts"], 4) for accepted in best["accepted"]]


def test_the_progress_file_says_that_all_is_done(runs: Runs) -> None:
    progress = Progress.model_validate_json(runs.workspace.progress.read_text())
    assert (progress.step, progress.total_steps, progress.percent) == (STEPS, STEPS, 100)
    assert progress.estimated_remaining_seconds == 0
    assert len(progress.held_out_acceptance) == 3


def test_the_stitched_checkpoint_differs_in_nothing_but_the_heads_bytes(runs: Runs, result: TrainResult) -> None:
    names = {path.name for path in runs.verifier.iterdir()}
    assert {path.name for path in runs.workspace.stitched.iterdir()} == {*names, "manifest.json"}
    for name in names - {"model.safetensors"}:
        assert (runs.workspace.stitched / name).read_bytes() == (runs.verifier / name).read_bytes()
    before = bytearray((runs.verifier / "model.safetensors").read_bytes())
    after = bytearray((runs.workspace.stitched / "model.safetensors").read_bytes())
    for name, tensor in read_header(runs.verifier / "model.safetensors").items():
        if name.startswith("mtp."):
            place = slice(tensor.begin, tensor.end)
            assert before[place] != after[place]
            before[place] = after[place]
    assert before == after
    assert result.checkpoint is not None
    assert artefact_digest(runs.workspace.stitched) == result.checkpoint.digest


def test_the_overlay_holds_the_same_head_and_the_verifiers_configuration(runs: Runs, result: TrainResult) -> None:
    overlay = load_file(runs.workspace.head / "model.safetensors")
    stitched = load_file(runs.workspace.stitched / "model.safetensors")
    assert overlay.keys() == {name for name in stitched if name.startswith("mtp.")}
    assert all(torch.equal(tensor, stitched[name]) for name, tensor in overlay.items())
    assert (runs.workspace.head / "config.json").read_bytes() == (runs.verifier / "config.json").read_bytes()
    assert artefact_digest(runs.workspace.head) == result.head.digest


def test_the_manifest_says_where_the_head_comes_from(commands: tuple[Runs, Ended, Ended], result: TrainResult) -> None:
    runs, prepared, _ = commands
    manifest = json.loads((runs.workspace.head / "manifest.json").read_text())
    before = json.loads(prepared.termination)
    assert manifest["verifier"]["digest"] == before["verifierDigest"]
    assert manifest["dataDigest"] == before["dataDigest"]
    assert manifest["training"]["maxSteps"] == STEPS
    assert manifest["bestStep"] == result.best_step


def test_data_that_is_passed_over_many_times_is_remarked(result: TrainResult) -> None:
    assert result.passes == 10.0
    assert result.warnings == (
        f"10 passes over only {result.unique_tokens} unique tokens; more data helps more than more passes",
    )


@pytest.mark.parametrize(
    "recipe",
    [
        {"objective": "CE"},
        {"objective": "KL"},
        {"objective": "TV"},
        {"objective": "LK"},
        {"objective": "E2ETV"},
        {"objective": "CE", "kvContext": "SameDepth", "stepWeights": {"kind": "Beta", "beta": 0.6}},
        {"objective": "E2ETV", "kvContext": "SameDepth"},
        {"objective": "KL", "topK": 8, "stepWeights": {"kind": "Survival"}},
    ],
    ids=lambda recipe: "-".join(str(value) for value in recipe.values() if isinstance(value, str | int)),
)
def test_every_objective_and_recursion_trains(make_runs: Callable[..., Runs], recipe: dict[str, Any]) -> None:
    runs = make_runs()
    ended = runs.train({"maxSteps": 8, **recipe}, contents=["Head"])
    assert ended.code == 0, ended.log
    result = ended.result
    assert isinstance(result, TrainResult)
    assert (result.objective, result.kv_context) == (recipe["objective"], recipe.get("kvContext", "Serving"))
    assert result.last_loss < result.first_loss
    assert result.checkpoint is None
    assert not runs.workspace.stitched.exists()


def test_recursions_agree_at_the_first_step_and_differ_below(make_runs: Callable[..., Runs]) -> None:
    losses = {}
    for context in ("Serving", "SameDepth"):
        runs = make_runs(context)
        assert runs.train({"maxSteps": 1, "kvContext": context}, contents=["Head"]).code == 0
        losses[context] = runs.history()[1]["stepLosses"]
    assert losses["Serving"][0] == pytest.approx(losses["SameDepth"][0], rel=1e-5)
    assert losses["Serving"][2] != pytest.approx(losses["SameDepth"][2], rel=1e-5)


def test_a_finished_run_does_nothing_when_it_is_repeated(
    commands: tuple[Runs, Ended, Ended],
) -> None:
    runs, _, first = commands
    written = {path: path.stat().st_mtime_ns for path in runs.workspace.root.rglob("*") if path.is_file()}
    again = runs.train(progressPort=0)
    assert (again.code, again.termination) == (0, first.termination)
    assert "finished already" in again.log
    assert {path: path.stat().st_mtime_ns for path in runs.workspace.root.rglob("*") if path.is_file()} == written


def test_recursion_deeper_than_any_document_trains_the_steps_that_there_are(
    launcher: Launcher, verifier: Path, write_jsonl: Callable[[str, list[Any]], Path], tmp_path: Path
) -> None:
    def named(path: Path) -> dict[str, Any]:
        return {"source": {"uri": f"pvc://data/{path.name}", "path": str(path)}}

    runs = Runs(launcher, tmp_path / "workspace", verifier)
    texts = write_jsonl("texts.jsonl", [{"text": f"ab{number:02}cd"} for number in range(8)])
    exam = write_jsonl("exam.jsonl", [{"prompt": "ask", "completion": "answer"}])
    fields = {"dataset": named(texts), "evaluation": {"domain": named(exam)}, "responses": "AsIs", "sequenceLength": 8}
    prepared = runs.launch("prepare", runs.configure("prepare", steps=8, **fields)).wait()
    assert prepared.code == 0, prepared.log
    ended = runs.train({"steps": 8, "maxSteps": 5})
    assert ended.code == 0, ended.log
    result = parse_result(ended.termination)
    assert isinstance(result, TrainResult)
    assert (result.shipped_predicted, result.tuned_predicted, result.best_step) == ((), (), 5)
    assert "no held-out document is long enough for a draft of 8 tokens" in result.warnings[0]
    losses = runs.history()[1]["stepLosses"]
    assert all(loss > 0 for loss in losses[:5])
    assert losses[5:] == [0.0, 0.0, 0.0]
