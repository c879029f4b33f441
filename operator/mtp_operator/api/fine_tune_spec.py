"""``MTPFineTune.spec``: what to train, on what, how, and when the result is good enough."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mtp_operator.api.common import (
    BelowOne,
    Difference,
    Fraction,
    LearningRate,
    Length,
    Model,
    Name,
    NotNegative,
    SecretRef,
    Temperature,
    Weight,
    obeying,
)
from mtp_operator.api.engine import StageEngine
from mtp_operator.api.pods import FineTunePods, Image, Quantity
from mtp_operator.api.rules import (
    CHECKPOINT_URI,
    CLASS_NEEDS_STORAGE,
    DATASET_URI,
    NO_PARENT_FOLDER,
    ONE_WORKSPACE,
    OUTPUT_PATH,
    PUSH_SECRET_NEEDS_IMAGE,
    REPOSITORY_ONLY,
    REVISION_ONLY_FOR_HUB,
    SOME_OUTPUT,
    Rule,
)

CheckpointUri = Annotated[str, *obeying(CHECKPOINT_URI, NO_PARENT_FOLDER, maxLength=1024)]
DatasetUri = Annotated[str, *obeying(DATASET_URI, NO_PARENT_FOLDER, maxLength=1024)]
OutputPath = Annotated[str, *obeying(OUTPUT_PATH, NO_PARENT_FOLDER, maxLength=1024)]
Repository = Annotated[Image, *obeying(REPOSITORY_ONLY)]
Tag = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_][-A-Za-z0-9._]*$")]
Revision = Annotated[str, Field(min_length=1, max_length=255)]


class VerifierSource(Model):
    """The model whose own MTP head is tuned."""

    rules: ClassVar[tuple[Rule, ...]] = (REVISION_ONLY_FOR_HUB,)

    uri: CheckpointUri = Field(
        description="The checkpoint: hf://ORGANISATION/MODEL, pvc://CLAIM/PATH, s3://BUCKET/PREFIX or "
        "oci://REPOSITORY@sha256:DIGEST. It must hold its MTP head's tensors."
    )
    revision: Revision | None = Field(
        default=None, description="Commit, branch or tag; hf:// only. Default: the newest, resolved once into status."
    )
    secret_ref: SecretRef | None = Field(
        default=None, description="Secret with the credentials (HF_TOKEN, or the S3 keys). Default: none."
    )
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that the checkpoint brings. Default false: refused."
    )


class DatasetSource(Model):
    """Conversations: messages, or prompt and completion, or text, in jsonl or parquet."""

    rules: ClassVar[tuple[Rule, ...]] = (REVISION_ONLY_FOR_HUB,)

    uri: DatasetUri = Field(
        description="A jsonl or parquet file or a folder of them: hf://ORGANISATION/DATASET, pvc://CLAIM/PATH or "
        "s3://BUCKET/PREFIX."
    )
    revision: Revision | None = Field(
        default=None, description="Commit, branch or tag; hf:// only. Default: the newest, resolved once into status."
    )
    secret_ref: SecretRef | None = Field(default=None, description="Secret with the credentials. Default: none.")
    subset: str | None = Field(
        default=None, max_length=253, description="Configuration of a dataset that has several. Default: its only one."
    )
    split: str = Field(
        default="train", max_length=253, description="Split to read. Default train; ignored for a single file."
    )
    max_samples: int | None = Field(default=None, ge=1, description="Read at most this many. Default: all.")


class Sampling(Model):
    """How the verifier writes its responses."""

    temperature: Temperature = Field(default="1.0", description='Sampling temperature. Default "1.0"; "0" is greedy.')
    max_tokens: int = Field(default=2048, ge=1, le=1048576, description="Longest response, in tokens. Default 2048.")


class TrainingDataset(DatasetSource):
    """What the head trains on."""

    responses: Literal["Regenerate", "AsIs"] = Field(
        default="Regenerate",
        description="Regenerate (default): the verifier answers the prompts itself, so that the head learns what it "
        "will be asked to predict. AsIs: the responses are the verifier's already.",
    )
    sampling: Sampling = Field(
        default_factory=Sampling, description="How responses are regenerated. Ignored when responses is AsIs."
    )
    validation_fraction: Fraction = Field(
        default="0.05", description='Share of conversations held out for choosing the best checkpoint. Default "0.05".'
    )


class StepWeightsSpec(Model):
    """Weight of each recursion step in the loss."""

    kind: Literal["Beta", "Survival"] = Field(
        default="Beta",
        description="Beta (default): beta to the power of the step, normalised. Survival: the probability that the "
        "step is reached.",
    )
    beta: Weight = Field(default="0.6", description='Decay per step. Default "0.6"; ignored when kind is Survival.')


class Training(Model):
    """The recipe."""

    steps: int = Field(default=3, ge=1, le=8, description="Recursion depth in training. Default 3.")
    objective: Literal["Auto", "CE", "KL", "TV", "LK", "E2ETV"] = Field(
        default="Auto",
        description="Loss per step. Auto (default) takes the one that measures best for the project; CE is the "
        "FastMTP recipe; the others compare with the verifier's distribution.",
    )
    kv_context: Literal["Serving", "SameDepth"] = Field(
        default="Serving",
        description="Serving (default): a draft attends to what it attends to in vLLM. SameDepth: to keys of its own "
        "step, as FastMTP and Speculators train.",
    )
    step_weights: StepWeightsSpec = Field(default_factory=StepWeightsSpec, description="Weight of each step.")
    top_k: int = Field(
        default=0,
        ge=0,
        description="0 (default): the whole vocabulary. Else the verifier's top k and one bucket for the rest. "
        "Ignored when objective is CE.",
    )
    epochs: int = Field(default=3, ge=1, description="Passes over the data. Default 3.")
    max_steps: int | None = Field(
        default=None, ge=1, description="Stop after this many optimiser steps. Default: none."
    )
    learning_rate: LearningRate = Field(default="1e-4", description='Peak learning rate. Default "1e-4".')
    warmup_fraction: BelowOne = Field(default="0.05", description='Share of steps that warm up. Default "0.05".')
    weight_decay: NotNegative = Field(default="0", description='AdamW\'s weight decay. Default "0".')
    max_grad_norm: NotNegative = Field(default="1.0", description='Gradients are clipped to this norm. Default "1.0".')
    sequence_length: int = Field(
        default=8192, ge=8, le=1048576, description="Tokens per packed row. Default 8192. Longer samples are dropped."
    )
    rows_per_batch: int = Field(default=1, ge=1, description="Packed rows per optimiser step and GPU. Default 1.")
    hidden_states: Literal["VLLM", "Transformers"] = Field(
        default="Transformers",
        description="Where the verifier's hidden states come from. Transformers (default): in the training process. "
        "VLLM: a vLLM that the stage starts on verifierGpus.",
    )
    checkpoint_every_steps: int = Field(default=200, ge=1, description="Steps between checkpoints. Default 200.")
    validate_every_steps: int = Field(default=50, ge=1, description="Steps between validations. Default 50.")
    seed: int = Field(default=42, ge=0, description="Seed of everything random. Default 42.")


class GeneralGate(Model):
    """A second set of prompts, of other kinds, that must not get worse."""

    dataset: DatasetSource = Field(description="Held-out prompts.")
    max_drop: NotNegative = Field(
        default="0.05", description='Largest loss of mean acceptance length on this set. Default "0.05".'
    )


class Gate(Model):
    """When the tuned head may be published. Each rule compares with the shipped head, measured in the same run."""

    min_improvement: Difference = Field(
        default="0.05",
        description='Least gain in mean acceptance length; the lower end of its interval counts. Default "0.05".',
    )
    min_mean_acceptance_length: Length | None = Field(
        default=None, description="Least mean acceptance length of the tuned head. Default: not checked."
    )
    min_drafts: int = Field(
        default=2000, ge=1, description="Fewest drafts that a measurement must rest on. Default 2000."
    )
    min_position_zero_change: Difference = Field(
        default="-0.01", description='Least change of the acceptance at the first position. Default "-0.01".'
    )
    min_throughput_ratio: NotNegative | None = Field(
        default=None, description="Least ratio of tokens per second, tuned over shipped. Default: not checked."
    )
    general: GeneralGate | None = Field(default=None, description="A general set that must not drop. Default: none.")
    output_parity: Literal["Required", "Ignored"] = Field(
        default="Required",
        description="Required (default): greedy output with and without drafting must agree. Ignored: reported only.",
    )
    on_failure: Literal["Fail", "Warn"] = Field(
        default="Fail", description="Fail (default): nothing is published. Warn: published, and GatePassed is False."
    )


class Evaluation(Model):
    """How the head will be served; it is trained for that and measured by it."""

    dataset: DatasetSource = Field(description="Held-out prompts of the run's own domain.")
    num_speculative_tokens: int = Field(default=3, ge=1, le=8, description="Draft depth. Default 3.")
    draft_sampling: Literal["Greedy", "Probabilistic"] = Field(
        default="Greedy", description="How drafts are sampled. Default Greedy."
    )
    temperature: Temperature = Field(default="0", description='Sampling temperature of the requests. Default "0".')
    max_tokens: int = Field(default=256, ge=1, le=1048576, description="Longest response, in tokens. Default 256.")
    gate: Gate = Field(default_factory=Gate, description="When the result may be published.")


class WorkspaceSpec(Model):
    """The volume that all stages share."""

    rules: ClassVar[tuple[Rule, ...]] = (ONE_WORKSPACE, CLASS_NEEDS_STORAGE)

    claim_name: Name | None = Field(
        default=None, description="An existing claim; the run uses a folder of its own in it. Not with storage."
    )
    storage: Quantity | None = Field(default=None, description="Size of a new claim that the run owns.")
    storage_class_name: Name | None = Field(
        default=None, description="Class of the new claim. Default: the cluster's. Only with storage."
    )


class FailurePolicy(Model):
    """What a failing pod costs."""

    max_retries: int = Field(
        default=3, ge=0, le=100, description="Retries per stage. Default 3. Interruptions and wrong input don't count."
    )
    startup_timeout_seconds: int = Field(
        default=1800, ge=1, le=86400, description="Patience with a vLLM that a stage starts. Default 1800."
    )


class Output(Model):
    """Where the result goes. Outputs are never deleted with the object."""

    rules: ClassVar[tuple[Rule, ...]] = (SOME_OUTPUT, PUSH_SECRET_NEEDS_IMAGE)

    path: OutputPath | None = Field(
        default=None, description="Folder: pvc://CLAIM/PATH. Each publication is a sub-folder named by its digest."
    )
    image: Repository | None = Field(default=None, description="OCI repository, without tag or digest. Default: none.")
    tags: list[Tag] = Field(
        default=[],
        max_length=16,
        description="Added only after the gate passed. Default: none, the digest is in status.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    contents: list[Literal["Head", "StitchedCheckpoint"]] = Field(
        default=["Head"],
        min_length=1,
        max_length=2,
        description="Head (default): the tuned head alone, small. StitchedCheckpoint: the whole verifier with the "
        "tuned head in place.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    push_secret_ref: SecretRef | None = Field(
        default=None, description="Registry credentials (kubernetes.io/dockerconfigjson). Only with image."
    )


class MTPFineTuneSpec(Model):
    """One run. It cannot change after creation, except suspend and ttlSecondsAfterFinished."""

    suspend: bool = Field(
        default=False, description="Stop the running stage after a checkpoint and start no other. Default false."
    )
    verifier: VerifierSource = Field(description="The model whose own MTP head is tuned.")
    dataset: TrainingDataset = Field(description="What the head trains on.")
    training: Training = Field(default_factory=Training, description="The recipe.")
    evaluation: Evaluation = Field(description="How the result is measured, and when it is good enough.")
    engine: StageEngine = Field(default_factory=StageEngine, description="The vLLM that stages start for themselves.")
    pods: FineTunePods = Field(default_factory=FineTunePods, description="Pods of all stages.")
    nodes: int = Field(
        default=1, ge=1, le=64, description="Pods of the Train stage. Default 1; more train together by torchrun."
    )
    workspace: WorkspaceSpec = Field(description="The volume that all stages share.")
    failure_policy: FailurePolicy = Field(default_factory=FailurePolicy, description="What a failing pod costs.")
    active_deadline_seconds: int | None = Field(
        default=None,
        ge=1,
        le=31536000,
        description="Longest time that a stage's pods may run, not counting queues. Default: no limit.",
    )
    output: Output = Field(description="Where the result goes.")
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=315360000,
        description="Delete the Jobs and a workspace that the run owns this long after its end. Default: with the "
        "object, which itself is never deleted.",
    )
