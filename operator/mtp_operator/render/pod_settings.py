"""Which pod settings hold for a stage: ``pods.stages.<stage>`` over ``pods``, and the shape both kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.api.pods import EnvVar, Resources, Scheduling, StagePods
from mtp_operator.render.security import pod_security
from mtp_trainer.contract import Stage


@dataclass(frozen=True)
class StagePodSettings:
    """Settings of one stage's pod, after its overrides."""

    scheduling: Scheduling
    image: str | None
    image_pull_policy: str | None
    gpus: int
    gpu_resource: str
    resources: Resources | None
    env: tuple[EnvVar, ...]


def stage_pods(spec: MTPFineTuneSpec, stage: Stage) -> StagePodSettings:
    """``pods`` with the stage's overrides."""
    pods = spec.pods
    overrides = getattr(pods.stages, stage.value.lower()) if pods.stages is not None else None
    override: StagePods = overrides or StagePods()
    scheduling = Scheduling.model_validate(
        {name: _first_set(getattr(override, name), getattr(pods, name)) for name in Scheduling.model_fields}
    )
    return StagePodSettings(
        scheduling=scheduling,
        image=override.image or pods.image,
        image_pull_policy=override.image_pull_policy or pods.image_pull_policy,
        gpus=override.gpus if override.gpus is not None else _usual_gpus(spec, stage),
        gpu_resource=pods.gpu_resource,
        resources=override.resources or pods.resources,
        env=tuple({variable.name: variable for variable in [*pods.env, *override.env]}.values()),
    )


def _usual_gpus(spec: MTPFineTuneSpec, stage: Stage) -> int:
    """Copying needs no GPU, nor does preparing data whose responses are there already."""
    no_engine = stage is Stage.PUBLISH or (stage is Stage.PREPARE and spec.dataset.responses == "AsIs")
    return 0 if no_engine else spec.pods.gpus


def _first_set(override: Any, base: Any) -> Any:
    return base if override in (None, []) else override


def pod_fields(scheduling: Scheduling) -> dict[str, Any]:
    """Pod-level fields of :class:`Scheduling`. No token is mounted: pods need nothing from the API server."""
    fields: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "securityContext": pod_security(scheduling.security_context),
    }
    settings = scheduling.manifest()
    for name in (
        "nodeSelector",
        "tolerations",
        "affinity",
        "priorityClassName",
        "runtimeClassName",
        "schedulerName",
        "serviceAccountName",
        "imagePullSecrets",
    ):
        if settings.get(name):
            fields[name] = settings[name]
    return fields


def pod_metadata(scheduling: Scheduling, labels: Mapping[str, str]) -> dict[str, Any]:
    """Labels and annotations of the pod: the user's, with the operator's on top."""
    metadata: dict[str, Any] = {"labels": {**(scheduling.labels or {}), **labels}}
    if scheduling.annotations:
        metadata["annotations"] = dict(scheduling.annotations)
    return metadata


def container_resources(resources: Resources | None, gpus: int, gpu_resource: str) -> dict[str, Any]:
    """Requests and limits; GPUs are in both, as extended resources must be."""
    given = resources.manifest() if resources is not None else {}
    gpu = {gpu_resource: str(gpus)} if gpus else {}
    both = {kind: {**given.get(kind, {}), **gpu} for kind in ("requests", "limits")}
    return {kind: {name: str(amount) for name, amount in amounts.items()} for kind, amounts in both.items() if amounts}


def environment(ours: Iterable[dict[str, Any]], users: Iterable[EnvVar]) -> list[dict[str, Any]]:
    """Both, by name; the user's replaces ours."""
    merged = {variable["name"]: variable for variable in ours}
    for variable in users:
        merged[variable.name] = variable.manifest()
    return list(merged.values())


def secret_env(name: str, secret: str) -> dict[str, Any]:
    """A variable from the key of the same name of a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}}
