"""One look after another at a run: what is created, what is written, and that a restart at any moment does no harm."""

from __future__ import annotations

from typing import Any

import pytest

from mtp_operator.api import MTPFineTune
from mtp_operator.kube.verbs import CLAIM, CONFIG_MAP, EVENT, FINE_TUNE, JOB, POD, Conflict, KubeError, Refused
from mtp_operator.loop import reconcile_fine_tune


async def no_answer(url: str) -> str:
    raise OSError(f"{url}: connection refused")


@pytest.fixture
def look(verbs: Any, clock: Any) -> Any:
    async def look(fetch: Any = no_answer) -> float | None:
        return await reconcile_fine_tune(verbs, "team", "gsm", clock.now, fetch)

    return look


def condition(verbs: Any, kind: str) -> dict[str, Any]:
    found = [c for c in verbs.the(FINE_TUNE, "gsm")["status"]["conditions"] if c["type"] == kind]
    return found[0] if found else {"status": None, "reason": None, "message": ""}


async def run_stage(look: Any, cluster: Any, results: dict[str, Any], stage: str) -> None:
    await look()
    cluster.start_pod(f"gsm-{stage}")
    await look()
    cluster.clock.pass_seconds(40)
    cluster.end_pod(f"gsm-{stage}", results[stage])
    await look()


async def run_all(look: Any, cluster: Any, results: dict[str, Any]) -> None:
    for stage in ("prepare", "train", "evaluate", "publish"):
        await run_stage(look, cluster, results, stage)


async def test_the_first_look_writes_a_status_before_it_creates_anything(look: Any, verbs: Any, fine_tune: Any) -> None:
    verbs.refuse["create", "PersistentVolumeClaim"] = KubeError(503, "ServiceUnavailable", "later")
    with pytest.raises(KubeError):
        await look()
    assert condition(verbs, "Ready")["status"] == "Unknown"
    assert condition(verbs, "Succeeded")["status"] == "Unknown"
    assert verbs.names(JOB) == []


async def test_the_first_look_creates_claim_configuration_and_job(look: Any, verbs: Any, fine_tune: Any) -> None:
    await look()
    assert verbs.names(CLAIM) == ["gsm-workspace"]
    assert verbs.names(CONFIG_MAP) == ["gsm-prepare"]
    assert verbs.names(JOB) == ["gsm-prepare"]
    assert condition(verbs, "Ready")["reason"] == "Pending"


async def test_a_run_goes_through_all_stages_to_ready(
    look: Any, verbs: Any, cluster: Any, fine_tune: Any, results: dict[str, Any]
) -> None:
    await run_all(look, cluster, results)
    assert verbs.names(JOB) == ["gsm-evaluate", "gsm-prepare", "gsm-publish", "gsm-train"]
    status = verbs.the(FINE_TUNE, "gsm")["status"]
    states = {c["type"]: c["status"] for c in status["conditions"]}
    assert states == dict.fromkeys(
        ("Ready", "Succeeded", "Prepared", "Trained", "Evaluated", "GatePassed", "Published"), "True"
    )
    assert status["evaluation"]["tuned"]["summary"] == "0.900/0.700/0.500"
    assert status["evaluation"]["improvement"] == "0.500"
    assert status["evaluation"]["tokensPerSecondRatio"] == "1.180"
    assert status["artifact"]["head"]["path"] == "pvc://heads/gsm/sha256-1"
    assert status["completionTime"]
    assert await look() is None


async def test_every_status_on_the_way_fits_the_api(
    look: Any, verbs: Any, cluster: Any, fine_tune: Any, results: dict[str, Any]
) -> None:
    for stage in ("prepare", "train", "evaluate", "publish"):
        await run_stage(look, cluster, results, stage)
        obj = verbs.the(FINE_TUNE, "gsm")
        parsed = MTPFineTune.model_validate(obj)
        written = parsed.status.manifest()
        assert obj["status"].keys() <= written.keys()


async def test_a_look_at_an_unchanged_run_writes_nothing(look: Any, verbs: Any, cluster: Any, fine_tune: Any) -> None:
    await look()
    cluster.start_pod("gsm-prepare")
    await look()
    before = verbs.calls.copy()
    await look()
    changed = verbs.calls - before
    assert not {call for call in changed if call.split()[0] not in ("get", "list")}


async def test_a_result_outlives_its_job_and_pod(
    look: Any, verbs: Any, cluster: Any, fine_tune: Any, results: dict[str, Any]
) -> None:
    await run_stage(look, cluster, results, "prepare")
    await verbs.delete(JOB, "team", "gsm-prepare")
    await verbs.delete(POD, "team", "gsm-prepare-abcde")
    await run_stage(look, cluster, results, "train")
    await look()
    assert verbs.names(JOB) == ["gsm-evaluate", "gsm-train"]
    assert verbs.the(FINE_TUNE, "gsm")["status"]["resolved"]["family"] == "qwen3_5"


async def test_a_restart_between_the_creations_goes_on(look: Any, verbs: Any, fine_tune: Any) -> None:
    verbs.refuse["create", "Job"] = KubeError(500, "InternalError", "killed here")
    with pytest.raises(KubeError):
        await look()
    verbs.refuse.clear()
    await look()
    assert verbs.names(JOB) == ["gsm-prepare"]
    assert verbs.calls["create ConfigMap"] == 1


async def test_a_foreign_job_of_that_name_is_left_alone(look: Any, verbs: Any, fine_tune: Any) -> None:
    foreign = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "gsm-prepare", "namespace": "team"},
        "spec": {"mine": True},
    }
    verbs.put(foreign)
    assert await look() == 30
    assert condition(verbs, "Ready")["reason"] == "NameConflict"
    assert condition(verbs, "Stalled")["status"] == "True"
    assert verbs.the(JOB, "gsm-prepare")["spec"] == {"mine": True}


async def test_an_earlier_runs_job_is_waited_for(look: Any, verbs: Any, fine_tune: Any) -> None:
    leftover = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "gsm-prepare",
            "namespace": "team",
            "labels": {"specdecode.dev/run": "gsm"},
            "ownerReferences": [{"kind": "MTPFineTune", "name": "gsm", "uid": "old", "controller": True}],
        },
        "spec": {},
    }
    verbs.put(leftover)
    await look()
    assert condition(verbs, "Ready")["reason"] == "Pending"
    assert condition(verbs, "Stalled")["status"] is None
    await verbs.delete(JOB, "team", "gsm-prepare")
    await look()
    assert verbs.the(JOB, "gsm-prepare")["metadata"]["ownerReferences"][0]["uid"] == "0a1b2c3d-run"


async def test_a_refused_child_is_said_with_the_servers_words(look: Any, verbs: Any, fine_tune: Any) -> None:
    verbs.refuse["create", "Job"] = Refused(403, "Forbidden", "exceeded quota: gpus")
    assert await look() == 30
    ready = condition(verbs, "Ready")
    assert (ready["reason"], "exceeded quota: gpus" in ready["message"]) == ("ChildCreateFailed", True)


async def test_a_conflict_means_look_again_soon(look: Any, verbs: Any, fine_tune: Any) -> None:
    verbs.refuse["patch_status", "MTPFineTune"] = Conflict(409, "Conflict", "changed")
    assert await look() == 1
    assert verbs.names(JOB) == []


async def test_a_run_that_ends_without_success_stops_its_job_after_saying_so(
    look: Any, verbs: Any, cluster: Any, clock: Any, fine_tune: Any
) -> None:
    verbs.the(FINE_TUNE, "gsm")["spec"]["activeDeadlineSeconds"] = 60
    await look()
    cluster.start_pod("gsm-prepare")
    assert await look() == 61
    clock.pass_seconds(61)
    assert await look() == 1
    assert condition(verbs, "Stalled")["reason"] == "DeadlineExceeded"
    assert verbs.names(JOB) == ["gsm-prepare"]
    await look()
    assert verbs.names(JOB) == []
    await look()
    assert verbs.names(JOB) == []


async def test_children_go_when_their_time_has_come_and_the_object_stays(
    look: Any, verbs: Any, cluster: Any, clock: Any, fine_tune: Any, results: dict[str, Any]
) -> None:
    verbs.the(FINE_TUNE, "gsm")["spec"]["ttlSecondsAfterFinished"] = 100
    await run_all(look, cluster, results)
    assert await look() == 100
    clock.pass_seconds(100)
    await look()
    assert (verbs.names(JOB), verbs.names(CONFIG_MAP), verbs.names(CLAIM)) == ([], [], [])
    assert await look() is None
    assert condition(verbs, "Ready")["status"] == "True"


async def test_suspending_stops_the_job_and_resuming_lets_it_go_on(
    look: Any, verbs: Any, cluster: Any, fine_tune: Any
) -> None:
    await look()
    cluster.start_pod("gsm-prepare")
    verbs.the(FINE_TUNE, "gsm")["spec"]["suspend"] = True
    await look()
    assert verbs.the(JOB, "gsm-prepare")["spec"]["suspend"] is True
    assert condition(verbs, "Suspended")["status"] == "True"
    verbs.the(FINE_TUNE, "gsm")["spec"]["suspend"] = False
    await look()
    assert verbs.the(JOB, "gsm-prepare")["spec"]["suspend"] is False
    assert condition(verbs, "Suspended")["status"] is None


async def test_progress_of_a_running_training_is_shown(
    look: Any, verbs: Any, cluster: Any, fine_tune: Any, results: dict[str, Any]
) -> None:
    await run_stage(look, cluster, results, "prepare")
    await look()
    cluster.start_pod("gsm-train", ip="10.0.0.9")
    asked: list[str] = []

    async def fetch(url: str) -> str:
        asked.append(url)
        return '{"step": 31, "totalSteps": 100, "percent": 31, "loss": 1.8321, "heldOutAcceptance": [0.912, 0.7]}'

    assert await look(fetch) == 15
    assert asked == ["http://10.0.0.9:8090/progress"]
    progress = verbs.the(FINE_TUNE, "gsm")["status"]["progress"]
    assert (progress["percent"], progress["loss"], progress["heldOutAcceptance"]) == (31, "1.832", "0.91/0.70")


@pytest.mark.parametrize("answer", ["", "not json", "[]", '{"step": "x"}'])
async def test_an_odd_answer_is_no_progress_and_no_failure(
    look: Any, verbs: Any, cluster: Any, fine_tune: Any, results: dict[str, Any], answer: str
) -> None:
    await run_stage(look, cluster, results, "prepare")
    await look()
    cluster.start_pod("gsm-train")

    async def fetch(url: str) -> str:
        return answer

    await look(fetch)
    assert "progress" not in verbs.the(FINE_TUNE, "gsm")["status"]
    assert condition(verbs, "Ready")["reason"] == "Running"


async def test_events_tell_each_step_once(
    look: Any, verbs: Any, cluster: Any, fine_tune: Any, results: dict[str, Any]
) -> None:
    await run_all(look, cluster, results)
    await look()
    told = sorted(obj["reason"] for key, obj in verbs.objects.items() if key[0] == EVENT.plural)
    assert told == ["Evaluated", "GatePassed", "Prepared", "Published", "Ready", "Trained"]


async def test_a_deleted_object_needs_no_look(look: Any) -> None:
    assert await look() is None
