"""The Deployment of a serving, and the pod that runs vLLM in it.

The pod template is rendered once per change of what the user asked for, and kept in an annotation: an operator with
other defaults goes on applying the kept one, so its upgrade restarts nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtp_operator.api.serving_spec import SpecDecodeServingSpec
from mtp_operator.render import labels
from mtp_operator.render.cache_env import cache_env, cache_mounts, cache_volumes
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.job import BIND_ADDRESS, TERMINATION_LOG
from mtp_operator.render.owner import Owner, child_metadata
from mtp_operator.render.pod_settings import (
    container_resources,
    environment,
    pod_fields,
    pod_metadata,
    secret_env,
)
from mtp_operator.render.security import container_security
from mtp_operator.render.speculative import speculative_config
from mtp_operator.render.storage import Mount, volume_mounts_of, volumes_of

CONTAINER = "vllm"
HTTP_PORT = 8000
HTTP_PORT_NAME = "http"
DRAIN_SECONDS = 15
"""Time that a stopping pod goes on serving while it is taken out of the endpoints: once vLLM drains, a new request
would get an empty 200."""
TEARDOWN_SECONDS = 45
"""What vLLM needs to end after its last request (5 to 26 s were measured)."""
PROBE_SECONDS = 5


@dataclass(frozen=True)
class Location:
    """What a pod loads.

    Attributes:
        uri: where it is, for people.
        argument: what vLLM is given: a path in the container, or a hub name.
        mount: claim behind a path.
        revision: hub revision.
        digest: digest of the content, when known.
        fine_tune: run that it came from.
    """

    uri: str
    argument: str
    mount: Mount | None = None
    revision: str | None = None
    digest: str | None = None
    fine_tune: str | None = None


@dataclass(frozen=True)
class ResolvedModel:
    """The model, and the head beside it; without a head the model's own is used."""

    model: Location
    head: Location | None = None


@dataclass(frozen=True)
class Template:
    """A rendered pod template with the hashes that pin it."""

    body: dict[str, Any]
    hash: str
    inputs_hash: str

    @property
    def args(self) -> list[str]:
        """vLLM's arguments."""
        return list(self._container.get("args", []))

    @property
    def image(self) -> str:
        """Image of the engine."""
        return str(self._container.get("image", ""))

    @property
    def _container(self) -> dict[str, Any]:
        containers: list[dict[str, Any]] = self.body["spec"]["containers"]
        return containers[0]


def serving_template(
    owner: Owner, spec: SpecDecodeServingSpec, resolved: ResolvedModel, defaults: Defaults
) -> Template:
    """Render the pod template for what the user asks for now."""
    body = _template(owner, spec, resolved, defaults)
    return Template(body, digest_of(body), inputs_hash(spec, resolved))


def kept_template(annotations: Mapping[str, str], inputs: str) -> Template | None:
    """The template that a Deployment carries, if it was rendered for these inputs and is intact."""
    if annotations.get(labels.INPUTS_HASH) != inputs:
        return None
    try:
        body = json.loads(annotations.get(labels.POD_TEMPLATE, ""))
        template = Template(body, digest_of(body), inputs)
        _ = template.args, template.image, _marked(template)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None
    return template if template.hash == annotations.get(labels.TEMPLATE_HASH) else None


def inputs_hash(spec: SpecDecodeServingSpec, resolved: ResolvedModel) -> str:
    """Hash of what pods depend on.

    Fields at their default are left out, so that a field which a newer API adds changes no hash. Scaling and routing
    never restart a pod.
    """
    wanted = spec.model_dump(
        mode="json",
        by_alias=True,
        exclude_defaults=True,
        include={"served_model_name", "speculative", "engine", "pods"},
    )
    wanted["loads"] = [
        None if part is None else [part.argument, part.revision, part.digest]
        for part in (resolved.model, resolved.head)
    ]
    return digest_of(wanted)


def digest_of(value: Any) -> str:
    """Short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def serving_deployment(owner: Owner, spec: SpecDecodeServingSpec, template: Template) -> dict[str, Any]:
    """The Deployment, named like the object."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": child_metadata(
            owner,
            owner.name,
            labels.for_serving(owner.name),
            {
                labels.INPUTS_HASH: template.inputs_hash,
                labels.TEMPLATE_HASH: template.hash,
                labels.POD_TEMPLATE: json.dumps(template.body, sort_keys=True, separators=(",", ":")),
            },
        ),
        "spec": {
            "replicas": spec.replicas,
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": spec.rollout.progress_deadline_seconds,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxSurge": spec.rollout.max_surge,
                    "maxUnavailable": spec.rollout.max_unavailable,
                },
            },
            "selector": {"matchLabels": {labels.SERVING: owner.name}},
            "template": _marked(template),
        },
    }


def _marked(template: Template) -> dict[str, Any]:
    """The template whose pods say which template they are of."""
    metadata = template.body["metadata"]
    annotations = {**metadata.get("annotations", {}), labels.TEMPLATE_HASH: template.hash}
    return {**template.body, "metadata": {**metadata, "annotations": annotations}}


def _template(owner: Owner, spec: SpecDecodeServingSpec, resolved: ResolvedModel, defaults: Defaults) -> dict[str, Any]:
    engine = spec.engine
    mounts = [part.mount for part in (resolved.model, resolved.head) if part is not None and part.mount is not None]
    env: list[dict[str, Any]] = [*cache_env(), dict(BIND_ADDRESS)]
    secret = spec.model.secret_ref or (spec.head.secret_ref if spec.head else None)
    if secret is not None:
        env.append(secret_env("HF_TOKEN", secret.name))
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": engine.image or defaults.engine_image,
        "command": ["vllm", "serve"],
        "args": serving_args(owner, spec, resolved),
        "env": environment(env, engine.env),
        "ports": [{"name": HTTP_PORT_NAME, "containerPort": HTTP_PORT, "protocol": "TCP"}],
        "resources": container_resources(engine.resources, engine.gpus, engine.gpu_resource),
        "securityContext": container_security(),
        "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
        # Connections are refused until the model is loaded, so the startup probe alone decides patience; /health
        # afterwards says whether the engine process lives.
        "startupProbe": _probe(max(1, engine.startup_timeout_seconds // PROBE_SECONDS)),
        "readinessProbe": _probe(2),
        "livenessProbe": _probe(12),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*volume_mounts_of(mounts), *cache_mounts(engine.gpus)],
    }
    if engine.image_pull_policy is not None:
        container["imagePullPolicy"] = engine.image_pull_policy
    return {
        "metadata": pod_metadata(spec.pods, labels.for_serving(owner.name)),
        "spec": {
            **pod_fields(spec.pods),
            "terminationGracePeriodSeconds": DRAIN_SECONDS + engine.shutdown_timeout_seconds + TEARDOWN_SECONDS,
            "containers": [container],
            "volumes": [*volumes_of(mounts), *cache_volumes(engine.gpus)],
        },
    }


def serving_args(owner: Owner, spec: SpecDecodeServingSpec, resolved: ResolvedModel) -> list[str]:
    """Arguments of ``vllm serve``. With ``--shutdown-timeout`` 0, streams in flight would hang for ever."""
    engine, model = spec.engine, resolved.model
    args = [model.argument]
    if model.revision is not None:
        args += ["--revision", model.revision]
    args += ["--served-model-name", spec.served_model_name or owner.name]
    args += ["--host", f"$({BIND_ADDRESS['name']})", "--port", str(HTTP_PORT)]
    args += ["--tensor-parallel-size", str(engine.tensor_parallel_size or max(1, engine.gpus))]
    if engine.max_model_len is not None:
        args += ["--max-model-len", str(engine.max_model_len)]
    args += ["--shutdown-timeout", str(engine.shutdown_timeout_seconds)]
    head = resolved.head
    drafting = speculative_config(
        spec.speculative, head.argument if head is not None else None, head.revision if head is not None else None
    )
    return [*args, "--speculative-config", drafting, *engine.args]


def _probe(failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/health", "port": HTTP_PORT_NAME},
        "periodSeconds": PROBE_SECONDS,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }
