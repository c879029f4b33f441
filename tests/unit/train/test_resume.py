"""A run that is stopped in any way ends, when it is run again, with the very head of one that wasn't."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mtp_trainer.contract import Reason, Stage, TrainResult

from .conftest import STEPS, Launcher, Runs, wait_until


def lines(runs: Runs) -> int:
    """Lines of the history so far, half ones included."""
    return runs.workspace.history.read_bytes().count(b"\n") if runs.workspace.history.exists() else 0


@pytest.fixture(scope="module")
def undisturbed(launcher: Launcher, verifier: Path, prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run from beginning to end."""
    runs = Runs(launcher, Path(shutil.copytree(prepared, tmp_path_factory.mktemp("undisturbed") / "w")), verifier)
    ended = runs.train()
    assert ended.code == 0, ended.log
    return runs


@pytest.fixture(scope="module")
def stopped(launcher: Launcher, verifier: Path, prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose run was stopped by SIGTERM, to be copied."""
    runs = Runs(launcher, Path(shutil.copytree(prepared, tmp_path_factory.mktemp("stopped") / "w")), verifier)
    running = runs.start()
    wait_until(lambda: (runs.workspace.checkpoints / "step-000008").exists(), running)
    running.send(signal.SIGTERM)
    ended = running.wait()
    assert ended.code == 75, ended.log
    assert ended.failure.reason is Reason.INTERRUPTED
    assert f"of {STEPS}; a checkpoint is written" in ended.failure.message
    return runs.workspace.root


@pytest.fixture
def resumed(stopped: Path, launcher: Launcher, verifier: Path, tmp_path: Path) -> Runs:
    """Runs in a copy of the stopped workspace."""
    return Runs(launcher, Path(shutil.copytree(stopped, tmp_path / "workspace")), verifier)


def finish(runs: Runs, undisturbed: Runs) -> TrainResult:
    """Run to the end, and compare with the run that nothing happened to."""
    ended = runs.train()
    assert ended.code == 0, ended.log
    assert runs.head() == undisturbed.head()
    stitched = "model.safetensors"
    assert (runs.workspace.stitched / stitched).read_bytes() == (undisturbed.workspace.stitched / stitched).read_bytes()
    assert runs.losses() == undisturbed.losses()
    result, expected = ended.result, undisturbed.result()
    assert isinstance(result, TrainResult)
    ignored = {"resumed_from", "tokens_per_second", "head", "checkpoint", "warnings"}
    assert result.model_dump(exclude=ignored) == expected.model_dump(exclude=ignored)
    assert (result.head.digest, result.head.size_bytes) == (expected.head.digest, expected.head.size_bytes)
    return result


@pytest.mark.parametrize("seed", [1])
def test_kills_at_any_moment_change_nothing(make_runs: Callable[..., Runs], undisturbed: Runs, seed: int) -> None:
    runs, moments, killed = make_runs(), random.Random(seed), 0
    for _ in range(6):
        moment = lines(runs) + moments.randint(-3, 10)
        before = runs.workspace.history.stat().st_ino if runs.workspace.history.exists() else 0
        running = runs.start()
        # A resumed run writes the file anew before its first step.
        wait_until(
            lambda moment=moment, before=before: (
                runs.workspace.history.exists()
                and runs.workspace.history.stat().st_ino != before
                and lines(runs) >= moment
            ),
            running,
        )
        running.send(signal.SIGKILL)
        killed += running.wait().code == -signal.SIGKILL
    assert killed >= 3
    assert finish(runs, undisturbed).resumed_from is not None


def test_a_kill_while_artefacts_are_written_leaves_them_to_the_next_run(
    make_runs: Callable[..., Runs], undisturbed: Runs
) -> None:
    runs = make_runs()
    running = runs.start()
    wait_until(lambda: (runs.workspace.checkpoints / f"step-{STEPS:06}").exists(), running)
    running.send(signal.SIGKILL)
    running.wait()
    runs.workspace.result(Stage.TRAIN).unlink(missing_ok=True)
    runs.workspace.stitched.mkdir(exist_ok=True)
    assert finish(runs, undisturbed).resumed_from == STEPS


def test_a_stopped_run_goes_on_from_the_step_it_stopped_at(resumed: Runs, undisturbed: Runs) -> None:
    step = resumed.history()[-1]["step"]
    assert resumed.checkpoints()[-1] == f"step-{step:06}"
    result = finish(resumed, undisturbed)
    assert result.resumed_from == step


def test_a_stop_before_the_first_step_is_no_failure(make_runs: Callable[..., Runs], undisturbed: Runs) -> None:
    runs = make_runs()
    running = runs.start()
    wait_until(lambda: (running.folder / "log").exists() and (running.folder / "log").stat().st_size, running)
    running.send(signal.SIGTERM)
    ended = running.wait()
    assert (ended.code, ended.failure.reason) == (75, Reason.INTERRUPTED)
    finish(runs, undisturbed)


def test_a_second_signal_ends_a_run_at_once(make_runs: Callable[..., Runs], undisturbed: Runs) -> None:
    runs = make_runs()
    running = runs.start()
    wait_until(lambda: lines(runs) > 2, running)
    running.send(signal.SIGSTOP)
    running.send(signal.SIGTERM)
    running.send(signal.SIGINT)
    running.send(signal.SIGCONT)
    ended = running.wait()
    assert (ended.code, ended.termination) == (75, "")
    finish(runs, undisturbed)


def truncate(folder: Path) -> None:
    file = folder / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def flip(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / name).write_bytes(data)

    return spoil


def better_than_it_was(folder: Path) -> None:
    file = folder / "state.json"
    text = file.read_text()
    assert '"mean_acceptance_length": 1.' in text
    file.write_text(text.replace('"mean_acceptance_length": 1.', '"mean_acceptance_length": 9.'))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (truncate, "optimizer.safetensors changed"),
        (flip("head.safetensors"), "head.safetensors changed"),
        (better_than_it_was, "state.json changed"),
        (lambda folder: (folder / "state.json").unlink(), "No such file"),
    ],
    ids=["truncated", "flipped", "figures", "absent"],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_gone_on_from(
    resumed: Runs, undisturbed: Runs, spoil: Callable[[Path], None], named: str
) -> None:
    *_, before, newest = resumed.checkpoints()
    spoil(resumed.workspace.checkpoints / newest)
    result = finish(resumed, undisturbed)
    step = int(before.removeprefix("step-"))
    assert result.resumed_from == step
    assert newest in result.warnings[0]
    assert named in result.warnings[0]
    assert f"went on from step {step}" in result.warnings[0]


def test_a_run_without_a_whole_checkpoint_says_what_to_remove(resumed: Runs, undisturbed: Runs) -> None:
    for name in resumed.checkpoints():
        flip("head.safetensors")(resumed.workspace.checkpoints / name)
    failed = resumed.train()
    assert (failed.code, failed.failure.reason) == (3, Reason.CHECKPOINT_CORRUPT)
    assert "remove the folder to start again" in failed.failure.message
    shutil.rmtree(resumed.workspace.checkpoints)
    assert finish(resumed, undisturbed).resumed_from is None


def test_a_full_disk_leaves_the_last_good_checkpoint(resumed: Runs, undisturbed: Runs) -> None:
    good = resumed.checkpoints()
    size = (resumed.workspace.checkpoints / good[-1] / "optimizer.safetensors").stat().st_size
    failed = resumed.start(largest_file=size - 1).wait()
    assert (failed.code, failed.failure.reason) == (3, Reason.DISK_FULL)
    assert str(resumed.workspace.checkpoints) in failed.failure.message
    assert resumed.checkpoints() == good
    assert finish(resumed, undisturbed).resumed_from == int(good[-1].removeprefix("step-"))


def test_a_disk_that_is_full_in_the_middle_of_a_history_line_costs_only_that_line(
    resumed: Runs, undisturbed: Runs
) -> None:
    failed = resumed.start(largest_file=resumed.workspace.history.stat().st_size + 100).wait()
    assert (failed.code, failed.failure.reason) == (3, Reason.DISK_FULL)
    assert str(resumed.workspace.history) in failed.failure.message
    finish(resumed, undisturbed)
