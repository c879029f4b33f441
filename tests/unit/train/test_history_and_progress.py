"""What a run says about how far it is."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from mtp_trainer.contract import AcceptanceCounts, Progress, Reason, StageError
from mtp_trainer.train.history import History
from mtp_trainer.train.progress import ProgressReporter, remaining_seconds

COUNTS = AcceptanceCounts(drafts=10, accepted=(6, 3, 1))


def steps(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_validation_is_written_with_its_length(tmp_path: Path) -> None:
    path = tmp_path / "train" / "history.jsonl"
    History(path, 0).validation(5, COUNTS)
    assert json.loads(path.read_text()) == {
        "step": 5,
        "validation": {"drafts": 10, "accepted": [6, 3, 1], "meanAcceptanceLength": 2.0},
    }


def test_a_validation_without_drafts_has_length_one(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    History(path, 0).validation(5, AcceptanceCounts(drafts=0, accepted=(0, 0)))
    assert json.loads(path.read_text())["validation"]["meanAcceptanceLength"] == 1.0


@pytest.mark.parametrize(
    ("rest", "kept"),
    [
        ("", [1, 2, 3]),
        ('{"step": 3, "validation": {}}\n', [1, 2, 3, 3]),
        ('{"step": 4}\n{"step": 5}\n', [1, 2, 3]),
        ('{"step": 3, "lo', [1, 2, 3]),
        ('\0\0\0\0\n{"step": 3}\n[]\n', [1, 2, 3, 3]),
    ],
    ids=["whole", "validation", "later", "half", "damaged"],
)
def test_a_resumed_history_keeps_whole_lines_up_to_its_step(tmp_path: Path, rest: str, kept: list[int]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n' + rest)
    History(path, 3).validation(4, COUNTS)
    assert steps(path) == [*kept, 4]


def test_a_history_from_the_beginning_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 0}\n{"step": 1}\n')
    History(path, 0).validation(0, COUNTS)
    assert steps(path) == [0]


def test_remaining_time_is_the_pace_so_far_times_what_is_left() -> None:
    assert remaining_seconds(elapsed=30.0, done=10, left=90) == pytest.approx(270.0)
    assert remaining_seconds(elapsed=30.0, done=10, left=0) == 0
    assert remaining_seconds(elapsed=30.0, done=0, left=90) is None


def test_a_resumed_run_counts_its_share_from_the_first_step_of_all(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    with ProgressReporter(path, total_steps=200, first_step=100, port=None) as progress:
        progress.update(150, 0.123456, (0.51234, 0.2), 1234.56)
    written = Progress.model_validate_json(path.read_text())
    assert (written.step, written.total_steps, written.percent) == (150, 200, 75)
    assert (written.loss, written.held_out_acceptance, written.tokens_per_second) == (0.12346, (0.5123, 0.2), 1234.6)
    assert written.estimated_remaining_seconds is not None


def test_progress_answers_over_http_until_the_run_ends(tmp_path: Path) -> None:
    with ProgressReporter(tmp_path / "progress.json", 200, 0, port=0) as progress:
        address = f"http://127.0.0.1:{progress.port}"
        progress.update(50, 0.5, (0.75, 0.25), 100.0)
        assert httpx.get(f"{address}/progress").json()["percent"] == 25
        metrics = httpx.get(f"{address}/metrics").text.splitlines()
        assert "mtp_train_step 50.0" in metrics
        assert 'mtp_train_held_out_acceptance{position="1"} 0.25' in metrics
        nothing = httpx.get(f"{address}/nothing")
        assert (nothing.status_code, "ask for /progress or /metrics" in nothing.text) == (404, True)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/progress")


def test_a_progress_file_that_cannot_be_written_does_not_hide_what_ended_the_run(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("in the way")
    path = tmp_path / "train" / "progress.json"
    with (
        pytest.raises(StageError) as caught,
        ProgressReporter(path, total_steps=2, first_step=0, port=None),
    ):
        raise StageError(Reason.LOSS_NOT_FINITE, "step 1")
    assert caught.value.reason is Reason.LOSS_NOT_FINITE
    with pytest.raises(StageError) as caught, ProgressReporter(path, total_steps=2, first_step=0, port=None):
        pass
    assert caught.value.reason is Reason.OUTPUT_NOT_WRITABLE
