"""The objects of a run, against golden files and against rules that hold for every manifest."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.render.claim import workspace_claim
from mtp_operator.render.config_map import stage_config_map
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.job import stage_job
from mtp_operator.render.owner import Owner
from mtp_operator.render.pod_settings import stage_pods
from mtp_trainer.contract import EvaluateConfig, PrepareConfig, PublishConfig, Stage, TrainConfig

OWNER = Owner(
    kind="MTPFineTune",
    namespace="team",
    name="gsm",
    uid="0a1b2c3d-4e5f",
    labels={"kueue.x-k8s.io/queue-name": "gpu", "app.kubernetes.io/instance": "argo", "team": "x"},
)
DEFAULTS = Defaults(trainer_image="trainer:test", engine_image="engine:test", operator_version="test")
MINIMAL: dict[str, Any] = {
    "verifier": {"uri": "pvc://models/qwen"},
    "dataset": {"uri": "pvc://data/train.jsonl"},
    "evaluation": {"dataset": {"uri": "pvc://data/test.jsonl"}},
    "workspace": {"claimName": "ws"},
    "output": {"path": "pvc://heads/gsm"},
}
FULL: dict[str, Any] = {
    "verifier": {"uri": "hf://Qwen/Qwen3.5-9B", "revision": "abc", "secretRef": {"name": "hf"}},
    "dataset": {
        "uri": "hf://openai/gsm8k",
        "subset": "main",
        "split": "train",
        "maxSamples": 5000,
        "sampling": {"temperature": "0.7", "maxTokens": 512},
        "validationFraction": "0.1",
    },
    "training": {
        "steps": 4,
        "objective": "LK",
        "kvContext": "SameDepth",
        "stepWeights": {"kind": "Survival"},
        "topK": 64,
        "learningRate": "5e-5",
        "sequenceLength": 4096,
        "maxSteps": 100,
    },
    "evaluation": {
        "dataset": {"uri": "hf://openai/gsm8k", "split": "test", "maxSamples": 500},
        "numSpeculativeTokens": 4,
        "draftSampling": "Probabilistic",
        "temperature": "1.0",
        "gate": {
            "minMeanAcceptanceLength": "2.8",
            "minThroughputRatio": "1.0",
            "general": {"dataset": {"uri": "pvc://data/general.jsonl"}, "maxDrop": "0.1"},
            "onFailure": "Warn",
        },
    },
    "engine": {"args": ["--enforce-eager"], "maxModelLen": 4096, "concurrency": 16},
    "pods": {
        "image": "registry.example/trainer:1",
        "gpus": 2,
        "resources": {"requests": {"cpu": 4, "memory": "32Gi"}},
        "nodeSelector": {"gpu": "h200"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "pull"}],
        "securityContext": {"fsGroup": 2000},
        "labels": {"cost": "42", "specdecode.dev/run": "forged"},
        "annotations": {"note": "a"},
        "env": [{"name": "A", "value": "pods"}, {"name": "HF_HOME", "value": "/mnt/mtp/workspace/hub"}],
        "stages": {
            "train": {
                "gpus": 4,
                "env": [{"name": "A", "value": "train"}],
                "resources": {"limits": {"memory": "64Gi"}},
                "nodeSelector": {"gpu": "b200"},
            }
        },
    },
    "workspace": {"storage": "200Gi", "storageClassName": "fast"},
    "failurePolicy": {"maxRetries": 1, "startupTimeoutSeconds": 600},
    "output": {"path": "pvc://heads/gsm", "tags": ["r7"], "contents": ["Head", "StitchedCheckpoint"]},
}
KINDS = {
    Stage.PREPARE: PrepareConfig,
    Stage.TRAIN: TrainConfig,
    Stage.EVALUATE: EvaluateConfig,
    Stage.PUBLISH: PublishConfig,
}


def spec_of(manifest: dict[str, Any]) -> MTPFineTuneSpec:
    return MTPFineTuneSpec.model_validate(manifest)


def job(manifest: dict[str, Any], stage: Stage) -> dict[str, Any]:
    return stage_job(OWNER, spec_of(manifest), stage, DEFAULTS)


def container(manifest: dict[str, Any], stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = job(manifest, stage)["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize(("name", "manifest"), [("minimal", MINIMAL), ("full", FULL)])
def test_a_stage_renders_as_its_golden_file(
    golden: Callable[[str, Any], None], name: str, manifest: dict[str, Any], stage: Stage
) -> None:
    config_map = stage_config_map(OWNER, spec_of(manifest), stage, DEFAULTS)
    golden(f"fine-tune-{name}-{stage.value.lower()}", {"configMap": config_map, "job": job(manifest, stage)})


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("manifest", [MINIMAL, FULL], ids=["minimal", "full"])
def test_kubernetes_knows_every_field_of_a_stage(
    kubernetes_knows: Callable[[dict[str, Any]], None], manifest: dict[str, Any], stage: Stage
) -> None:
    kubernetes_knows(job(manifest, stage))
    kubernetes_knows(stage_config_map(OWNER, spec_of(manifest), stage, DEFAULTS))


def test_kubernetes_knows_every_field_of_the_claim(kubernetes_knows: Callable[[dict[str, Any]], None]) -> None:
    claim = workspace_claim(OWNER, spec_of(FULL).workspace)
    assert claim is not None
    kubernetes_knows(claim)


def test_a_workspace_of_its_own_renders_as_its_golden_file(golden: Callable[[str, Any], None]) -> None:
    golden("fine-tune-full-claim", workspace_claim(OWNER, spec_of(FULL).workspace))


def test_a_workspace_that_the_user_brings_is_not_created() -> None:
    assert workspace_claim(OWNER, spec_of(MINIMAL).workspace) is None


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("manifest", [MINIMAL, FULL], ids=["minimal", "full"])
def test_the_trainer_reads_the_rendered_configuration(manifest: dict[str, Any], stage: Stage) -> None:
    text = stage_config_map(OWNER, spec_of(manifest), stage, DEFAULTS)["data"]["stage.json"]
    assert KINDS[stage].model_validate(json.loads(text)).workspace.name == "gsm-0a1b2c3d"


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("manifest", [MINIMAL, FULL], ids=["minimal", "full"])
def test_every_mount_has_its_volume_and_every_claim_one_volume(manifest: dict[str, Any], stage: Stage) -> None:
    pod = job(manifest, stage)["spec"]["template"]["spec"]
    volumes = [volume["name"] for volume in pod["volumes"]]
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == set(volumes)
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v]
    assert len(claims) == len(set(claims))
    assert len(volumes) == len(set(volumes))


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("manifest", [MINIMAL, FULL], ids=["minimal", "full"])
def test_pods_keep_to_the_restricted_standard(manifest: dict[str, Any], stage: Stage) -> None:
    pod = job(manifest, stage)["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "runAsUser" not in pod["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


@pytest.mark.parametrize("stage", Stage)
def test_only_queueing_labels_are_copied_and_only_to_the_job(stage: Stage) -> None:
    rendered = job(MINIMAL, stage)
    labels = rendered["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "gpu"
    assert not {"app.kubernetes.io/instance", "team"} & labels.keys()
    assert rendered["spec"]["template"]["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "mtp-operator",
        "specdecode.dev/run": "gsm",
        "specdecode.dev/stage": stage.value.lower(),
    }


def test_the_operators_labels_win_over_the_users() -> None:
    labels = job(FULL, Stage.TRAIN)["spec"]["template"]["metadata"]["labels"]
    assert (labels["cost"], labels["specdecode.dev/run"]) == ("42", "gsm")


def test_children_are_controlled_but_dont_block_the_owners_deletion() -> None:
    assert job(MINIMAL, Stage.TRAIN)["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "specdecode.dev/v1alpha1",
            "kind": "MTPFineTune",
            "name": "gsm",
            "uid": "0a1b2c3d-4e5f",
            "controller": True,
        }
    ]


@pytest.mark.parametrize(
    ("manifest", "stage", "gpus"),
    [
        (MINIMAL, Stage.PREPARE, 1),
        (MINIMAL | {"dataset": {"uri": "pvc://data/a", "responses": "AsIs"}}, Stage.PREPARE, 0),
        (MINIMAL, Stage.TRAIN, 1),
        (MINIMAL, Stage.EVALUATE, 1),
        (MINIMAL, Stage.PUBLISH, 0),
        (FULL, Stage.TRAIN, 4),
        (FULL, Stage.EVALUATE, 2),
        (MINIMAL | {"pods": {"stages": {"publish": {"gpus": 1}}}}, Stage.PUBLISH, 1),
    ],
)
def test_only_stages_that_need_gpus_ask_for_them(manifest: dict[str, Any], stage: Stage, gpus: int) -> None:
    limits = container(manifest, stage)["resources"].get("limits", {})
    assert limits.get("nvidia.com/gpu", "0") == str(gpus)
    assert stage_pods(spec_of(manifest), stage).gpus == gpus


def test_a_stages_settings_replace_those_of_all_and_env_is_merged() -> None:
    train, evaluate = container(FULL, Stage.TRAIN), container(FULL, Stage.EVALUATE)
    values = {variable["name"]: variable.get("value") for variable in train["env"]}
    assert (values["A"], values["HF_HOME"]) == ("train", "/mnt/mtp/workspace/hub")
    assert train["resources"] == {
        "requests": {"nvidia.com/gpu": "4"},
        "limits": {"memory": "64Gi", "nvidia.com/gpu": "4"},
    }
    assert evaluate["resources"]["requests"] == {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "2"}
    assert job(FULL, Stage.TRAIN)["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "b200"}


def test_the_token_goes_to_the_stage_that_downloads_and_to_no_other() -> None:
    with_token = [stage for stage in Stage if "HF_TOKEN" in {v["name"] for v in container(FULL, stage)["env"]}]
    assert with_token == [Stage.PREPARE]


def test_sources_are_mounted_read_only_and_only_the_output_is_written() -> None:
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in container(MINIMAL, Stage.PUBLISH)["volumeMounts"]}
    assert mounts["/mnt/mtp/claims/models"] is True
    assert mounts["/mnt/mtp/claims/heads"] is False
    assert "/mnt/mtp/claims/data" not in mounts


def test_one_claim_for_everything_is_one_volume_mounted_where_it_is_needed() -> None:
    manifest = MINIMAL | {"verifier": {"uri": "pvc://ws/qwen"}, "output": {"path": "pvc://ws/heads"}}
    pod = job(manifest, Stage.PUBLISH)["spec"]["template"]["spec"]
    claims = [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    assert claims == [{"name": "claim-0", "persistentVolumeClaim": {"claimName": "ws"}}]
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in pod["containers"][0]["volumeMounts"]}
    assert (mounts["/mnt/mtp/workspace"], mounts["/mnt/mtp/claims/ws"]) == (False, False)


def test_exit_codes_are_what_the_pod_failure_policy_says() -> None:
    rules = job(MINIMAL, Stage.TRAIN)["spec"]["podFailurePolicy"]["rules"]
    by_code = {rule["onExitCodes"]["values"][0]: rule["action"] for rule in rules if "onExitCodes" in rule}
    assert by_code == {3: "FailJob", 75: "Ignore"}
    assert [rule["action"] for rule in rules if "onPodConditions" in rule] == ["Ignore"]
