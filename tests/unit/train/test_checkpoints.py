"""Which checkpoints are kept, and which one a run goes on from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mtp_trainer.contract import StageError
from mtp_trainer.families import family_for
from mtp_trainer.head import MTPHead
from mtp_trainer.train.checkpoints import Best, TrainCheckpoints

from .tiny import TEXT_CONFIG

CONFIG = {"model_type": "qwen3_5_text", **TEXT_CONFIG}


class Training:
    """A head and its optimiser, moved by made-up gradients, and checkpoints of it."""

    def __init__(self, folder: Path, config: str = "one") -> None:
        torch.manual_seed(3)
        family = family_for(CONFIG)
        tensors = {name: torch.randn(shape) for name, shape in family.expected_head_tensors(CONFIG).items()}
        self.head = MTPHead.from_tensors(family, CONFIG, tensors)
        self.optimizer = torch.optim.AdamW(self.head.parameters(), lr=0.01)
        self.folder, self.checkpoints = folder, TrainCheckpoints(folder, config)

    def move(self, step: int) -> None:
        torch.manual_seed(step)
        for parameter in self.head.parameters():
            parameter.grad = torch.randn_like(parameter)
        self.optimizer.step()

    def save(self, step: int, best: Best | None = None) -> None:
        self.move(step)
        self.checkpoints.save(step, self.head, self.optimizer, best, first_loss=2.5, last_loss=1 / (1 + step))

    def kept(self) -> list[int]:
        return sorted(int(path.name.removeprefix("step-")) for path in self.folder.iterdir())


def best(step: int, length: float = 1.5) -> Best:
    return Best(step, length, (0.4, 0.1))


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path / "checkpoints")


def test_the_two_newest_are_kept(training: Training) -> None:
    for step in (10, 20, 30, 40):
        training.save(step)
    assert training.kept() == [30, 40]


def test_the_best_of_each_that_is_kept_is_kept(training: Training) -> None:
    training.save(10, best(10))
    training.save(20, best(10))
    training.save(30, best(10))
    assert training.kept() == [10, 20, 30]
    # Should the checkpoint of step 40 be damaged, the run goes on from 30, whose best is 10.
    training.save(40, best(40))
    assert training.kept() == [10, 30, 40]
    training.save(50, best(40))
    assert training.kept() == [40, 50]


def test_a_resumed_run_keeps_the_best_of_the_checkpoint_it_goes_on_from(training: Training) -> None:
    training.save(10, best(10))
    training.save(20, best(10))
    training.save(30, best(10))
    again = Training(training.folder)
    assert again.checkpoints.resume(again.head, again.optimizer)
    again.save(40, best(40))
    assert again.kept() == [10, 30, 40]


def test_head_optimiser_and_figures_come_back_to_the_bit(training: Training) -> None:
    training.save(1, best(1, 1.0 + 1 / 3))
    again = Training(training.folder)
    resumed = again.checkpoints.resume(again.head, again.optimizer)
    assert resumed
    assert (resumed.step, resumed.best, resumed.first_loss, resumed.last_loss, resumed.damaged) == (
        1,
        best(1, 1.0 + 1 / 3),
        2.5,
        1 / 2,
        (),
    )
    # The moments came back too, if the next step is the same.
    training.move(2)
    again.move(2)
    for one, other in zip(training.head.parameters(), again.head.parameters(), strict=True):
        assert torch.equal(one, other)


def test_without_a_checkpoint_there_is_nothing_to_resume(training: Training) -> None:
    assert training.checkpoints.resume(training.head, training.optimizer) is None


def test_folders_of_other_names_are_left_alone(training: Training) -> None:
    training.save(1)
    (training.folder / "step-000001.bak").mkdir()
    (training.folder / "notes.txt").write_text("mine")
    training.save(2)
    training.save(3)
    names = {path.name for path in training.folder.iterdir()}
    assert names == {"step-000001.bak", "notes.txt", "step-000002", "step-000003"}


def test_a_checkpoint_of_another_configuration_is_refused(training: Training) -> None:
    training.save(1)
    other = Training(training.folder, config="two")
    with pytest.raises(StageError, match="another configuration or verifier"):
        other.checkpoints.resume(other.head, other.optimizer)


def test_the_heads_tensors_of_a_step_are_read_back(training: Training) -> None:
    training.save(1)
    expected = {name: tensor.clone() for name, tensor in training.head.to_tensors().items()}
    training.save(2)
    found = training.checkpoints.head(1)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_head_that_is_gone_is_named(training: Training) -> None:
    with pytest.raises(StageError, match="step-000005 is damaged"):
        training.checkpoints.head(5)
