"""Configuration of each stage: one JSON file, read by ``mtp-trainer <stage> --config FILE``.

JSON keys are camelCase. Paths are paths as the stage's process sees them. Unknown keys are refused, so that an older
trainer image never ignores what a newer operator asks for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from mtp_trainer.contract.exits import Reason, StageError

Objective = Literal["Auto", "CE", "KL", "TV", "LK", "E2ETV"]
KVContext = Literal["Serving", "SameDepth"]
DraftSampling = Literal["Greedy", "Probabilistic"]
Contents = Literal["Head", "StitchedCheckpoint"]


class Model(BaseModel):
    """Base of every configuration: camelCase in JSON, snake_case in Python, frozen, no unknown keys."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class SourceConfig(Model):
    """A checkpoint or a dataset: ``uri`` as the user wrote it, ``path`` where it is mounted (``pvc://`` only)."""

    uri: str
    path: Path | None = None
    revision: str | None = None


class DatasetConfig(Model):
    """Conversations in jsonl or parquet: ``messages``, or ``prompt`` and ``completion``, or ``text``."""

    source: SourceConfig
    subset: str | None = None
    split: str = "train"
    max_samples: int | None = Field(default=None, ge=1)


class SamplingConfig(Model):
    """How the verifier writes the responses that the head trains on."""

    temperature: float = Field(default=1.0, ge=0)
    max_tokens: int = Field(default=2048, ge=1)


class EngineConfig(Model):
    """The vLLM that a stage starts for itself."""

    startup_timeout_seconds: int = Field(default=1800, ge=1)
    request_timeout_seconds: int = Field(default=600, ge=1)
    concurrency: int = Field(default=8, ge=1)
    max_model_len: int | None = Field(default=None, ge=16)
    gpus: int = Field(default=0, ge=0)
    args: tuple[str, ...] = ()


class EvaluationSets(Model):
    """Held-out prompts: the run's own domain, and a general set that must not get worse."""

    domain: DatasetConfig
    general: DatasetConfig | None = None


class PrepareConfig(Model):
    """``mtp-trainer prepare``."""

    workspace: Path
    verifier: SourceConfig
    dataset: DatasetConfig
    evaluation: EvaluationSets
    responses: Literal["Regenerate", "AsIs"] = "Regenerate"
    sampling: SamplingConfig = SamplingConfig()
    validation_fraction: float = Field(default=0.05, gt=0, lt=1)
    sequence_length: int = Field(default=8192, ge=8)
    steps: int = Field(default=3, ge=1, le=8)
    seed: int = 42
    trust_remote_code: bool = False
    engine: EngineConfig = EngineConfig()


class StepWeights(Model):
    """Weight of each recursion step: ``beta`` ** k normalised, or the detached probability that step k is reached."""

    kind: Literal["Beta", "Survival"] = "Beta"
    beta: float = Field(default=0.6, gt=0, le=1)


class TrainingConfig(Model):
    """The recipe; the same fields as ``spec.training`` of an MTPFineTune."""

    steps: int = Field(default=3, ge=1, le=8)
    objective: Objective = "Auto"
    kv_context: KVContext = "Serving"
    step_weights: StepWeights = StepWeights()
    top_k: int = Field(default=0, ge=0)
    epochs: int = Field(default=3, ge=1)
    learning_rate: float = Field(default=1e-4, gt=0)
    warmup_fraction: float = Field(default=0.05, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    rows_per_batch: int = Field(default=1, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    hidden_states: Literal["VLLM", "Transformers"] = "Transformers"
    checkpoint_every_steps: int = Field(default=200, ge=1)
    validate_every_steps: int = Field(default=50, ge=1)
    seed: int = 42


class TrainConfig(Model):
    """``mtp-trainer train``."""

    workspace: Path
    verifier: SourceConfig
    training: TrainingConfig = TrainingConfig()
    draft_sampling: DraftSampling = "Greedy"
    temperature: float = Field(default=0.0, ge=0)
    contents: tuple[Contents, ...] = ("Head", "StitchedCheckpoint")
    progress_port: int | None = Field(default=None, ge=0, le=65535)
    trust_remote_code: bool = False


class GeneralGateConfig(Model):
    """Largest loss of mean acceptance length that the general set may show."""

    max_drop: float = Field(default=0.05, ge=0)


class GateConfig(Model):
    """When a tuned head may be published. Lengths are mean acceptance lengths in tokens per step."""

    min_improvement: float = 0.05
    min_mean_acceptance_length: float | None = None
    min_drafts: int = Field(default=2000, ge=1)
    min_position_zero_change: float = -0.01
    min_throughput_ratio: float | None = None
    general: GeneralGateConfig | None = None
    output_parity: Literal["Required", "Ignored"] = "Required"
    on_failure: Literal["Fail", "Warn"] = "Fail"


class EvaluateConfig(Model):
    """``mtp-trainer evaluate``."""

    workspace: Path
    verifier: SourceConfig
    num_speculative_tokens: int = Field(default=3, ge=1, le=8)
    draft_sampling: DraftSampling = "Greedy"
    temperature: float = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=256, ge=1)
    gate: GateConfig = GateConfig()
    seed: int = 42
    trust_remote_code: bool = False
    engine: EngineConfig = EngineConfig()


class OutputConfig(Model):
    """Where the artefacts go: a folder, in which each publication is a sub-folder named by its digest."""

    path: Path
    tags: tuple[str, ...] = ()
    contents: tuple[Contents, ...] = ("Head",)


class PublishConfig(Model):
    """``mtp-trainer publish``."""

    workspace: Path
    verifier: SourceConfig
    output: OutputConfig
    on_gate_failure: Literal["Fail", "Warn"] = "Fail"
    """``Warn`` publishes a head that failed the gate; its manifest says so. As ``gate.on_failure`` of evaluate."""
    run: str = ""
    operator_version: str = ""


ConfigT = TypeVar("ConfigT", bound=Model)


def load_config(kind: type[ConfigT], path: Path) -> ConfigT:
    """Read a stage's configuration.

    Raises:
        StageError: ``ConfigInvalid``, naming the file and every field that is wrong.
    """
    try:
        return kind.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StageError(
            Reason.CONFIG_INVALID, f"{path}: cannot be read ({error.strerror}); give a JSON file"
        ) from error
    except ValueError as error:
        if isinstance(error, ValidationError):
            fields = "; ".join(
                f"{'.'.join(str(p) for p in e['loc']) or '(top level)'}: {e['msg']}" for e in error.errors()
            )
            raise StageError(Reason.CONFIG_INVALID, f"{path}: {fields}") from error
        raise StageError(Reason.CONFIG_INVALID, f"{path}: not JSON ({error})") from error
