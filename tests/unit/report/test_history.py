"""Curves out of history.jsonl, also of a file that a killed process left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtp_trainer.contract import AcceptanceCounts
from mtp_trainer.report.history import moving_mean, read_curves
from mtp_trainer.train.history import History

GOOD = '{"step": 2, "loss": 1.5, "stepLosses": [1.0, 2.0], "learningRate": 0.1}\n'
Write = Callable[[str, list[Any]], Path]


def test_steps_and_validations_are_read_in_order(write_jsonl: Write) -> None:
    path = write_jsonl(
        "history.jsonl",
        [
            {"step": 0, "validation": {"drafts": 10, "accepted": [8, 5], "meanAcceptanceLength": 2.3}},
            {"step": 2, "loss": 1.5, "stepLosses": [1.0, 2.0], "learningRate": 0.1},
            {"step": 1, "loss": 2.5},
        ],
    )
    curves = read_curves(path)
    assert curves is not None
    assert [(s.step, s.loss, s.step_losses, s.learning_rate) for s in curves.steps] == [
        (1, 2.5, (), None),
        (2, 1.5, (1.0, 2.0), 0.1),
    ]
    (shipped,) = curves.validations
    assert (shipped.step, shipped.drafts, shipped.rates, shipped.mean_acceptance_length) == (0, 10, (0.8, 0.5), 2.3)


def test_what_the_train_stage_writes_is_read(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl", 0)
    history.validation(0, AcceptanceCounts(drafts=4, accepted=(3, 1)))
    history.validation(50, AcceptanceCounts(drafts=0, accepted=(0, 0)))
    curves = read_curves(tmp_path / "history.jsonl")
    assert curves is not None
    assert [(v.step, v.rates, v.mean_acceptance_length) for v in curves.validations] == [
        (0, (0.75, 0.25), 2.0),
        (50, (), 1.0),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 3, "lo',
        "",
        "[1, 2]",
        "7",
        '{"loss": 1.0}',
        '{"step": 3, "loss": NaN}',
        '{"step": 3, "loss": Infinity}',
        '{"step": 3, "loss": null}',
        '{"step": 3, "validation": {"drafts": 5}}',
        '{"step": 3, "validation": null}',
    ],
)
def test_a_line_that_cannot_be_used_costs_only_itself(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(GOOD + line + "\n" + GOOD.replace("2,", "4,", 1))
    curves = read_curves(path)
    assert curves is not None
    assert [step.step for step in curves.steps] == [2, 4]
    assert curves.validations == ()


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\n", b"nothing\n"])
def test_a_file_that_is_not_there_or_says_nothing_gives_no_curves(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "history.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert read_curves(path) is None


def test_a_moving_mean_has_fewer_neighbours_at_the_ends() -> None:
    assert moving_mean([1.0, 2.0, 6.0, 3.0], 3) == pytest.approx([1.5, 3.0, 11 / 3, 4.5])


@given(st.lists(st.floats(-100, 100), max_size=50), st.integers(1, 21))
def test_a_moving_mean_stays_between_the_values(values: list[float], window: int) -> None:
    means = moving_mean(values, window)
    assert len(means) == len(values)
    assert all(min(values) - 1e-9 <= mean <= max(values) + 1e-9 for mean in means)
