"""``MTPFineTune.status``: how far the run is, what it measured, and what it made."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mtp_operator.api.common import Condition, Decimal, PositionAcceptance, StatusModel, Time, map_list
from mtp_operator.api.pods import ShortText

StageName = Literal["Prepare", "Train", "Evaluate", "Publish"]


class ResolvedFineTune(StatusModel):
    """What names and defaults stood for in this run."""

    family: str | None = Field(default=None, description="Family of the head, as the trainer found it.")
    verifier_revision: str | None = Field(default=None, description="Commit of an hf:// verifier.")
    verifier_digest: str | None = Field(default=None, description="Digest of the verifier's content.")
    dataset_revision: str | None = Field(default=None, description="Commit of an hf:// dataset.")
    data_digest: str | None = Field(default=None, description="Digest of the prepared data.")
    trainer_image: str | None = Field(default=None, description="Image of the stages.")
    head_tensors: int | None = Field(default=None, description="Tensors of the head.")
    head_parameters: int | None = Field(default=None, description="Parameters of the head.")
    objective: str | None = Field(default=None, description="What objective Auto stood for.")
    workspace_claim: str | None = Field(default=None, description="Claim that holds the workspace.")
    workspace_path: str | None = Field(default=None, description="The run's folder in that claim.")
    operator_version: str | None = Field(default=None, description="Operator that created the run's first Job.")


class JobStatus(StatusModel):
    """The Job of one stage."""

    stage: StageName = Field(description="Its stage.")
    name: ShortText = Field(description="Its name.")
    active: int = Field(default=0, description="Running pods.")
    succeeded: int = Field(default=0, description="Pods that ended well.")
    failed: int = Field(default=0, description="Pods that failed.")
    suspended: bool = Field(default=False, description="Waiting in a queue, or suspended.")


class TrainingProgress(StatusModel):
    """Progress of the Train stage, written when it changed and at most every 30 seconds."""

    percent: int | None = Field(default=None, description="Share of steps done, 0 to 100.")
    step: int | None = Field(default=None, description="Optimiser steps done.")
    total_steps: int | None = Field(default=None, description="Optimiser steps planned.")
    tokens_per_second: int | None = Field(default=None, description="Training speed.")
    loss: Decimal | None = Field(default=None, description="Newest loss.")
    held_out_acceptance: str | None = Field(
        default=None, description="Predicted acceptance by position on held-out data, such as 0.91/0.76/0.60."
    )
    estimated_remaining_seconds: int | None = Field(default=None, description="Estimate of the time left.")
    last_update_time: Time | None = Field(default=None, description="When this was read.")


class HeadAcceptance(StatusModel):
    """Acceptance of one head on one set of prompts, from vLLM's counters."""

    drafts: int = Field(description="Drafts that the figures rest on.")
    mean_acceptance_length: Decimal | None = Field(
        default=None, description="Tokens per verifier step: 1 + the sum of the rates."
    )
    positions: list[PositionAcceptance] = map_list("position", description="Acceptance by draft position.")
    summary: str = Field(default="", description="The rates in one line, such as 0.897/0.719/0.476.")


class TrainedFor(StatusModel):
    """The serving that the head was trained and measured for."""

    steps: int = Field(description="Draft depth.")
    draft_sampling: str = Field(description="Greedy or Probabilistic.")
    temperature: Decimal = Field(description="Sampling temperature.")


class GeneralEvaluation(StatusModel):
    """The same on the gate's general set."""

    shipped: HeadAcceptance = Field(description="The head that the verifier came with.")
    tuned: HeadAcceptance = Field(description="The tuned head.")
    improvement: Decimal | None = Field(default=None, description="Tuned minus shipped mean acceptance length.")


class EvaluationStatus(StatusModel):
    """Shipped against tuned head, on the same held-out prompts."""

    shipped: HeadAcceptance = Field(description="The head that the verifier came with.")
    tuned: HeadAcceptance = Field(description="The tuned head.")
    improvement: Decimal | None = Field(default=None, description="Tuned minus shipped mean acceptance length.")
    improvement_low: Decimal | None = Field(default=None, description="Lower end of its 95 % interval.")
    improvement_high: Decimal | None = Field(default=None, description="Upper end of its 95 % interval.")
    tokens_per_second_ratio: Decimal | None = Field(
        default=None, description="Tuned over shipped, same prompts, same run."
    )
    general: GeneralEvaluation | None = Field(default=None, description="The general set, when the gate has one.")
    output_parity: bool | None = Field(
        default=None, description="Whether greedy output with and without drafting agreed."
    )
    trained_for: TrainedFor | None = Field(default=None, description="The serving that the head was made for.")
    report: str | None = Field(default=None, description="The report: pvc://CLAIM/PATH of an HTML file.")


class ArtifactLocation(StatusModel):
    """One published artefact."""

    path: str | None = Field(default=None, description="pvc://CLAIM/PATH, ready for a serving's uri.")
    image: str | None = Field(default=None, description="Image reference with digest, ready for a serving's image.")
    digest: str = Field(description="Digest of its content.")
    size_bytes: int = Field(description="Its size.")


class Artifact(StatusModel):
    """What the run published."""

    head: ArtifactLocation | None = Field(default=None, description="The tuned head alone.")
    checkpoint: ArtifactLocation | None = Field(default=None, description="The stitched checkpoint.")


class MTPFineTuneStatus(StatusModel):
    """Written by the operator only."""

    observed_generation: int = Field(default=-1, description="metadata.generation that the status is about; -1 before.")
    conditions: list[Condition] = map_list("type", 32, "Ready, Succeeded and one per stage; the docs list all of them.")
    start_time: Time | None = Field(default=None, description="When the first Job was created.")
    completion_time: Time | None = Field(default=None, description="When the run ended, either way.")
    retries: int | None = Field(default=None, description="Pods that failed and were tried again.")
    preemptions: int | None = Field(
        default=None, description="Pods that were interrupted; they don't count as retries."
    )
    stage: StageName | None = Field(
        default=None, description="Current or last stage, for people; programs read conditions."
    )
    resolved: ResolvedFineTune | None = Field(default=None, description="What names and defaults stood for.")
    jobs: list[JobStatus] = map_list("name", 16, "The Jobs of the stages.")
    progress: TrainingProgress | None = Field(default=None, description="Progress of the Train stage.")
    evaluation: EvaluationStatus | None = Field(default=None, description="What Evaluate measured.")
    artifact: Artifact | None = Field(default=None, description="What Publish published.")
