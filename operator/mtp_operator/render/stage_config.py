"""From ``MTPFineTune.spec`` to the configuration file of each stage.

Decimal strings of the API become numbers here. Paths are the container's.
"""

from __future__ import annotations

from pathlib import Path

from mtp_operator.api.fine_tune_spec import DatasetSource, MTPFineTuneSpec, VerifierSource
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.owner import Owner
from mtp_operator.render.pod_settings import stage_pods
from mtp_operator.render.storage import WORKSPACE_MOUNT, is_claim_uri, mounted_path, workspace_folder
from mtp_trainer.contract import (
    DatasetConfig,
    EngineConfig,
    EvaluateConfig,
    EvaluationSets,
    GateConfig,
    GeneralGateConfig,
    OutputConfig,
    PrepareConfig,
    PublishConfig,
    SamplingConfig,
    SourceConfig,
    Stage,
    StepWeights,
    TrainConfig,
    TrainingConfig,
)

PROGRESS_PORT = 8090
"""Where the Train stage serves ``/progress`` (JSON) and ``/metrics`` (Prometheus)."""

StageConfig = PrepareConfig | TrainConfig | EvaluateConfig | PublishConfig


def stage_config(owner: Owner, spec: MTPFineTuneSpec, stage: Stage, defaults: Defaults) -> StageConfig:
    """The configuration of one stage."""
    workspace = workspace_path(owner)
    match stage:
        case Stage.PREPARE:
            return _prepare(workspace, spec)
        case Stage.TRAIN:
            return _train(workspace, spec)
        case Stage.EVALUATE:
            return _evaluate(workspace, spec)
        case Stage.PUBLISH:
            return _publish(workspace, owner, spec, defaults)


def workspace_path(owner: Owner) -> Path:
    """The run's folder, as its pods see it."""
    return Path(WORKSPACE_MOUNT, workspace_folder(owner.name, owner.uid))


def _prepare(workspace: Path, spec: MTPFineTuneSpec) -> PrepareConfig:
    general = spec.evaluation.gate.general
    return PrepareConfig(
        workspace=workspace,
        verifier=_source(spec.verifier),
        dataset=_dataset(spec.dataset),
        evaluation=EvaluationSets(
            domain=_dataset(spec.evaluation.dataset), general=_dataset(general.dataset) if general else None
        ),
        responses=spec.dataset.responses,
        sampling=SamplingConfig(
            temperature=float(spec.dataset.sampling.temperature), max_tokens=spec.dataset.sampling.max_tokens
        ),
        validation_fraction=float(spec.dataset.validation_fraction),
        sequence_length=spec.training.sequence_length,
        steps=spec.training.steps,
        seed=spec.training.seed,
        trust_remote_code=spec.verifier.trust_remote_code,
        engine=_engine(spec, Stage.PREPARE),
    )


def _train(workspace: Path, spec: MTPFineTuneSpec) -> TrainConfig:
    recipe = spec.training
    return TrainConfig(
        workspace=workspace,
        verifier=_source(spec.verifier),
        training=TrainingConfig(
            steps=recipe.steps,
            objective=recipe.objective,
            kv_context=recipe.kv_context,
            step_weights=StepWeights(kind=recipe.step_weights.kind, beta=float(recipe.step_weights.beta)),
            top_k=recipe.top_k,
            epochs=recipe.epochs,
            learning_rate=float(recipe.learning_rate),
            warmup_fraction=float(recipe.warmup_fraction),
            weight_decay=float(recipe.weight_decay),
            max_grad_norm=float(recipe.max_grad_norm),
            rows_per_batch=recipe.rows_per_batch,
            max_steps=recipe.max_steps,
            hidden_states=recipe.hidden_states,
            checkpoint_every_steps=recipe.checkpoint_every_steps,
            validate_every_steps=recipe.validate_every_steps,
            seed=recipe.seed,
        ),
        draft_sampling=spec.evaluation.draft_sampling,
        temperature=float(spec.evaluation.temperature),
        # The overlay is what Evaluate measures; the whole checkpoint, as large as the verifier, only on request.
        contents=("Head", "StitchedCheckpoint") if "StitchedCheckpoint" in spec.output.contents else ("Head",),
        progress_port=PROGRESS_PORT,
        trust_remote_code=spec.verifier.trust_remote_code,
    )


def _evaluate(workspace: Path, spec: MTPFineTuneSpec) -> EvaluateConfig:
    evaluation = spec.evaluation
    return EvaluateConfig(
        workspace=workspace,
        verifier=_source(spec.verifier),
        num_speculative_tokens=evaluation.num_speculative_tokens,
        draft_sampling=evaluation.draft_sampling,
        temperature=float(evaluation.temperature),
        max_tokens=evaluation.max_tokens,
        gate=_gate(spec),
        seed=spec.training.seed,
        trust_remote_code=spec.verifier.trust_remote_code,
        engine=_engine(spec, Stage.EVALUATE),
    )


def _publish(workspace: Path, owner: Owner, spec: MTPFineTuneSpec, defaults: Defaults) -> PublishConfig:
    if spec.output.path is None:
        raise ValueError("output.path is not set; publishing writes to pvc://CLAIM/PATH")
    return PublishConfig(
        workspace=workspace,
        verifier=_source(spec.verifier),
        output=OutputConfig(
            path=Path(mounted_path(spec.output.path)),
            tags=tuple(spec.output.tags),
            contents=tuple(spec.output.contents),
        ),
        on_gate_failure=spec.evaluation.gate.on_failure,
        run=f"{owner.namespace}/{owner.name}",
        operator_version=defaults.operator_version,
    )


def _gate(spec: MTPFineTuneSpec) -> GateConfig:
    gate = spec.evaluation.gate
    return GateConfig(
        min_improvement=float(gate.min_improvement),
        min_mean_acceptance_length=_number(gate.min_mean_acceptance_length),
        min_drafts=gate.min_drafts,
        min_position_zero_change=float(gate.min_position_zero_change),
        min_throughput_ratio=_number(gate.min_throughput_ratio),
        general=GeneralGateConfig(max_drop=float(gate.general.max_drop)) if gate.general else None,
        output_parity=gate.output_parity,
        on_failure=gate.on_failure,
    )


def _engine(spec: MTPFineTuneSpec, stage: Stage) -> EngineConfig:
    return EngineConfig(
        startup_timeout_seconds=spec.failure_policy.startup_timeout_seconds,
        request_timeout_seconds=spec.engine.request_timeout_seconds,
        concurrency=spec.engine.concurrency,
        max_model_len=spec.engine.max_model_len,
        gpus=stage_pods(spec, stage).gpus,
        args=tuple(spec.engine.args),
    )


def _source(source: VerifierSource | DatasetSource) -> SourceConfig:
    path = Path(mounted_path(source.uri)) if is_claim_uri(source.uri) else None
    return SourceConfig(uri=source.uri, path=path, revision=source.revision)


def _dataset(source: DatasetSource) -> DatasetConfig:
    return DatasetConfig(
        source=_source(source), subset=source.subset, split=source.split, max_samples=source.max_samples
    )


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
