"""Workspaces of finished evaluations, with every figure different from every other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtp_trainer.contract import (
    AcceptanceCounts,
    ArtifactRef,
    GateVerdict,
    PrepareResult,
    Stage,
    TrainResult,
    Workspace,
    result_json,
)
from mtp_trainer.measurements import (
    HeadMeasurement,
    Interval,
    Measurements,
    ParityMeasurement,
    SetMeasurement,
)

Finished = Callable[..., Workspace]


def head(drafts: int, accepted: tuple[int, ...], speeds: tuple[float, ...] = ()) -> HeadMeasurement:
    """Intervals reach 0.02 to both sides of a rate, 0.04 of the length."""
    counts = AcceptanceCounts(drafts=drafts, accepted=accepted)
    length = counts.mean_acceptance_length or 1.0
    return HeadMeasurement(
        counts=counts,
        rates=tuple(Interval(value=rate, low=rate - 0.02, high=rate + 0.02) for rate in counts.rates),
        mean_acceptance_length=Interval(value=length, low=length - 0.04, high=length + 0.04),
        tokens_per_second=speeds,
    )


def compared(shipped: HeadMeasurement, tuned: HeadMeasurement, prompts: int, ratio: float | None) -> SetMeasurement:
    gain = tuned.mean_acceptance_length.value - shipped.mean_acceptance_length.value
    return SetMeasurement(
        prompts=prompts,
        shipped=shipped,
        tuned=tuned,
        improvement=Interval(value=gain, low=gain - 0.031, high=gain + 0.029),
        tokens_per_second_ratio=ratio,
    )


def measurements() -> Measurements:
    """A gate that passed, with a general set and a stitched checkpoint."""
    tuned = head(5302, (4428, 3746, 3137), (1702.5, 1655.1, 1698.4))
    return Measurements(
        num_speculative_tokens=3,
        draft_sampling="Greedy",
        temperature=0.0,
        max_tokens=256,
        engine="vLLM 0.32.0",
        domain=compared(head(5472, (4287, 2623, 1610), (1402.2, 1398.9, 1411.0)), tuned, 128, 1.2037),
        general=compared(head(3991, (2645, 1701, 1068)), head(4024, (2719, 1713, 1105)), 96, None),
        stitched=tuned.counts,
        parity=ParityMeasurement(prompts=127, identical=127),
        shipped_predicted=(0.791, 0.492, 0.313),
        tuned_predicted=(0.824, 0.693, 0.575),
        gate=GateVerdict(passed=True),
    )


PREPARED = PrepareResult(
    family="qwen3_5",
    verifier_revision="r17",
    verifier_digest="sha256:3f3f",
    head_tensors=15,
    head_parameters=1_204_736,
    data_digest="sha256:abab",
    read=6000,
    kept=5712,
    dropped={"duplicate": 171, "heldOut": 62, "regenerationFailed": 55},
    train_documents=5426,
    validation_documents=286,
    train_tokens=1_921_355,
    trained_tokens=1_402_118,
    rows=235,
    domain_prompts=128,
    general_prompts=96,
    warnings=("one answer in nine was cut",),
)

TRAINED = TrainResult(
    objective="LK",
    kv_context="Serving",
    steps=3,
    optimizer_steps=60,
    best_step=40,
    first_loss=1.921,
    last_loss=0.812,
    shipped_predicted=(0.791, 0.492, 0.313),
    tuned_predicted=(0.824, 0.693, 0.575),
    tokens_per_second=5123.4,
    unique_tokens=1_402_117,
    passes=2.55,
    head=ArtifactRef(path="/workspace/train/head", digest="sha256:cdcd", size_bytes=9),
    checkpoint=ArtifactRef(path="/workspace/train/checkpoint", digest="sha256:efef", size_bytes=10),
    warnings=("few unique tokens",),
)


def history_lines(steps: int = 60, validate_every: int = 20) -> list[dict[str, Any]]:
    """Lines as the train stage writes them: a validation of the shipped head, steps, more validations."""
    lines: list[dict[str, Any]] = [validation(0)]
    for step in range(1, steps + 1):
        losses = [2.0 - step / 100, 2.5 - step / 100, 3.0 - step / 100]
        lines.append(
            {
                "step": step,
                "loss": sum(losses) / 3 + 0.1 * (-1) ** step,
                "stepLosses": losses,
                "alpha": [0.5, 0.4, 0.3],
                "learningRate": 0.0001,
                "gradNorm": 0.4,
                "tokensPerSecond": 5000.0,
            }
        )
        if step % validate_every == 0:
            lines.append(validation(step))
    return lines


def validation(step: int) -> dict[str, Any]:
    accepted = [800 + step, 500 + 2 * step, 300 + 4 * step]
    figures = {"drafts": 1000, "accepted": accepted, "meanAcceptanceLength": 1 + sum(accepted) / 1000}
    return {"step": step, "validation": figures}


@pytest.fixture
def measured() -> Measurements:
    """What ``finished`` writes unless told otherwise."""
    return measurements()


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    """Write a workspace; ``prepared``, ``trained`` or ``history`` set to ``None`` leaves that file out."""

    def finish(
        measured: Measurements | None = None,
        prepared: PrepareResult | None = PREPARED,
        trained: TrainResult | None = TRAINED,
        history: list[dict[str, Any]] | None = None,
        without_history: bool = False,
    ) -> Workspace:
        workspace = Workspace(tmp_path / "workspace")
        for stage in Stage:
            workspace.stage(stage).mkdir(parents=True)
        workspace.measurements.write_text((measured or measurements()).model_dump_json(by_alias=True))
        for result in (prepared, trained):
            if result is not None:
                workspace.result(result.stage).write_text(result_json(result))
        if not without_history:
            lines = history_lines() if history is None else history
            workspace.history.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return workspace

    return finish
