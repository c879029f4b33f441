"""The train stage on bad numbers, changed input, and places that it can't write to: reason, message, exit code 3."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mtp_trainer.contract import Reason
from mtp_trainer.data import load_rows

from .conftest import Ended, Launcher, Runs
from .tiny import change_weights, conversation

UNUSED_TOKEN = 270


def refused(ended: Ended, reason: Reason) -> str:
    """The message of a run that ended for a reason that isn't worth another attempt."""
    assert (ended.code, ended.failure.reason) == (3, reason), ended.log
    assert ended.failure.message in ended.log
    return ended.failure.message


@pytest.fixture
def own_verifier(verifier: Path, tmp_path: Path) -> Path:
    """A verifier to spoil."""
    return Path(shutil.copytree(verifier, tmp_path / "verifier"))


@pytest.fixture
def prepare(
    launcher: Launcher, own_verifier: Path, dataset: dict[str, Any], tmp_path: Path
) -> Callable[[Callable[[dict[str, torch.Tensor]], Any]], Runs]:
    """Prepare for a verifier whose tensors were changed."""

    def make(change: Callable[[dict[str, torch.Tensor]], Any]) -> Runs:
        change_weights(own_verifier, change)
        runs = Runs(launcher, tmp_path / "workspace", own_verifier)
        ended = runs.launch("prepare", runs.configure("prepare", **dataset)).wait()
        assert ended.code == 0, ended.log
        return runs

    return make


def poison(token: int) -> Callable[[dict[str, torch.Tensor]], Any]:
    return lambda tensors: tensors["model.embed_tokens.weight"][token].fill_(float("nan"))


def test_states_that_are_not_finite_name_the_file_and_the_document(
    prepare: Callable[..., Runs], prepared: Path
) -> None:
    rows = load_rows(prepared / "prepare" / "train.safetensors")
    places = {
        token: set(rows.documents[(rows.tokens == token) & (rows.documents >= 0)].tolist())
        for token in rows.tokens.unique().tolist()
    }
    token = min((token for token in places if places[token]), key=lambda token: len(places[token]))
    assert len(places[token]) < rows.document_count
    message = refused(prepare(poison(token)).train(), Reason.HIDDEN_STATES_NOT_FINITE)
    named = re.match(r"train\.safetensors: document (\d+): ", message)
    assert named
    assert int(named[1]) in places[token]
    assert "check the checkpoint" in message


def test_a_loss_that_is_not_finite_names_the_step_and_its_documents(prepare: Callable[..., Runs]) -> None:
    # The token occurs nowhere, so that all states are finite; the scores of the vocabulary aren't.
    runs = prepare(poison(UNUSED_TOKEN))
    message = refused(runs.train(), Reason.LOSS_NOT_FINITE)
    named = re.match(r"step 1: loss nan, gradient norm nan on documents ((\d+)(, \d+)*); ", message)
    assert named
    documents = [int(number) for number in named[1].split(", ")]
    assert 0 < len(documents) <= 6
    assert documents == sorted(documents)
    assert not runs.workspace.head.exists()


def test_a_learning_rate_that_is_far_too_high_is_named(runs: Runs) -> None:
    message = refused(runs.train({"learningRate": 1e30, "checkpointEverySteps": 1}), Reason.LOSS_NOT_FINITE)
    step = int(message.partition(":")[0].removeprefix("step "))
    assert step > 1
    assert "lower training.learningRate" in message
    assert runs.checkpoints()[-1] == f"step-{step - 1:06}"


def test_a_verifier_that_changed_in_place_is_refused_whatever_its_size(
    make_runs: Callable[..., Runs], own_verifier: Path
) -> None:
    size = (own_verifier / "model.safetensors").stat().st_size
    change_weights(own_verifier, lambda tensors: tensors["model.norm.weight"].add_(1))
    assert (own_verifier / "model.safetensors").stat().st_size == size
    message = refused(make_runs(verifier=own_verifier).train(), Reason.CONFIG_INVALID)
    assert message.startswith(str(own_verifier / "model.safetensors"))
    assert "new workspace" in message


def test_a_copy_of_the_verifier_is_the_same_verifier(make_runs: Callable[..., Runs], own_verifier: Path) -> None:
    ended = make_runs(verifier=own_verifier).train({"maxSteps": 1})
    assert ended.code == 0, ended.log


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_verifier_without_one_of_its_files_is_refused(
    make_runs: Callable[..., Runs], own_verifier: Path, name: str
) -> None:
    (own_verifier / name).unlink()
    assert str(own_verifier / name) in refused(make_runs(verifier=own_verifier).train(), Reason.CONFIG_INVALID)


def test_a_verifier_that_is_not_mounted_is_named(make_runs: Callable[..., Runs], tmp_path: Path) -> None:
    message = refused(make_runs(verifier=tmp_path / "absent").train(), Reason.VOLUME_MISSING)
    assert "pvc://models/verifier" in message


def test_another_recipe_in_the_same_workspace_is_refused_until_the_train_folder_is_gone(runs: Runs) -> None:
    assert runs.train({"maxSteps": 4}).code == 0
    head = runs.head()
    message = refused(runs.train({"maxSteps": 4, "learningRate": 0.01}), Reason.CONFIG_INVALID)
    assert "belongs to another configuration" in message
    assert "remove its train folder" in message
    assert runs.head() == head
    shutil.rmtree(runs.workspace.root / "train")
    assert runs.train({"maxSteps": 4, "learningRate": 0.01}).code == 0
    assert runs.head() != head


def test_a_result_of_other_data_is_not_taken_for_this_ones(
    runs: Runs, dataset: dict[str, Any], write_jsonl: Callable[[str, list[Any]], Path]
) -> None:
    assert runs.train({"maxSteps": 4}).code == 0
    other = write_jsonl("other.jsonl", [conversation(number) for number in range(50, 70)])
    named = {"source": {"uri": "pvc://data/other.jsonl", "path": str(other)}}
    assert runs.launch("prepare", runs.configure("prepare", **dataset | {"dataset": named})).wait().code == 0
    ended = runs.train({"maxSteps": 4})
    assert "finished already" not in ended.log
    assert "belongs to another configuration" in refused(ended, Reason.CONFIG_INVALID)


def test_a_data_set_that_changed_in_place_is_prepared_again(
    runs: Runs, dataset: dict[str, Any], write_jsonl: Callable[[str, list[Any]], Path]
) -> None:
    path = write_jsonl("changing.jsonl", [conversation(number) for number in range(20)])
    named = {"source": {"uri": "pvc://data/changing.jsonl", "path": str(path)}}
    config = runs.configure("prepare", **dataset | {"dataset": named})
    first = json.loads(runs.launch("prepare", config).wait().termination)
    write_jsonl("changing.jsonl", [conversation(number) for number in range(30)])
    second = json.loads(runs.launch("prepare", config).wait().termination)
    assert (first["read"], second["read"]) == (20, 30)
    assert first["dataDigest"] != second["dataDigest"]


def test_training_without_prepare_names_the_stage_to_run(launcher: Launcher, verifier: Path, tmp_path: Path) -> None:
    runs = Runs(launcher, tmp_path / "empty", verifier)
    assert "prepare stage" in refused(runs.train(), Reason.CONFIG_INVALID)


def test_a_prepare_stage_that_did_not_end_is_named(runs: Runs) -> None:
    (runs.workspace.root / "prepare" / "result.json").unlink()
    assert "prepare stage" in refused(runs.train(), Reason.CONFIG_INVALID)


def test_rows_that_are_damaged_are_named(runs: Runs) -> None:
    runs.workspace.train_rows.write_bytes(runs.workspace.train_rows.read_bytes()[:-10])
    assert str(runs.workspace.train_rows) in refused(runs.train(), Reason.CHECKPOINT_CORRUPT)


def test_hidden_states_that_this_version_cannot_get_are_named(runs: Runs) -> None:
    assert refused(runs.train({"hiddenStates": "VLLM"}), Reason.CONFIG_INVALID).startswith("training.hiddenStates")


@pytest.mark.parametrize("blocked", ["train", "train/checkpoints", "train/history.jsonl/file"])
def test_a_place_that_cannot_be_written_to_is_named(runs: Runs, blocked: str) -> None:
    path = runs.workspace.root / blocked
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("in the way")
    message = refused(runs.train({"maxSteps": 4}), Reason.OUTPUT_NOT_WRITABLE)
    assert str(runs.workspace.root / "train") in message


def test_a_disk_without_room_for_the_artefacts_leaves_a_run_that_ends_once_there_is_some(runs: Runs) -> None:
    training = {"maxSteps": 4}
    assert runs.train(training, contents=["Head"]).code == 0
    head = runs.head()
    # Only the head's file fits, not the stitched one, which holds the verifier too.
    failed = runs.start(training, largest_file=(runs.verifier / "model.safetensors").stat().st_size - 1).wait()
    message = refused(failed, Reason.DISK_FULL)
    assert str(runs.workspace.stitched) in message
    assert not runs.workspace.stitched.exists()
    assert runs.train(training).code == 0
    assert runs.head() == head
