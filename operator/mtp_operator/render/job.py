"""The Job of a stage. It is created once: afterwards Kueue owns ``suspend`` and the node selector.

Retries stay inside the Job, so that a retry keeps its place in the queue.
"""

from __future__ import annotations

from typing import Any

from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.render import labels
from mtp_operator.render.cache_env import cache_env, cache_mounts, cache_volumes
from mtp_operator.render.claim import workspace_claim_name
from mtp_operator.render.config_map import CONFIG_FILE, CONFIG_MOUNT, stage_child_name
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.owner import Owner, child_metadata
from mtp_operator.render.pod_settings import (
    container_resources,
    environment,
    pod_fields,
    pod_metadata,
    secret_env,
    stage_pods,
)
from mtp_operator.render.security import container_security
from mtp_operator.render.stage_config import PROGRESS_PORT
from mtp_operator.render.storage import WORKSPACE_MOUNT, Mount, claim_mount, is_claim_uri, volume_mounts_of, volumes_of
from mtp_trainer.contract import ExitCode, Stage

CONTAINER = "trainer"
TERMINATION_LOG = "/dev/termination-log"
BIND_ADDRESS = {"name": "MTP_BIND_ADDRESS", "value": "0.0.0.0"}  # noqa: S104 -- a pod listens for its probes and scrapes
PROGRESS_PORT_NAME = "progress"

GRACE_SECONDS = {Stage.PREPARE: 60, Stage.TRAIN: 300, Stage.EVALUATE: 60, Stage.PUBLISH: 60}
"""Time between SIGTERM and SIGKILL. Train writes a checkpoint in it, to a volume that may be slow."""


def stage_job(owner: Owner, spec: MTPFineTuneSpec, stage: Stage, defaults: Defaults) -> dict[str, Any]:
    """The Job of ``stage``; its configuration is the ConfigMap of the same name."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": child_metadata(
            owner,
            stage_child_name(owner.name, stage),
            {**labels.queueing(owner.labels), **labels.for_run(owner.name, stage.value)},
        ),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": spec.failure_policy.max_retries,
            "podFailurePolicy": _pod_failure_policy(),
            # A second pod in the same workspace while the first still writes its checkpoint would corrupt both.
            "podReplacementPolicy": "Failed",
            "template": _template(owner, spec, stage, defaults),
        },
    }


def _pod_failure_policy() -> dict[str, Any]:
    """The exit codes of the contract, and that a drained node is nobody's failure."""
    return {
        "rules": [
            {
                "action": "FailJob",
                "onExitCodes": {
                    "containerName": CONTAINER,
                    "operator": "In",
                    "values": [int(ExitCode.BAD_INPUT)],
                },
            },
            {
                "action": "Ignore",
                "onExitCodes": {
                    "containerName": CONTAINER,
                    "operator": "In",
                    "values": [int(ExitCode.INTERRUPTED)],
                },
            },
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]
    }


def _template(owner: Owner, spec: MTPFineTuneSpec, stage: Stage, defaults: Defaults) -> dict[str, Any]:
    pods = stage_pods(spec, stage)
    mounts = _mounts(owner, spec, stage)
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": pods.image or defaults.trainer_image,
        "command": ["mtp-trainer"],
        "args": [stage.value.lower(), "--config", f"{CONFIG_MOUNT}/{CONFIG_FILE}"],
        "env": environment([*cache_env(), *_stage_env(spec, stage)], pods.env),
        "resources": container_resources(pods.resources, pods.gpus, pods.gpu_resource),
        "securityContext": container_security(),
        "terminationMessagePath": TERMINATION_LOG,
        # A process that died before it could say why leaves the end of its log instead.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_MOUNT, "readOnly": True},
            *volume_mounts_of(mounts),
            *cache_mounts(pods.gpus),
        ],
    }
    if pods.image_pull_policy is not None:
        container["imagePullPolicy"] = pods.image_pull_policy
    if stage is Stage.TRAIN:
        container["ports"] = [{"name": PROGRESS_PORT_NAME, "containerPort": PROGRESS_PORT}]
    return {
        "metadata": pod_metadata(pods.scheduling, labels.for_run(owner.name, stage.value)),
        "spec": {
            **pod_fields(pods.scheduling),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS[stage],
            "containers": [container],
            "volumes": [
                {"name": "config", "configMap": {"name": stage_child_name(owner.name, stage)}},
                *volumes_of(mounts),
                *cache_volumes(pods.gpus),
            ],
        },
    }


def _stage_env(spec: MTPFineTuneSpec, stage: Stage) -> list[dict[str, Any]]:
    env: list[dict[str, Any]] = [{"name": "MTP_TERMINATION_LOG", "value": TERMINATION_LOG}, dict(BIND_ADDRESS)]
    secret = hub_secret(spec)
    if stage is Stage.PREPARE and secret is not None:  # the only stage that downloads
        env.append(secret_env("HF_TOKEN", secret))
    return env


def hub_secret(spec: MTPFineTuneSpec) -> str | None:
    """The Secret with the hub's token; refusals.py makes sure that all sources name the same one."""
    general = spec.evaluation.gate.general
    secrets = [spec.verifier.secret_ref, spec.dataset.secret_ref, spec.evaluation.dataset.secret_ref]
    secrets += [general.dataset.secret_ref] if general is not None else []
    return next((secret.name for secret in secrets if secret is not None), None)


def _mounts(owner: Owner, spec: MTPFineTuneSpec, stage: Stage) -> list[Mount]:
    """The workspace, and the claims that this stage reads or writes: no more than it needs."""
    mounts = [Mount(workspace_claim_name(owner, spec.workspace), WORKSPACE_MOUNT, read_only=False)]
    sources = [spec.verifier.uri]
    if stage is Stage.PREPARE:
        general = spec.evaluation.gate.general
        sources += [spec.dataset.uri, spec.evaluation.dataset.uri, *([general.dataset.uri] if general else [])]
    mounts += [claim_mount(uri, read_only=True) for uri in sources if is_claim_uri(uri)]
    if stage is Stage.PUBLISH and spec.output.path is not None:
        mounts.append(claim_mount(spec.output.path, read_only=False))
    return mounts
