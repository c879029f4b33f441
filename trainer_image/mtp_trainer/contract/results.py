"""Result of each stage: JSON of at most 4096 bytes, the size that Kubernetes keeps of a termination message."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from mtp_trainer.contract.exits import Reason, Stage

MAX_RESULT_BYTES = 4096
"""``terminationMessagePath`` content beyond this is cut by the kubelet (KEP-20, 4096 bytes per container)."""


class Result(BaseModel):
    """Base of results: camelCase in JSON; unknown keys are ignored, so that an older operator reads a newer trainer."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class AcceptanceCounts(Result):
    """vLLM's counters over one measurement.

    ``accepted[i]`` counts drafts of which at least i+1 tokens were accepted, so ``accepted[i] / drafts`` is the
    unconditional rate at position i and mean acceptance length = 1 + sum(accepted) / drafts
    (vllm/v1/spec_decode/metrics.py).
    """

    drafts: int
    accepted: tuple[int, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """Unconditional acceptance per position; empty without drafts."""
        return tuple(a / self.drafts for a in self.accepted) if self.drafts else ()

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per verifier step, 1 + sum of the rates; ``None`` without drafts."""
        return 1.0 + sum(self.accepted) / self.drafts if self.drafts else None


class ArtifactRef(Result):
    """A published or publishable folder."""

    path: str
    digest: str
    size_bytes: int


class PrepareResult(Result):
    stage: Literal[Stage.PREPARE] = Stage.PREPARE
    family: str
    verifier_revision: str | None = None
    verifier_digest: str
    head_tensors: int
    head_parameters: int
    data_digest: str
    read: int
    kept: int
    dropped: dict[str, int] = {}
    """Samples left out, by reason: duplicate, noAssistant, tooLong, heldOut, regenerationFailed, ..."""
    train_documents: int
    validation_documents: int
    train_tokens: int
    trained_tokens: int
    """Tokens under the loss mask, of one pass."""
    rows: int
    domain_prompts: int
    general_prompts: int = 0
    warnings: tuple[str, ...] = ()


class TrainResult(Result):
    stage: Literal[Stage.TRAIN] = Stage.TRAIN
    objective: str
    kv_context: str
    steps: int
    optimizer_steps: int
    best_step: int
    resumed_from: int | None = None
    first_loss: float
    last_loss: float
    shipped_predicted: tuple[float, ...]
    """Held-out acceptance per position predicted offline for the shipped head (serving-exact chain)."""
    tuned_predicted: tuple[float, ...]
    tokens_per_second: float
    unique_tokens: int
    passes: float
    head: ArtifactRef
    checkpoint: ArtifactRef | None = None
    warnings: tuple[str, ...] = ()


class SetEvaluation(Result):
    """Shipped against tuned head on one set of prompts, same prompts and depth."""

    shipped: AcceptanceCounts
    tuned: AcceptanceCounts
    improvement: float
    """Tuned minus shipped mean acceptance length."""
    improvement_low: float
    """Lower end of the 95 % bootstrap interval over prompts."""
    improvement_high: float
    tokens_per_second_ratio: float | None = None


class GateVerdict(Result):
    passed: bool
    failures: tuple[str, ...] = ()
    """One sentence for each rule that failed."""
    reason: Reason | None = None


class EvaluateResult(Result):
    stage: Literal[Stage.EVALUATE] = Stage.EVALUATE
    num_speculative_tokens: int
    domain: SetEvaluation
    general: SetEvaluation | None = None
    stitched: AcceptanceCounts | None = None
    """The stitched checkpoint on the domain set; equals ``domain.tuned`` when both artefacts are right."""
    output_parity: bool
    parity_prompts: int
    gate: GateVerdict
    warnings: tuple[str, ...] = ()


class PublishResult(Result):
    stage: Literal[Stage.PUBLISH] = Stage.PUBLISH
    head: ArtifactRef | None = None
    checkpoint: ArtifactRef | None = None
    tags: tuple[str, ...] = ()


class FailureResult(Result):
    """Why a stage stopped; written for every exit code other than 0 that the stage itself chose."""

    stage: Stage
    failed: Literal[True] = True
    reason: Reason
    message: str


class Progress(Result):
    """What a person wants to know while the train stage runs."""

    step: int
    total_steps: int
    percent: int
    loss: float | None = None
    held_out_acceptance: tuple[float, ...] = ()
    tokens_per_second: float | None = None
    estimated_remaining_seconds: int | None = None
    updated_at: str = ""


StageResult = PrepareResult | TrainResult | EvaluateResult | PublishResult | FailureResult

_success: TypeAdapter[PrepareResult | TrainResult | EvaluateResult | PublishResult] = TypeAdapter(
    Annotated[PrepareResult | TrainResult | EvaluateResult | PublishResult, Field(discriminator="stage")]
)


def parse_result(text: str) -> StageResult:
    """Read a termination message.

    Raises:
        ValueError: the text is not a stage's result (pydantic's ValidationError is one).
    """
    failure = '"failed":true' in text.replace(" ", "")
    return FailureResult.model_validate_json(text) if failure else _success.validate_json(text)


def result_json(result: StageResult) -> str:
    """Compact JSON of at most :data:`MAX_RESULT_BYTES` bytes; a failure's message and warnings are shortened to fit.

    Raises:
        ValueError: a success result is too long even without its warnings.
    """
    text = result.model_dump_json(by_alias=True, exclude_none=True)
    size = len(text.encode())
    if size <= MAX_RESULT_BYTES:
        return text
    if isinstance(result, FailureResult):
        keep = result.message.encode()[: max(0, len(result.message.encode()) - (size - MAX_RESULT_BYTES) - 64)]
        while True:
            shorter = result.model_copy(update={"message": keep.decode(errors="ignore") + "…"})
            text = shorter.model_dump_json(by_alias=True, exclude_none=True)
            if len(text.encode()) <= MAX_RESULT_BYTES:
                return text
            keep = keep[: len(keep) // 2]
    if getattr(result, "warnings", ()):
        return result_json(result.model_copy(update={"warnings": ()}))
    raise ValueError(f"the {result.stage} result has {size} bytes; a termination message keeps {MAX_RESULT_BYTES}")
