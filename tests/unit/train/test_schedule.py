"""Which rows a step sees, and its learning rate."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mtp_trainer.contract import TrainingConfig
from mtp_trainer.train.schedule import FINAL_SHARE, learning_rate, rows_of_step, total_steps


def rates(steps: int, **fields: float) -> list[float]:
    """Learning rate of each step, as a share of the peak; one step beyond the end included."""
    training = TrainingConfig(learning_rate=2e-3, **fields)
    return [learning_rate(step, steps, training) / training.learning_rate for step in range(steps + 1)]


def test_the_warm_up_rises_linearly_to_the_peak() -> None:
    assert rates(100, warmup_fraction=0.1)[:10] == pytest.approx([0.1 * (step + 1) for step in range(10)])


def test_the_cosine_begins_at_the_peak_and_ends_at_the_final_share() -> None:
    found = rates(100, warmup_fraction=0.1)
    assert found[10] == pytest.approx(1.0)
    assert found[55] == pytest.approx((1 + FINAL_SHARE) / 2)
    assert found[100] == pytest.approx(FINAL_SHARE)
    assert all(after < before for before, after in pairwise(found[10:]))


def test_without_warm_up_the_first_step_has_the_peak() -> None:
    assert rates(10, warmup_fraction=0.0)[:2] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.99])
def test_a_run_of_one_step_has_the_peak(fraction: float) -> None:
    assert rates(1, warmup_fraction=fraction)[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rows", "fields", "steps"),
    [
        (10, {"epochs": 3, "rows_per_batch": 1}, 30),
        (10, {"epochs": 3, "rows_per_batch": 4}, 9),
        (3, {"epochs": 2, "rows_per_batch": 8}, 2),
        (10, {"epochs": 3, "rows_per_batch": 1, "max_steps": 7}, 7),
        (10, {"epochs": 1, "rows_per_batch": 1, "max_steps": 700}, 10),
    ],
)
def test_steps_are_passes_times_batches_up_to_the_limit(rows: int, fields: dict[str, int], steps: int) -> None:
    assert total_steps(rows, TrainingConfig(**fields)) == steps


def test_each_pass_visits_every_row_once_in_an_order_of_its_own() -> None:
    training = TrainingConfig(rows_per_batch=3)
    passes = [[row for batch in range(4) for row in rows_of_step(4 * n + batch, 10, training)] for n in range(3)]
    assert all(sorted(order) == list(range(10)) for order in passes)
    assert len({tuple(order) for order in passes}) == 3


def test_another_seed_gives_another_order() -> None:
    first, second = (rows_of_step(0, 100, TrainingConfig(rows_per_batch=100, seed=seed)) for seed in (1, 2))
    assert first != second
