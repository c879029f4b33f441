"""The objects of a serving, against golden files and against rules that hold for every manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mtp_operator.api.serving_spec import SpecDecodeServingSpec, Speculative
from mtp_operator.reconcile.serving_model import location
from mtp_operator.render import labels
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.deployment import (
    ResolvedModel,
    inputs_hash,
    kept_template,
    serving_deployment,
    serving_template,
)
from mtp_operator.render.owner import Owner
from mtp_operator.render.service import serving_service
from mtp_operator.render.speculative import speculative_config

OWNER = Owner(kind="SpecDecodeServing", namespace="team", name="qwen", uid="9f8e")
DEFAULTS = Defaults(trainer_image="trainer:test", engine_image="engine:test", operator_version="test")
PVC = ResolvedModel(location("pvc://models/qwen"), location("pvc://heads/gsm/sha256-1", digest="sha256:1"))
HUB = ResolvedModel(location("hf://Qwen/Qwen3.5-9B", "abc"))
MINIMAL: dict[str, Any] = {"model": {"uri": "pvc://models/qwen"}, "head": {"uri": "pvc://heads/gsm/sha256-1"}}
FULL: dict[str, Any] = {
    "model": {"uri": "hf://Qwen/Qwen3.5-9B", "revision": "abc", "secretRef": {"name": "hf"}},
    "servedModelName": "qwen-9b",
    "speculative": {
        "numSpeculativeTokens": 4,
        "draftSampling": "Probabilistic",
        "perBatchSize": [{"upTo": 8, "tokens": 4}, {"upTo": 64, "tokens": 1}, {"upTo": 256, "tokens": 0}],
    },
    "engine": {
        "image": "registry.example/vllm:1",
        "imagePullPolicy": "Always",
        "args": ["--enforce-eager"],
        "gpus": 2,
        "maxModelLen": 8192,
        "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"}],
        "resources": {"limits": {"memory": "64Gi"}},
        "startupTimeoutSeconds": 600,
        "shutdownTimeoutSeconds": 120,
    },
    "replicas": 2,
    "rollout": {"maxSurge": "25%", "maxUnavailable": 0, "progressDeadlineSeconds": 900},
    "router": {"service": {"port": 80}},
    "pods": {"nodeSelector": {"gpu": "h200"}, "annotations": {"note": "a"}},
}


def spec_of(manifest: dict[str, Any]) -> SpecDecodeServingSpec:
    return SpecDecodeServingSpec.model_validate(manifest)


def deployment(manifest: dict[str, Any], resolved: ResolvedModel, defaults: Defaults = DEFAULTS) -> dict[str, Any]:
    spec = spec_of(manifest)
    return serving_deployment(OWNER, spec, serving_template(OWNER, spec, resolved, defaults))


@pytest.mark.parametrize(("name", "manifest", "resolved"), [("minimal", MINIMAL, PVC), ("full", FULL, HUB)])
def test_a_serving_renders_as_its_golden_file(
    golden: Callable[[str, Any], None], name: str, manifest: dict[str, Any], resolved: ResolvedModel
) -> None:
    golden(
        f"serving-{name}",
        {"deployment": deployment(manifest, resolved), "service": serving_service(OWNER, spec_of(manifest))},
    )


@pytest.mark.parametrize(("manifest", "resolved"), [(MINIMAL, PVC), (FULL, HUB)], ids=["minimal", "full"])
def test_kubernetes_knows_every_field_of_a_serving(
    kubernetes_knows: Callable[[dict[str, Any]], None], manifest: dict[str, Any], resolved: ResolvedModel
) -> None:
    kubernetes_knows(deployment(manifest, resolved))
    kubernetes_knows(serving_service(OWNER, spec_of(manifest)))


@pytest.mark.parametrize(
    ("spec", "head", "expected"),
    [
        ({}, None, {"method": "mtp", "num_speculative_tokens": 3}),
        ({}, "/heads/a", {"method": "mtp", "num_speculative_tokens": 3, "model": "/heads/a"}),
        (
            {"draftSampling": "Probabilistic"},
            None,
            {"method": "mtp", "num_speculative_tokens": 3, "draft_sample_method": "probabilistic"},
        ),
        (
            {"perBatchSize": [{"upTo": 8, "tokens": 3}, {"upTo": 64, "tokens": 0}]},
            None,
            {
                "method": "mtp",
                "num_speculative_tokens": 3,
                "num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 64, 0]],
            },
        ),
    ],
    ids=["own-head", "head-beside", "probabilistic", "by-batch-size"],
)
def test_the_speculative_configuration(spec: dict[str, Any], head: str | None, expected: dict[str, Any]) -> None:
    assert json.loads(speculative_config(Speculative.model_validate(spec), head)) == expected


def test_a_depth_that_is_not_resolved_is_refused() -> None:
    with pytest.raises(ValueError, match="Auto"):
        speculative_config(Speculative.model_validate({"numSpeculativeTokens": "Auto"}), None)


def test_a_stopping_pod_has_time_to_drain() -> None:
    pod = deployment(FULL, HUB)["spec"]["template"]["spec"]
    args = pod["containers"][0]["args"]
    drain = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    shutdown = int(args[args.index("--shutdown-timeout") + 1])
    assert shutdown > 0
    assert pod["terminationGracePeriodSeconds"] >= drain + shutdown + 30


def test_loading_for_long_is_no_reason_to_kill() -> None:
    probes = deployment(FULL, HUB)["spec"]["template"]["spec"]["containers"][0]
    assert probes["startupProbe"]["periodSeconds"] * probes["startupProbe"]["failureThreshold"] == 600
    assert "initialDelaySeconds" not in probes["livenessProbe"]


def test_pods_keep_to_the_restricted_standard() -> None:
    pod = deployment(FULL, HUB)["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["automountServiceAccountToken"] is False


def test_pods_carry_the_hash_of_their_template() -> None:
    rendered = deployment(MINIMAL, PVC)
    template_hash = rendered["metadata"]["annotations"][labels.TEMPLATE_HASH]
    assert rendered["spec"]["template"]["metadata"]["annotations"][labels.TEMPLATE_HASH] == template_hash


def test_the_kept_template_is_what_another_operator_applies() -> None:
    old = deployment(MINIMAL, PVC)
    kept = kept_template(old["metadata"]["annotations"], inputs_hash(spec_of(MINIMAL), PVC))
    assert kept is not None
    assert serving_deployment(OWNER, spec_of(MINIMAL), kept) == old
    assert deployment(MINIMAL, PVC, Defaults(engine_image="engine:next")) != old


@pytest.mark.parametrize(
    "edit",
    [
        {labels.INPUTS_HASH: "other"},
        {labels.TEMPLATE_HASH: "other"},
        {labels.POD_TEMPLATE: "{"},
        {labels.POD_TEMPLATE: "[]"},
        {labels.POD_TEMPLATE: '{"spec": {"containers": []}}'},
    ],
)
def test_a_kept_template_that_was_touched_is_not_used(edit: dict[str, str]) -> None:
    annotations = deployment(MINIMAL, PVC)["metadata"]["annotations"] | edit
    assert kept_template(annotations, inputs_hash(spec_of(MINIMAL), PVC)) is None


@pytest.mark.parametrize(
    ("edit", "same"),
    [
        ({"replicas": 5}, True),
        ({"acceptance": {"minDrafts": 7}}, True),
        ({"router": {"service": {"port": 80}}}, True),
        ({"servedModelName": "other"}, False),
        ({"speculative": {"numSpeculativeTokens": 2}}, False),
        ({"engine": {"args": ["--enforce-eager"]}}, False),
        ({"pods": {"nodeSelector": {"a": "b"}}}, False),
    ],
)
def test_only_what_pods_depend_on_changes_their_inputs(edit: dict[str, Any], same: bool) -> None:
    assert (inputs_hash(spec_of(MINIMAL), PVC) == inputs_hash(spec_of(MINIMAL | edit), PVC)) is same


def test_a_default_that_is_written_out_is_no_change() -> None:
    explicit = MINIMAL | {"engine": {"gpus": 1}, "speculative": {"method": "mtp", "numSpeculativeTokens": 3}}
    assert inputs_hash(spec_of(MINIMAL), PVC) == inputs_hash(spec_of(explicit), PVC)
