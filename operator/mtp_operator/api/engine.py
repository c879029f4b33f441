"""vLLM's settings, and which of its arguments a manifest may not repeat.

``args`` is open, since vLLM has hundreds of options and gains more with each release. What a field of the API already
says is refused there: two places that disagree would be found by nobody.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from mtp_operator.api.common import Model, map_list
from mtp_operator.api.pods import EnvVar, Image, PullPolicy, Resources, ShortText
from mtp_operator.api.rules import Rule

Argument = Annotated[str, Field(max_length=1024)]


def refused_arguments(flags: tuple[str, ...], remedy: str) -> Rule:
    """None of these options is in ``args``, with or without ``=value``, with dashes or underscores."""
    quoted = ", ".join(f"'{flag}'" for flag in flags)
    return Rule(
        f"!has(self.args) || self.args.all(a, !(a.split('=', 2)[0].split('.', 2)[0].replace('_', '-') in [{quoted}]))",
        f"engine.args may not have {' or '.join(flags)}: {remedy}",
        lambda engine: all(option_name(argument) not in flags for argument in engine.args),
    )


def option_name(argument: str) -> str:
    """``--speculative_config.method=mtp`` to ``--speculative-config``, as vLLM's parser reads it."""
    return argument.split("=", 1)[0].split(".", 1)[0].replace("_", "-")


SPECULATIVE = refused_arguments(
    ("--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens"),
    "write spec.speculative, from which the operator makes the only speculative configuration",
)
ADDRESS = refused_arguments(
    ("--host", "--port", "--uds"), "the operator sets the address; for clients, write spec.router.service.port"
)
PIPELINE = refused_arguments(
    ("--pipeline-parallel-size", "-pp"),
    "vLLM doesn't draft with an MTP head under pipeline parallelism; write engine.tensorParallelSize instead",
)
ONE_API_SERVER = refused_arguments(
    ("--api-server-count",),
    "with several API servers a pod drops its streams when it stops; write spec.replicas instead",
)
LOG_STATS = refused_arguments(
    ("--disable-log-stats",),
    "it removes the counters that acceptance is measured from; leave it out",
)
SLEEP = Rule(
    "!has(self.args) || !self.args.exists(a, a.split('=', 2)[0].replace('_', '-') == '--enable-sleep-mode')"
    " || self.args.exists(a, a.contains('draft.'))",
    "engine.args has --enable-sleep-mode: waking from sleep level 2 reloads the model but not its drafter; add "
    "--sleep-preserve-parameter-names 'draft.*', or leave it out and scale replicas to 0 instead",
    lambda engine: (
        not any(option_name(a) == "--enable-sleep-mode" for a in engine.args) or any("draft." in a for a in engine.args)
    ),
)
MODEL = refused_arguments(("--model", "--revision"), "write spec.model.uri and spec.model.revision")
SERVED_NAME = refused_arguments(("--served-model-name",), "write spec.servedModelName")
MODEL_LENGTH = refused_arguments(("--max-model-len",), "write spec.engine.maxModelLen")
SHUTDOWN = refused_arguments(("--shutdown-timeout",), "write spec.engine.shutdownTimeoutSeconds")
TENSOR_PARALLEL = refused_arguments(("--tensor-parallel-size", "-tp"), "write spec.engine.tensorParallelSize")
STAGE_MODEL = refused_arguments(("--model", "--revision"), "write spec.verifier.uri and spec.verifier.revision")
STAGE_SERVED_NAME = refused_arguments(("--served-model-name",), "the stage names its own models; leave it out")
STAGE_SPECULATIVE = refused_arguments(
    ("--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens"),
    "write spec.evaluation.numSpeculativeTokens and spec.evaluation.draftSampling",
)
STAGE_ADDRESS = refused_arguments(("--host", "--port", "--uds"), "the stage chooses the address; leave it out")
STAGE_PIPELINE = refused_arguments(
    ("--pipeline-parallel-size", "-pp"),
    "vLLM doesn't draft with an MTP head under pipeline parallelism; the stage uses pods.gpus for tensor parallelism",
)
STAGE_TENSOR_PARALLEL = refused_arguments(
    ("--tensor-parallel-size", "-tp"), "write spec.pods.gpus; the stage's vLLM splits the model over them"
)
TENSOR_PARALLEL_FITS = Rule(
    "!has(self.tensorParallelSize) || self.gpus == 0 || self.tensorParallelSize <= self.gpus",
    "engine.tensorParallelSize is larger than engine.gpus; raise engine.gpus, which counts the GPUs of one pod",
    lambda engine: (
        engine.tensor_parallel_size is None or engine.gpus == 0 or engine.tensor_parallel_size <= engine.gpus
    ),
)


def _arguments(description: str) -> Any:
    return Field(
        default=[], max_length=64, description=description, json_schema_extra={"x-kubernetes-list-type": "atomic"}
    )


class StageEngine(Model):
    """The vLLM that Prepare starts to regenerate responses, and Evaluate to measure heads."""

    rules: ClassVar[tuple[Rule, ...]] = (
        STAGE_MODEL,
        STAGE_SERVED_NAME,
        STAGE_SPECULATIVE,
        STAGE_ADDRESS,
        STAGE_PIPELINE,
        STAGE_TENSOR_PARALLEL,
        MODEL_LENGTH,
        ONE_API_SERVER,
        LOG_STATS,
    )

    args: list[Argument] = _arguments("More vLLM arguments, such as --enforce-eager. Default: none.")
    max_model_len: int | None = Field(
        default=None, ge=16, description="Longest context, in tokens. Default: what the data and maxTokens need."
    )
    concurrency: int = Field(default=8, ge=1, le=4096, description="Requests in flight. Default 8.")
    request_timeout_seconds: int = Field(
        default=600, ge=1, le=86400, description="Longest wait for one response. Default 600."
    )


class ServingEngine(Model):
    """The vLLM of each pod of a serving."""

    rules: ClassVar[tuple[Rule, ...]] = (
        MODEL,
        SERVED_NAME,
        SPECULATIVE,
        ADDRESS,
        PIPELINE,
        MODEL_LENGTH,
        TENSOR_PARALLEL,
        ONE_API_SERVER,
        LOG_STATS,
        SHUTDOWN,
        SLEEP,
        TENSOR_PARALLEL_FITS,
    )

    image: Image | None = Field(default=None, description="vLLM image. Default: the operator's own serving image.")
    image_pull_policy: PullPolicy | None = Field(default=None, description="Default: Kubernetes decides by the tag.")
    args: list[Argument] = _arguments(
        "More vLLM arguments, appended to the operator's. What a field says is refused here, with the field's name. "
        "Default: none."
    )
    env: list[EnvVar] = map_list("name", 64, "Environment variables of vLLM. Default: none.")
    gpus: int = Field(default=1, ge=0, le=64, description="GPUs per pod. Default 1; 0 serves on the CPU.")
    gpu_resource: ShortText = Field(
        default="nvidia.com/gpu", description="Resource name of a GPU. Default nvidia.com/gpu; ignored when gpus is 0."
    )
    tensor_parallel_size: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="GPUs that share one copy of the model. Default: gpus, or 1 when that is 0.",
    )
    max_model_len: int | None = Field(
        default=None, ge=16, description="Longest context, in tokens. Default: what the model's configuration says."
    )
    resources: Resources | None = Field(default=None, description="CPU and memory per pod. Default: none requested.")
    startup_timeout_seconds: int = Field(
        default=1800, ge=1, le=86400, description="Patience while the model loads. Default 1800."
    )
    shutdown_timeout_seconds: int = Field(
        default=60,
        ge=1,
        le=3600,
        description="How long running requests may take to finish when a pod stops. Default 60; the pod's grace period "
        "is set to cover it.",
    )
