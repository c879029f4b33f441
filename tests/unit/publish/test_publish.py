"""Only what passed the gate is published, by digest, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.checkpoints import (
    artefact_digest,
    inspect_verifier,
    read_manifest,
    read_tensors,
    stitch,
    write_head_overlay,
)
from mtp_trainer.contract import (
    AcceptanceCounts,
    EvaluateResult,
    FailureResult,
    GateVerdict,
    OutputConfig,
    PrepareResult,
    PublishConfig,
    Reason,
    SetEvaluation,
    SourceConfig,
    Stage,
    StageError,
    StageResult,
    TrainResult,
    Workspace,
    result_json,
)
from mtp_trainer.publish import run

Finished = Callable[..., PublishConfig]


def leave(workspace: Workspace, stage: Stage, result: StageResult) -> None:
    """Write a stage's result where the stage would."""
    workspace.stage(stage).mkdir(parents=True, exist_ok=True)
    workspace.result(stage).write_text(result_json(result))


def evaluation(passed: bool = True, failures: tuple[str, ...] = (), reason: Reason | None = None) -> EvaluateResult:
    return EvaluateResult(
        num_speculative_tokens=3,
        domain=SetEvaluation(
            shipped=AcceptanceCounts(drafts=100, accepted=(80, 50, 20)),
            tuned=AcceptanceCounts(drafts=90, accepted=(81, 72, 63)),
            improvement=0.9,
            improvement_low=0.8,
            improvement_high=1.0,
        ),
        output_parity=True,
        parity_prompts=10,
        gate=GateVerdict(passed=passed, failures=failures, reason=reason),
    )


@pytest.fixture
def finished(tmp_path: Path, make_checkpoint: Callable[..., Path]) -> Finished:
    """A workspace in which all stages before are done, and the configuration to publish it."""
    verifier = make_checkpoint("Sharded")
    inspection = inspect_verifier(verifier, revision="abc")
    workspace = Workspace(tmp_path / "workspace")

    def finish(scale: float = 2.0, **fields: Any) -> PublishConfig:
        head = {name: tensor * scale for name, tensor in read_tensors(verifier, inspection.head_tensors).items()}
        shutil.rmtree(workspace.root, ignore_errors=True)
        overlay = write_head_overlay(verifier, head, workspace.head, {"training": {"steps": 3}})
        stitched = stitch(verifier, head, workspace.stitched, {"training": {"steps": 3}})
        prepared = PrepareResult(
            family=inspection.family,
            verifier_revision="abc",
            verifier_digest=inspection.digest,
            head_tensors=15,
            head_parameters=inspection.head_parameters,
            data_digest="sha256:data",
            read=1,
            kept=1,
            train_documents=1,
            validation_documents=1,
            train_tokens=100,
            trained_tokens=50,
            rows=1,
            domain_prompts=1,
        )
        trained = TrainResult(
            objective="LK",
            kv_context="Serving",
            steps=3,
            optimizer_steps=10,
            best_step=10,
            first_loss=2.0,
            last_loss=1.0,
            shipped_predicted=(0.8,),
            tuned_predicted=(0.9,),
            tokens_per_second=1.0,
            unique_tokens=100,
            passes=3.0,
            head=overlay,
            checkpoint=stitched,
        )
        leave(workspace, Stage.PREPARE, prepared)
        leave(workspace, Stage.TRAIN, trained)
        leave(workspace, Stage.EVALUATE, evaluation())
        values: dict[str, Any] = {
            "path": tmp_path / "output",
            "contents": ("Head", "StitchedCheckpoint"),
            "tags": ("r7",),
        }
        output = OutputConfig(**{**values, **{k: v for k, v in fields.items() if k in values}})
        return PublishConfig(
            workspace=workspace.root,
            verifier=SourceConfig(uri="pvc://models/verifier", path=verifier),
            output=output,
            run="team/run",
            **{k: v for k, v in fields.items() if k not in values},
        )

    return finish


def test_artefacts_are_named_by_their_digests(finished: Finished) -> None:
    config = finished()
    result = run(config)
    assert result.head is not None
    assert result.checkpoint is not None
    for kind, ref in (("head", result.head), ("checkpoint", result.checkpoint)):
        assert Path(ref.path) == config.output.path / f"{kind}-{ref.digest.removeprefix('sha256:')[:12]}"
        assert artefact_digest(Path(ref.path)) == ref.digest
    assert len(list(config.output.path.iterdir())) == 3


def test_the_manifest_says_where_it_comes_from_and_what_was_measured(finished: Finished) -> None:
    result = run(finished())
    assert result.head is not None
    manifest = read_manifest(Path(result.head.path))
    assert manifest["digest"] == result.head.digest
    assert manifest["headDigest"].startswith("sha256:")
    assert manifest["training"] == {"steps": 3}
    assert manifest["run"] == "team/run"
    assert manifest["verifier"]["revision"] == "abc"
    assert manifest["data"]["digest"] == "sha256:data"
    assert manifest["recipe"] == {"objective": "LK", "kvContext": "Serving", "steps": 3}
    assert manifest["acceptance"]["numSpeculativeTokens"] == 3
    assert manifest["acceptance"]["domain"]["shipped"]["positions"] == [0.8, 0.5, 0.2]
    assert manifest["acceptance"]["domain"]["tuned"]["meanAcceptanceLength"] == pytest.approx(3.4)
    assert manifest["gate"] == {"passed": True, "failures": []}


def test_only_what_is_asked_for_is_published(finished: Finished) -> None:
    config = finished(contents=("Head",), tags=())
    result = run(config)
    assert result.checkpoint is None
    assert [path.name[:5] for path in config.output.path.iterdir()] == ["head-"]


def test_a_second_run_changes_nothing(finished: Finished) -> None:
    config = finished()
    first = run(config)
    before = {path: path.stat().st_mtime_ns for path in config.output.path.rglob("*")}
    assert run(config) == first
    assert {path: path.stat().st_mtime_ns for path in config.output.path.rglob("*")} == before


def test_another_head_goes_beside_the_first(finished: Finished) -> None:
    run(finished(tags=("r7",)))
    config = finished(scale=3.0, tags=("r8",))
    run(config)
    names = sorted(path.name.partition("-")[0] for path in config.output.path.iterdir())
    assert names == ["checkpoint", "checkpoint", "head", "head", "tags"]


def test_a_tag_points_to_the_folders(finished: Finished) -> None:
    config = finished()
    result = run(config)
    assert result.head is not None
    tag = json.loads((config.output.path / "tags" / "r7.json").read_text())
    assert tag["published"]["Head"] == {"folder": Path(result.head.path).name, "digest": result.head.digest}
    assert (config.output.path / tag["published"]["StitchedCheckpoint"]["folder"]).is_dir()


def test_a_tag_never_moves(finished: Finished) -> None:
    before = run(finished())
    config = finished(scale=3.0)
    with pytest.raises(StageError, match="r7 names another publication") as caught:
        run(config)
    assert caught.value.reason is Reason.CONFIG_INVALID
    assert before.head is not None
    assert before.head.digest in (config.output.path / "tags" / "r7.json").read_text()
    assert len(list(config.output.path.iterdir())) == 3, "nothing was copied"


@pytest.mark.parametrize("tag", ["", "../r7", "a/b", ".hidden"])
def test_a_tag_is_no_path(finished: Finished, tag: str) -> None:
    with pytest.raises(StageError, match=r"output\.tags"):
        run(finished(tags=(tag,)))


def test_a_head_that_failed_the_gate_is_not_published(finished: Finished) -> None:
    config = finished()
    verdict = evaluation(False, ("domain improved by 0.01, less than 0.05",), Reason.GATE_FAILED)
    leave(Workspace(config.workspace), Stage.EVALUATE, verdict)
    with pytest.raises(StageError, match=r"domain improved by 0\.01") as caught:
        run(config)
    assert caught.value.reason is Reason.GATE_FAILED
    assert not config.output.path.exists()


def test_a_gate_that_only_warns_lets_it_through_and_says_so(finished: Finished) -> None:
    config = finished(on_gate_failure="Warn")
    leave(Workspace(config.workspace), Stage.EVALUATE, evaluation(False, ("too little",), Reason.GATE_FAILED))
    result = run(config)
    assert result.head is not None
    assert read_manifest(Path(result.head.path))["gate"] == {"passed": False, "failures": ["too little"]}


@pytest.mark.parametrize("stage", [Stage.PREPARE, Stage.TRAIN, Stage.EVALUATE])
@pytest.mark.parametrize("problem", ["absent", "no JSON", "failed", "another stage's"])
def test_a_stage_without_a_result_is_named(finished: Finished, stage: Stage, problem: str) -> None:
    config = finished()
    path = Workspace(config.workspace).result(stage)
    match problem:
        case "absent":
            path.unlink()
        case "no JSON":
            path.write_text("{")
        case "failed":
            path.write_text(result_json(FailureResult(stage=stage, reason=Reason.UNEXPECTED, message="x")))
        case _:
            path.write_text('{"stage": "Publish"}')
    with pytest.raises(StageError) as caught:
        run(config)
    assert caught.value.reason is Reason.CONFIG_INVALID
    assert str(path) in caught.value.message
    assert not config.output.path.exists()


def test_a_checkpoint_that_was_not_made_is_named(finished: Finished) -> None:
    config = finished()
    shutil.rmtree(Workspace(config.workspace).stitched)
    with pytest.raises(StageError, match="made no StitchedCheckpoint"):
        run(config)
    assert not config.output.path.exists()


def test_bytes_that_are_not_those_that_were_trained_are_not_published(finished: Finished) -> None:
    config = finished(contents=("Head",), tags=())
    path = Workspace(config.workspace).head / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(StageError, match="its content has the digest") as caught:
        run(config)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT
    assert list(config.output.path.iterdir()) == []


def test_a_damaged_publication_is_not_taken_for_a_good_one(finished: Finished) -> None:
    config = finished(contents=("Head",))
    result = run(config)
    assert result.head is not None
    (Path(result.head.path) / "config.json").write_text("{}")
    with pytest.raises(StageError, match="remove this folder") as caught:
        run(config)
    assert caught.value.reason is Reason.CHECKPOINT_CORRUPT


def test_a_full_disk_leaves_nothing_half_published(finished: Finished, full_disk: Callable[[int], Any]) -> None:
    config = finished()
    with pytest.raises(StageError) as caught, full_disk(100):
        run(config)
    assert caught.value.reason is Reason.DISK_FULL
    assert list(config.output.path.iterdir()) == []


def test_an_output_that_may_not_be_written_is_named(
    tmp_path: Path, finished: Finished, read_only_folder: Path, unprivileged: Callable[[], Any]
) -> None:
    config = finished()
    moved = read_only_folder.parent / "workspace"
    shutil.copytree(config.workspace, moved)
    for path in moved.rglob("*.safetensors"):
        path.chmod(0o644)
    config = config.model_copy(
        update={"workspace": moved, "output": config.output.model_copy(update={"path": read_only_folder})}
    )
    with pytest.raises(StageError, match="make the folder writable") as caught, unprivileged():
        run(config)
    assert caught.value.reason is Reason.OUTPUT_NOT_WRITABLE
    assert list(read_only_folder.iterdir()) == []
