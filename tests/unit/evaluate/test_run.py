"""The stage from its inputs to its files, with stand-ins in the place of the four servers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from stand_in import STEPS, Behaviour

from mtp_trainer.contract import (
    ArtifactRef,
    EngineConfig,
    EvaluateConfig,
    ExitCode,
    FailureResult,
    GateConfig,
    Reason,
    SourceConfig,
    Stage,
    StageError,
    TrainResult,
    Workspace,
    result_json,
)
from mtp_trainer.evaluate import run
from mtp_trainer.evaluate.heads import TIMED_ROUNDS
from mtp_trainer.evaluate.rounds import WARM_UP_PROMPTS
from mtp_trainer.measurements import read_measurements

PROMPTS = 20
TRAINED = TrainResult(
    objective="KL",
    kv_context="Serving",
    steps=3,
    optimizer_steps=10,
    best_step=10,
    first_loss=2.0,
    last_loss=1.0,
    shipped_predicted=(0.5, 0.25, 0.125),
    tuned_predicted=(0.8, 0.64, 0.512),
    tokens_per_second=100.0,
    unique_tokens=1000,
    passes=1.0,
    head=ArtifactRef(path="head", digest="sha256:1", size_bytes=1),
)
EASY = GateConfig(min_drafts=1, min_improvement=0.01)


@pytest.fixture
def config(tmp_path: Path, write_jsonl: Callable[[str, list[Any]], Path]) -> EvaluateConfig:
    """What prepare and train leave, as far as this stage looks at it."""
    workspace = Workspace(tmp_path / "workspace")
    for folder in (tmp_path / "verifier", workspace.head, workspace.stitched):
        folder.mkdir(parents=True)
    write_jsonl("workspace/prepare/domain.jsonl", [{"promptTokenIds": [7, 10 + i]} for i in range(PROMPTS)])
    write_jsonl("workspace/prepare/general.jsonl", [{"promptTokenIds": [9, 80 + i]} for i in range(PROMPTS)])
    workspace.result(Stage.TRAIN).write_text(result_json(TRAINED))
    return EvaluateConfig(
        workspace=workspace.root,
        verifier=SourceConfig(uri="pvc://models/verifier", path=tmp_path / "verifier"),
        max_tokens=6,
        gate=EASY,
        engine=EngineConfig(concurrency=4, startup_timeout_seconds=60, request_timeout_seconds=60),
    )


@pytest.fixture
def servers(config: EvaluateConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Behaviour]:
    """How each of the four servers behaves; a test changes an entry before it runs the stage."""
    asked = str(tmp_path / "asked")
    behaviours = {
        "shipped": Behaviour("shipped", acceptance=0.5, asked=asked),
        "tuned": Behaviour("tuned", acceptance=0.8, asked=asked),
        "plain": Behaviour("plain", depth=0, asked=asked),
        "stitched": Behaviour("stitched", acceptance=0.8, asked=asked),
    }
    workspace = Workspace(config.workspace)

    def command(model: Path, port: int, engine: Any, speculation: Any, *_: Any) -> list[str]:
        if speculation is None:
            name = "plain"
        elif speculation.head == workspace.head:
            name = "tuned"
        else:
            name = "stitched" if model == workspace.stitched else "shipped"
        program = Path(__file__).with_name("stand_in.py")
        return [sys.executable, str(program), str(port), json.dumps(asdict(behaviours[name]))]

    monkeypatch.setattr("mtp_trainer.engine.server.serve_command", command)
    return behaviours


def failure(config: EvaluateConfig) -> StageError:
    """The error of a run, which must leave no measurements."""
    with pytest.raises(StageError) as caught:
        run(config)
    stage = Workspace(config.workspace).stage(Stage.EVALUATE)
    assert [path.name for path in stage.glob("*") if path.suffix != ".log"] == []
    return caught.value


@pytest.mark.usefixtures("servers")
def test_a_better_head_passes_and_everything_is_written(config: EvaluateConfig) -> None:
    result = run(config)
    assert result.gate.passed, result.gate.failures
    assert result.output_parity
    assert result.parity_prompts == PROMPTS
    assert result.domain.tuned.drafts == STEPS * PROMPTS
    assert result.domain.improvement_low > 0
    assert result.general is not None
    assert result.stitched == result.domain.tuned
    workspace = Workspace(config.workspace)
    measured = read_measurements(workspace.measurements)
    assert measured.domain.shipped.counts == result.domain.shipped
    assert len(measured.domain.tuned.tokens_per_second) == TIMED_ROUNDS
    assert measured.general is not None
    assert measured.general.tokens_per_second_ratio is None
    assert measured.tuned_predicted == TRAINED.tuned_predicted
    assert measured.gate == result.gate
    assert workspace.report.is_file()


@pytest.mark.usefixtures("servers")
def test_the_heads_take_turns_in_going_first(config: EvaluateConfig, tmp_path: Path) -> None:
    Workspace(config.workspace).general_prompts.unlink()
    run(config)
    order = ["shipped", "tuned"]
    turns = [name for turn in range(TIMED_ROUNDS) for name in (order if turn % 2 == 0 else reversed(order))]
    asked = (tmp_path / "asked").read_text().split()
    warm_up = 2 * WARM_UP_PROMPTS
    assert asked[:warm_up] == ["shipped"] * WARM_UP_PROMPTS + ["tuned"] * WARM_UP_PROMPTS
    assert asked[warm_up:] == [name for name in [*turns, "plain", "stitched"] for _ in range(PROMPTS)]


def test_a_head_that_is_no_better_fails_the_gate_but_not_the_stage(
    config: EvaluateConfig, servers: dict[str, Behaviour]
) -> None:
    servers["tuned"] = replace(servers["tuned"], acceptance=0.5)
    servers["stitched"] = replace(servers["stitched"], acceptance=0.5)
    result = run(config)
    assert not result.gate.passed
    assert result.gate.reason is Reason.GATE_FAILED
    assert result.domain.improvement == 0.0
    assert read_measurements(Workspace(config.workspace).measurements).gate == result.gate


@pytest.mark.parametrize("parity", ["Required", "Ignored"])
def test_changed_output_is_shown_whether_or_not_the_gate_asks(
    config: EvaluateConfig, servers: dict[str, Behaviour], parity: str
) -> None:
    servers["tuned"] = replace(servers["tuned"], changes_output=True)
    gate = EASY.model_copy(update={"output_parity": parity})
    result = run(config.model_copy(update={"gate": gate}))
    assert not result.output_parity
    assert result.gate.passed == (parity == "Ignored")


def test_a_stitched_checkpoint_that_drafts_otherwise_is_warned_of(
    config: EvaluateConfig, servers: dict[str, Behaviour]
) -> None:
    servers["stitched"] = replace(servers["stitched"], acceptance=0.5)
    result = run(config)
    assert any("stitched checkpoint" in warning for warning in result.warnings)


@pytest.mark.usefixtures("servers")
def test_sampled_evaluation_still_compares_greedy_output(config: EvaluateConfig) -> None:
    result = run(config.model_copy(update={"temperature": 0.7}))
    assert result.output_parity


@pytest.mark.usefixtures("servers")
@pytest.mark.parametrize(
    ("missing", "reason", "stage"),
    [
        ("prepare/domain.jsonl", Reason.DATASET_EMPTY, "prepare stage"),
        ("train/result.json", Reason.CONFIG_INVALID, "train stage"),
        ("train/head", Reason.CHECKPOINT_CORRUPT, "train stage"),
        ("../verifier", Reason.VOLUME_MISSING, "prepare stage"),
    ],
)
def test_a_missing_input_names_its_path_and_the_stage_to_run(
    config: EvaluateConfig, tmp_path: Path, missing: str, reason: Reason, stage: str
) -> None:
    path = (config.workspace / missing).resolve()
    path.rename(path.with_name("away"))
    error = failure(config)
    assert error.reason is reason
    assert error.exit_code is ExitCode.BAD_INPUT
    assert str(path) in error.message
    assert f"run the {stage}" in error.message
    assert not (tmp_path / "asked").exists()


@pytest.mark.usefixtures("servers")
def test_a_train_stage_that_failed_is_quoted(config: EvaluateConfig) -> None:
    left = FailureResult(stage=Stage.TRAIN, reason=Reason.LOSS_NOT_FINITE, message="step 3: loss nan")
    Workspace(config.workspace).result(Stage.TRAIN).write_text(result_json(left))
    error = failure(config)
    assert "LossNotFinite: step 3: loss nan" in error.message


def test_without_a_general_set_none_is_measured(config: EvaluateConfig, servers: dict[str, Behaviour]) -> None:
    Workspace(config.workspace).general_prompts.unlink()
    assert run(config).general is None


def test_without_a_stitched_checkpoint_none_is_served(config: EvaluateConfig, servers: dict[str, Behaviour]) -> None:
    Workspace(config.workspace).stitched.rmdir()
    assert run(config).stitched is None


def test_a_missing_vllm_says_what_to_install(config: EvaluateConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtp_trainer.engine.command.find_spec", lambda _: None)
    error = failure(config)
    assert error.reason is Reason.ENGINE_MISSING
    assert error.exit_code is ExitCode.BAD_INPUT


@pytest.mark.parametrize("name", ["shipped", "tuned", "plain", "stitched"])
def test_a_server_that_does_not_start_is_named_by_its_log(
    config: EvaluateConfig, servers: dict[str, Behaviour], name: str
) -> None:
    servers[name] = replace(servers[name], trouble="doesn't start")
    error = failure(config)
    assert error.reason is Reason.ENGINE_FAILED
    assert "exit code 3" in error.message
    assert "No room for the key-value cache" in error.message
    assert f"vllm-{name}.log" in error.message


@pytest.mark.parametrize("name", ["shipped", "tuned", "plain", "stitched"])
def test_a_server_that_dies_half_way_is_a_crash_with_its_cause(
    config: EvaluateConfig, servers: dict[str, Behaviour], name: str
) -> None:
    servers[name] = replace(servers[name], trouble="dies", trouble_after=PROMPTS // 2)
    error = failure(config)
    assert error.reason is Reason.ENGINE_CRASHED
    assert error.exit_code is ExitCode.FAILED
    assert "OutOfMemoryError: CUDA out of memory" in error.message
    assert f"vllm-{name}.log" in error.message


@pytest.mark.parametrize("trouble", ["HTML", "another's drafts", "no metrics"])
def test_a_server_that_answers_nonsense_ends_the_stage(
    config: EvaluateConfig, servers: dict[str, Behaviour], trouble: str
) -> None:
    servers["tuned"] = replace(servers["tuned"], trouble=trouble)
    assert failure(config).reason is Reason.ENGINE_NONSENSE
