"""One look after another at a serving: pods, counters over time, and no more writes than needed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mtp_operator.api import SpecDecodeServing
from mtp_operator.kube.verbs import DEPLOYMENT, FINE_TUNE, SERVICE, SERVING
from mtp_operator.loop import AcceptanceStore, Defaults, reconcile_serving


class Engine:
    """A vLLM's /metrics, counting what the test says was drafted."""

    def __init__(self) -> None:
        self.drafts = 0
        self.accepted = [0, 0, 0]
        self.asked: list[str] = []
        self.broken = False

    def draft(self, drafts: int, *accepted: int) -> None:
        self.drafts += drafts
        self.accepted = [old + new for old, new in zip(self.accepted, accepted, strict=True)]

    async def fetch(self, url: str) -> str:
        self.asked.append(url)
        if self.broken:
            raise ConnectionError("refused")
        labels = 'engine="0",model_name="qwen"'
        lines = [
            f"vllm:spec_decode_num_drafts_total{{{labels}}} {float(self.drafts)}",
            f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {float(3 * self.drafts)}",
            f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {float(sum(self.accepted))}",
        ]
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} {float(n)}'
            for i, n in enumerate(self.accepted)
        ]
        return "\n".join(lines)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def look(verbs: Any, clock: Any, engine: Engine) -> Any:
    store = AcceptanceStore()

    async def look(defaults: Defaults | None = None, samples: AcceptanceStore = store) -> float | None:
        arguments = (verbs, "team", "qwen", clock.now, engine.fetch, samples)
        return await reconcile_serving(*arguments, defaults or Defaults())

    return look


def roll_out(verbs: Any) -> None:
    """What the Deployment controller and the kubelet do."""
    deployment = verbs.the(DEPLOYMENT, "qwen")
    number = deployment["metadata"]["generation"]
    template, wanted = deployment["spec"]["template"], deployment["spec"]["replicas"]
    deployment["status"] = {
        "observedGeneration": number,
        "replicas": wanted,
        "updatedReplicas": wanted,
        "availableReplicas": wanted,
        "readyReplicas": wanted,
    }
    for key in [key for key in verbs.objects if key[0] == "pods"]:
        del verbs.objects[key]
    verbs.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"qwen-{number}", "namespace": "team", **template["metadata"]},
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.8",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "vllm", "state": {"running": {"startedAt": "2026-11-30T12:00:00Z"}}}],
            },
        }
    )


def condition(verbs: Any, kind: str) -> dict[str, Any]:
    found = [c for c in verbs.the(SERVING, "qwen")["status"]["conditions"] if c["type"] == kind]
    return found[0] if found else {"status": None, "reason": None}


async def test_the_first_look_makes_deployment_and_service(look: Any, verbs: Any, serving: Any) -> None:
    await look()
    assert verbs.names(DEPLOYMENT) == verbs.names(SERVICE) == ["qwen"]
    status = verbs.the(SERVING, "qwen")["status"]
    assert status["url"] == "http://qwen.team.svc:8000"
    assert status["selector"] == "specdecode.dev/serving=qwen"
    assert condition(verbs, "Reconciling")["status"] == "True"


async def test_ready_pods_make_it_ready(look: Any, verbs: Any, serving: Any) -> None:
    await look()
    roll_out(verbs)
    assert await look() == 60
    assert condition(verbs, "Ready")["status"] == "True"
    assert condition(verbs, "Reconciling")["status"] is None
    assert condition(verbs, "AcceptanceMeasured")["reason"] == "NoTraffic"


async def test_acceptance_is_what_was_counted_between_two_readings(
    look: Any, verbs: Any, clock: Any, engine: Engine, serving: Any
) -> None:
    engine.draft(5000, 1000, 0, 0)  # before this operator looked
    await look()
    roll_out(verbs)
    await look()
    engine.draft(1000, 900, 700, 500)
    clock.pass_seconds(60)
    await look()
    acceptance = verbs.the(SERVING, "qwen")["status"]["acceptance"]
    assert acceptance["summary"] == "0.900/0.700/0.500"
    assert acceptance["meanAcceptanceLength"] == "3.100"
    assert acceptance["drafts"] == 1000
    assert condition(verbs, "AcceptanceHealthy")["status"] == "True"
    assert SpecDecodeServing.model_validate(verbs.the(SERVING, "qwen")).status.acceptance is not None


async def test_counters_are_read_once_per_interval(
    look: Any, verbs: Any, clock: Any, engine: Engine, serving: Any
) -> None:
    await look()
    roll_out(verbs)
    await look()
    clock.pass_seconds(20)
    assert await look() == 40
    assert engine.asked == ["http://10.0.0.8:8000/metrics"]


async def test_traffic_alone_doesnt_write_the_status(
    look: Any, verbs: Any, clock: Any, engine: Engine, serving: Any
) -> None:
    await look()
    roll_out(verbs)
    await look()
    for _ in range(3):
        engine.draft(1000, 900, 700, 500)
        clock.pass_seconds(60)
        await look()
    writes = verbs.calls["patch_status SpecDecodeServing"]
    for _ in range(5):
        engine.draft(2000, 1800, 1400, 1000)
        clock.pass_seconds(60)
        await look()
    assert verbs.calls["patch_status SpecDecodeServing"] == writes


async def test_figures_stay_when_traffic_ends(look: Any, verbs: Any, clock: Any, engine: Engine, serving: Any) -> None:
    await look()
    roll_out(verbs)
    await look()
    engine.draft(1000, 900, 700, 500)
    for _ in range(9):
        clock.pass_seconds(60)
        await look()
    assert verbs.the(SERVING, "qwen")["status"]["acceptance"]["summary"] == "0.900/0.700/0.500"
    assert condition(verbs, "AcceptanceMeasured")["reason"] == "NoTraffic"
    assert condition(verbs, "AcceptanceHealthy")["status"] == "Unknown"


async def test_a_new_head_begins_a_new_window_and_drops_the_old_figures(
    look: Any, verbs: Any, clock: Any, engine: Engine, serving: Any
) -> None:
    await look()
    roll_out(verbs)
    await look()
    engine.draft(1000, 900, 700, 500)
    clock.pass_seconds(60)
    await look()
    verbs.the(SERVING, "qwen")["spec"]["head"]["uri"] = "pvc://heads/other"
    await look()
    assert "acceptance" not in verbs.the(SERVING, "qwen")["status"]
    assert condition(verbs, "Ready")["status"] == "False"
    roll_out(verbs)
    engine.draft(1000, 100, 0, 0)
    clock.pass_seconds(60)
    await look()
    assert condition(verbs, "AcceptanceMeasured")["reason"] == "NoTraffic"


async def test_an_operator_with_other_defaults_changes_no_pod(look: Any, verbs: Any, serving: Any) -> None:
    await look()
    roll_out(verbs)
    await look()
    before = copy.deepcopy(verbs.the(DEPLOYMENT, "qwen"))
    status = copy.deepcopy(verbs.the(SERVING, "qwen")["status"])
    await look(Defaults(engine_image="vllm/vllm-openai:v9", operator_version="9"))
    assert verbs.the(DEPLOYMENT, "qwen") == before
    assert verbs.the(SERVING, "qwen")["status"] == status


async def test_an_edit_by_the_user_brings_the_new_defaults(look: Any, verbs: Any, serving: Any) -> None:
    await look()
    verbs.the(SERVING, "qwen")["spec"]["engine"]["maxModelLen"] = 4096
    await look(Defaults(engine_image="vllm/vllm-openai:v9", operator_version="9"))
    container = verbs.the(DEPLOYMENT, "qwen")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "vllm/vllm-openai:v9"
    assert verbs.the(SERVING, "qwen")["status"]["resolved"]["operatorVersion"] == "9"


async def test_scaling_changes_no_template(look: Any, verbs: Any, serving: Any) -> None:
    await look()
    template = copy.deepcopy(verbs.the(DEPLOYMENT, "qwen")["spec"]["template"])
    verbs.the(SERVING, "qwen")["spec"]["replicas"] = 3
    await look(Defaults(engine_image="vllm/vllm-openai:v9"))
    assert verbs.the(DEPLOYMENT, "qwen")["spec"]["replicas"] == 3
    assert verbs.the(DEPLOYMENT, "qwen")["spec"]["template"] == template


async def test_someone_elses_deployment_is_left_alone(look: Any, verbs: Any, serving: Any) -> None:
    metadata = {"name": "qwen", "namespace": "team"}
    verbs.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"mine": True}})
    assert await look() == 30
    assert verbs.the(DEPLOYMENT, "qwen")["spec"] == {"mine": True}
    assert condition(verbs, "Stalled")["reason"] == "NameConflict"


async def test_an_unread_pod_is_said_and_asked_again(
    look: Any, verbs: Any, clock: Any, engine: Engine, serving: Any
) -> None:
    engine.broken = True
    await look()
    roll_out(verbs)
    assert await look() == 60
    assert condition(verbs, "AcceptanceMeasured")["reason"] == "ScrapeFailed"
    clock.pass_seconds(10)
    await look()
    assert condition(verbs, "AcceptanceMeasured")["reason"] == "ScrapeFailed"
    engine.broken = False
    clock.pass_seconds(50)
    await look()
    assert condition(verbs, "AcceptanceMeasured")["reason"] == "NoTraffic"


async def test_a_run_that_is_awaited_is_looked_at_again(look: Any, verbs: Any, serving: Any, fine_tune: Any) -> None:
    spec = verbs.the(SERVING, "qwen")["spec"]
    spec["head"] = {"fineTuneRef": {"name": "gsm"}}
    assert await look() == 30
    assert condition(verbs, "ModelResolved")["reason"] == "ModelPending"
    assert condition(verbs, "Stalled")["status"] is None
    assert verbs.names(DEPLOYMENT) == []


async def test_the_head_of_a_finished_run_is_served(look: Any, verbs: Any, serving: Any, fine_tune: Any) -> None:
    verbs.the(FINE_TUNE, "gsm")["status"] = {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Succeeded", "status": "True"}],
        "artifact": {"head": {"path": "pvc://heads/gsm/sha256-1", "digest": "sha256:1", "sizeBytes": 9}},
    }
    verbs.the(SERVING, "qwen")["spec"]["head"] = {"fineTuneRef": {"name": "gsm"}}
    await look()
    pod = verbs.the(DEPLOYMENT, "qwen")["spec"]["template"]["spec"]
    drafting = pod["containers"][0]["args"][pod["containers"][0]["args"].index("--speculative-config") + 1]
    assert '"model":"/mnt/mtp/claims/heads/gsm/sha256-1"' in drafting
    assert {volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"][:2]} == {"models", "heads"}
    assert verbs.the(SERVING, "qwen")["status"]["resolved"]["head"] == {
        "uri": "pvc://heads/gsm/sha256-1",
        "digest": "sha256:1",
        "fineTune": "gsm",
    }


async def test_a_deleted_run_leaves_its_servings_pods_alone(
    look: Any, verbs: Any, serving: Any, fine_tune: Any
) -> None:
    await test_the_head_of_a_finished_run_is_served(look, verbs, serving, fine_tune)
    roll_out(verbs)
    await look()
    before = copy.deepcopy(verbs.the(DEPLOYMENT, "qwen"))
    del verbs.objects["mtpfinetunes", "team", "gsm"]
    await look()
    assert verbs.the(DEPLOYMENT, "qwen") == before
    assert condition(verbs, "Ready")["status"] == "True"
    assert condition(verbs, "ModelResolved")["reason"] == "ModelNotFound"
