"""A stage reads what the stages before it left, or says which of them to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtp_trainer.contract import (
    EvaluateResult,
    FailureResult,
    PrepareResult,
    PublishResult,
    Reason,
    Stage,
    StageError,
    StageResult,
    TrainResult,
    Workspace,
    result_json,
)
from mtp_trainer.results import read_result

PREPARED = PrepareResult(
    family="Qwen3_5",
    verifier_digest="sha256:1",
    head_tensors=15,
    head_parameters=100,
    data_digest="sha256:2",
    read=10,
    kept=9,
    train_documents=8,
    validation_documents=1,
    train_tokens=100,
    trained_tokens=50,
    rows=2,
    domain_prompts=4,
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def leave(workspace: Workspace, content: StageResult | str) -> Path:
    """Write a result where the prepare stage does."""
    path = workspace.result(Stage.PREPARE)
    path.parent.mkdir(parents=True)
    path.write_text(content if isinstance(content, str) else result_json(content))
    return path


def test_a_finished_stage_is_read(workspace: Workspace) -> None:
    leave(workspace, PREPARED)
    assert read_result(workspace, PrepareResult) == PREPARED


@pytest.mark.parametrize(
    ("kind", "stage"), [(PrepareResult, "prepare"), (TrainResult, "train"), (EvaluateResult, "evaluate")]
)
def test_a_missing_result_names_its_file_and_its_stage(
    workspace: Workspace, kind: type[PrepareResult], stage: str
) -> None:
    with pytest.raises(StageError, match=f"{stage}/result.json: not there; run the {stage} stage first") as caught:
        read_result(workspace, kind)
    assert caught.value.reason is Reason.CONFIG_INVALID


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not a stage's result"),
        ("[]", "not a stage's result"),
        (result_json(PREPARED)[:-40], "not a stage's result"),
        (result_json(PublishResult()), "the result of the publish stage"),
        (
            FailureResult(stage=Stage.PREPARE, reason=Reason.DATASET_EMPTY, message="no samples"),
            r"the prepare stage failed \(DatasetEmpty: no samples\)",
        ),
    ],
    ids=["empty", "no object", "cut", "another stage's", "a failure"],
)
def test_what_is_no_result_of_it_says_what_it_is_and_what_to_do(
    workspace: Workspace, content: StageResult | str, says: str
) -> None:
    path = leave(workspace, content)
    with pytest.raises(StageError, match=says) as caught:
        read_result(workspace, PrepareResult)
    assert caught.value.reason is Reason.CONFIG_INVALID
    assert str(path) in caught.value.message
    assert "run" in caught.value.message
