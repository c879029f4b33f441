"""Results of the stages as the status shows them: decimal strings next to counts."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.measure.figures import decimal, summary
from mtp_operator.reconcile import read
from mtp_operator.render.claim import workspace_claim_name
from mtp_operator.render.owner import Owner
from mtp_operator.render.stage_config import workspace_path
from mtp_operator.render.storage import WORKSPACE_MOUNT, claim_uri
from mtp_trainer.contract import (
    AcceptanceCounts,
    ArtifactRef,
    EvaluateResult,
    PrepareResult,
    Progress,
    PublishResult,
    SetEvaluation,
    StageResult,
    TrainResult,
    Workspace,
)

PROGRESS_SECONDS = 30
"""Least time between two writes of progress: each wakes everyone who watches the object."""


def resolved_from(result: StageResult) -> dict[str, Any]:
    """What a stage found out about names and defaults."""
    found: dict[str, Any] = {}
    if isinstance(result, PrepareResult):
        found = {
            "family": result.family,
            "verifierRevision": result.verifier_revision,
            "verifierDigest": result.verifier_digest,
            "dataDigest": result.data_digest,
            "headTensors": result.head_tensors,
            "headParameters": result.head_parameters,
        }
    elif isinstance(result, TrainResult):
        found = {"objective": result.objective}
    return {name: value for name, value in found.items() if value is not None}


def evaluation(result: EvaluateResult, spec: MTPFineTuneSpec, owner: Owner) -> dict[str, Any]:
    """``status.evaluation``."""
    report = Workspace(workspace_path(owner)).report.relative_to(WORKSPACE_MOUNT)
    figures: dict[str, Any] = {
        **_heads(result.domain),
        "improvementLow": decimal(result.domain.improvement_low),
        "improvementHigh": decimal(result.domain.improvement_high),
        "outputParity": result.output_parity,
        "trainedFor": {
            "steps": spec.training.steps,
            "draftSampling": spec.evaluation.draft_sampling,
            "temperature": spec.evaluation.temperature,
        },
        "report": f"pvc://{workspace_claim_name(owner, spec.workspace)}/{report}",
    }
    if result.domain.tokens_per_second_ratio is not None:
        figures["tokensPerSecondRatio"] = decimal(result.domain.tokens_per_second_ratio)
    if result.general is not None:
        figures["general"] = _heads(result.general)
    return figures


def _heads(measured: SetEvaluation) -> dict[str, Any]:
    return {
        "shipped": head_acceptance(measured.shipped),
        "tuned": head_acceptance(measured.tuned),
        "improvement": decimal(measured.improvement),
    }


def head_acceptance(counts: AcceptanceCounts) -> dict[str, Any]:
    """One head's acceptance; without drafts there are no rates."""
    if not counts.drafts:
        return {"drafts": 0, "positions": [], "summary": ""}
    before = (counts.drafts, *counts.accepted)
    return {
        "drafts": counts.drafts,
        "meanAcceptanceLength": decimal(1 + sum(counts.accepted) / counts.drafts),
        "positions": [
            {
                "position": i,
                "rate": decimal(accepted / counts.drafts),
                **({"conditional": decimal(accepted / before[i])} if before[i] else {}),
                "accepted": accepted,
            }
            for i, accepted in enumerate(counts.accepted)
        ],
        "summary": summary(counts.rates),
    }


def artifact(result: PublishResult) -> dict[str, Any]:
    """``status.artifact``, with paths that a serving's ``uri`` takes."""
    places = {"head": result.head, "checkpoint": result.checkpoint}
    return {name: _location(ref) for name, ref in places.items() if ref is not None}


def _location(ref: ArtifactRef) -> dict[str, Any]:
    return {"path": claim_uri(ref.path) or ref.path, "digest": ref.digest, "sizeBytes": ref.size_bytes}


def progress(seen: Progress | None, previous: read.Json, now: datetime) -> dict[str, Any] | None:
    """``status.progress``: the new figures when they changed and are due, else the previous ones."""
    if seen is None:
        return dict(previous) or None
    figures: dict[str, Any] = {"percent": seen.percent, "step": seen.step, "totalSteps": seen.total_steps}
    if seen.tokens_per_second is not None and math.isfinite(seen.tokens_per_second):
        figures["tokensPerSecond"] = round(seen.tokens_per_second)
    if seen.loss is not None and math.isfinite(seen.loss):
        figures["loss"] = decimal(seen.loss)
    if seen.held_out_acceptance:
        figures["heldOutAcceptance"] = summary(seen.held_out_acceptance, places=2)
    if seen.estimated_remaining_seconds is not None:
        figures["estimatedRemainingSeconds"] = seen.estimated_remaining_seconds
    last = read.time(previous, "lastUpdateTime")
    unchanged = {**figures, "lastUpdateTime": previous.get("lastUpdateTime")} == dict(previous)
    due = last is None or now - last >= timedelta(seconds=PROGRESS_SECONDS) or seen.step >= seen.total_steps
    if unchanged or not due:
        return dict(previous)
    return {**figures, "lastUpdateTime": read.format_time(now)}


def trained(result: TrainResult, previous: read.Json, now: datetime) -> dict[str, Any]:
    """``status.progress`` once training is done: what was read last may be of some steps before."""
    figures: dict[str, Any] = {
        "percent": 100,
        "step": result.optimizer_steps,
        "totalSteps": result.optimizer_steps,
    }
    if math.isfinite(result.last_loss):
        figures["loss"] = decimal(result.last_loss)
    if math.isfinite(result.tokens_per_second):
        figures["tokensPerSecond"] = round(result.tokens_per_second)
    if result.tuned_predicted:
        figures["heldOutAcceptance"] = summary(result.tuned_predicted, places=2)
    unchanged = {**figures, "lastUpdateTime": previous.get("lastUpdateTime")} == dict(previous)
    return dict(previous) if unchanged else {**figures, "lastUpdateTime": read.format_time(now)}
