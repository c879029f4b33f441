"""The pod settings that a user may pass through to the pods of a run or a serving.

Typed where the type is small; ``affinity``, ``valueFrom`` and spread constraints are handed to Kubernetes as they are,
which checks them when it gets the pod.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from mtp_operator.api.common import Model, NameRef, map_list
from mtp_operator.api.rules import ENV_ONE_VALUE, STAGE_VERIFIER_GPUS, VERIFIER_GPUS, Rule

_QUANTITY = r"[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i|[eE]-?[0-9]+)?"
_quantity = Rule(
    f"type(self) == int ? self >= 0 : self.matches(r'^(?:{_QUANTITY})$')",
    "write a quantity such as 200Gi, 500m or 4",
    lambda value: re.fullmatch(_QUANTITY, str(value)) is not None,
)


def _check_quantity(value: int | str) -> int | str:
    if not _quantity.holds(value):
        raise ValueError(_quantity.message)
    return value


Quantity = Annotated[
    int | str,
    AfterValidator(_check_quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            "x-kubernetes-validations": [_quantity.as_schema()],
        }
    ),
]
"""A Kubernetes quantity: ``4``, ``500m``, ``200Gi``."""

Opaque = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""A piece of a pod that Kubernetes checks itself."""

ShortText = Annotated[str, Field(max_length=253)]
Image = Annotated[str, Field(min_length=1, max_length=512)]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]


class Resources(Model):
    """CPU, memory and ephemeral storage of a container."""

    requests: dict[str, Quantity] = Field(
        default={}, max_length=16, description="What the scheduler reserves. GPUs are added from `gpus`."
    )
    limits: dict[str, Quantity] = Field(
        default={}, max_length=16, description="What the container may use at most. GPUs are added from `gpus`."
    )


class EnvVar(Model):
    """An environment variable of a container."""

    rules: ClassVar[tuple[Rule, ...]] = (ENV_ONE_VALUE,)

    name: str = Field(min_length=1, max_length=253, description="Name of the variable.")
    value: str | None = Field(default=None, max_length=4096, description="Its value; default empty.")
    value_from: Opaque | None = Field(
        default=None, description="Source of the value: a Secret's, ConfigMap's or pod's field, as in a Pod."
    )


class Toleration(Model):
    """A taint that the pods may be scheduled beside."""

    key: ShortText | None = Field(default=None, description="Taint key; default: all keys, with operator Exists.")
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="How to compare; default Equal.")
    value: ShortText | None = Field(default=None, description="Taint value; ignored with operator Exists.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; default: all effects."
    )
    toleration_seconds: int | None = Field(
        default=None,
        description="How long a NoExecute taint is tolerated; default for ever, ignored for other effects.",
    )


class Scheduling(Model):
    """Where pods run and as whom. The same for fine-tunes and servings."""

    node_selector: dict[str, ShortText] | None = Field(
        default=None, max_length=32, description="Labels that a node must have. Default: any node."
    )
    tolerations: list[Toleration] | None = Field(
        default=None, max_length=32, description="Taints that the pods tolerate. Default: none."
    )
    affinity: Opaque | None = Field(default=None, description="Affinity as in a Pod. Default: none.")
    priority_class_name: ShortText | None = Field(
        default=None, description="PriorityClass of the pods. Default: the cluster's."
    )
    runtime_class_name: ShortText | None = Field(
        default=None, description="RuntimeClass of the pods. Default: the node's."
    )
    scheduler_name: ShortText | None = Field(default=None, description="Scheduler. Default: the cluster's default one.")
    service_account_name: ShortText | None = Field(
        default=None,
        description="ServiceAccount of the pods, which needs no permission. Default: the namespace's `default`, "
        "without its token mounted.",
    )
    image_pull_secrets: list[NameRef] = map_list(
        "name", 16, "Secrets for pulling images. Default: those of the ServiceAccount."
    )
    labels: dict[str, ShortText] | None = Field(
        default=None, max_length=32, description="More labels for the pods. Those that the operator sets win."
    )
    annotations: dict[str, Annotated[str, Field(max_length=4096)]] | None = Field(
        default=None, max_length=32, description="More annotations for the pods. Those that the operator sets win."
    )
    security_context: Opaque | None = Field(
        default=None,
        description="Security context of the pods, as in a Pod. Default: runAsNonRoot, the runtime's seccomp "
        "profile; users and groups are left to the cluster.",
    )


class StagePods(Scheduling):
    """Pod settings of one stage. What is set here replaces the setting of `pods`; env is merged by name."""

    rules: ClassVar[tuple[Rule, ...]] = (STAGE_VERIFIER_GPUS,)

    image: Image | None = Field(default=None, description="Trainer image. Default: that of `pods`.")
    image_pull_policy: PullPolicy | None = Field(default=None, description="Default: that of `pods`.")
    gpus: int | None = Field(
        default=None, ge=0, le=64, description="GPUs per pod of this stage. Default: that of `pods`; 0 for Publish."
    )
    verifier_gpus: int | None = Field(
        default=None, ge=0, le=64, description="Of them, those for the stage's vLLM. Default: that of `pods`."
    )
    resources: Resources | None = Field(default=None, description="Default: those of `pods`.")
    env: list[EnvVar] = map_list("name", 64, "More variables; one of the same name replaces that of `pods`.")


class StageOverrides(Model):
    """Pod settings by stage."""

    prepare: StagePods | None = Field(default=None, description="Overrides for Prepare. Default: none.")
    train: StagePods | None = Field(default=None, description="Overrides for Train. Default: none.")
    evaluate: StagePods | None = Field(default=None, description="Overrides for Evaluate. Default: none.")
    publish: StagePods | None = Field(default=None, description="Overrides for Publish. Default: none.")


class FineTunePods(Scheduling):
    """Pod settings shared by all stages of a fine-tune."""

    rules: ClassVar[tuple[Rule, ...]] = (VERIFIER_GPUS,)

    image: Image | None = Field(default=None, description="Trainer image. Default: the operator's own.")
    image_pull_policy: PullPolicy | None = Field(default=None, description="Default: Kubernetes decides by the tag.")
    gpus: int = Field(default=1, ge=0, le=64, description="GPUs per pod. Default 1; 0 trains on the CPU.")
    verifier_gpus: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Of `gpus`, those for the vLLM that Train starts; the rest train. Default 0. Ignored unless "
        "hiddenStates is VLLM; Prepare and Evaluate give all GPUs to vLLM.",
    )
    gpu_resource: ShortText = Field(
        default="nvidia.com/gpu", description="Resource name of a GPU. Default nvidia.com/gpu; ignored when gpus is 0."
    )
    resources: Resources | None = Field(default=None, description="CPU and memory per pod. Default: none requested.")
    env: list[EnvVar] = map_list("name", 64, "Environment variables of all stages. Default: none.")
    stages: StageOverrides | None = Field(default=None, description="Settings that differ by stage. Default: none.")
