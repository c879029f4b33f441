"""What a run's status says, by what was observed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mtp_operator.api import MTPFineTune
from mtp_operator.api.conditions import FineTuneCondition, FineTuneReason
from mtp_operator.reconcile.fine_tune_status import status
from mtp_operator.render.defaults import Defaults
from mtp_trainer.contract import Progress, Stage

PREPARE, TRAIN, EVALUATE = Stage.PREPARE, Stage.TRAIN, Stage.EVALUATE
DEFAULTS = Defaults()


def said(scene: Any, now: datetime) -> dict[str, dict[str, Any]]:
    """Conditions of the status by type."""
    written = status(scene.run, scene.observed, now, DEFAULTS)
    MTPFineTune.model_validate({"metadata": {"name": "gsm"}, "spec": scene.spec, "status": written})
    conditions = {entry["type"]: entry for entry in written["conditions"]}
    assert set(conditions) <= {str(kind) for kind in FineTuneCondition}
    assert not conditions.keys() >= {"Stalled", "Reconciling"}
    assert {entry["reason"] for entry in conditions.values()} <= {str(reason) for reason in FineTuneReason}
    return conditions


WAITING = {
    "Unschedulable": {
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: no GPU"}
        ]
    },
    "VolumeMissing": {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": 'persistentvolumeclaim "models" not found',
            }
        ]
    },
    "ImagePullFailed": {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
    "SecretMissing": {
        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'}}
    },
    "Pending": {"state": {"waiting": {"reason": "ContainerCreating"}}},
}


@pytest.mark.parametrize("reason", WAITING)
def test_why_a_pod_waits_is_said(scene: Any, now: datetime, reason: str) -> None:
    seen = dict(WAITING[reason])
    scene.job(PREPARE, active=1).pod(PREPARE, seen.pop("state", None), **seen)
    conditions = said(scene, now)
    assert conditions["Ready"]["reason"] == conditions["Prepared"]["reason"] == reason
    assert conditions["Succeeded"]["status"] == "Unknown"
    assert "Stalled" not in conditions


def test_a_pod_that_a_node_doesnt_start_in_time_ends_the_run(scene: Any, now: datetime) -> None:
    scene.spec["failurePolicy"] = {"startupTimeoutSeconds": 100}
    since = (now - timedelta(seconds=101)).isoformat()
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}]
    scene.job(PREPARE, active=1).pod(PREPARE, WAITING["ImagePullFailed"]["state"], conditions=scheduled)
    conditions = said(scene, now)
    assert conditions["Stalled"]["reason"] == "StartupTimeout"
    assert "no such image" in conditions["Stalled"]["message"]


def test_waiting_for_a_node_has_no_timeout(scene: Any, now: datetime) -> None:
    scene.spec["failurePolicy"] = {"startupTimeoutSeconds": 100}
    scene.job(PREPARE, active=1).pod(PREPARE, **WAITING["Unschedulable"])
    assert "Stalled" not in said(scene, now + timedelta(days=2))


def failure(stage: str, reason: str, message: str = "what and what to do") -> dict[str, Any]:
    return {"stage": stage, "failed": True, "reason": reason, "message": message}


@pytest.mark.parametrize("reason", ["NoMTPHead", "DatasetEmpty", "HubUnauthorized", "LossNotFinite", "DiskFull"])
def test_wrong_input_ends_the_run_with_the_trainers_words(scene: Any, now: datetime, reason: str) -> None:
    scene.job(PREPARE, condition="Failed", reason="PodFailurePolicy", failed=1)
    scene.ended(PREPARE, 3, failure("Prepare", reason))
    conditions = said(scene, now)
    for kind in ("Ready", "Succeeded", "Prepared"):
        assert (conditions[kind]["status"], conditions[kind]["reason"]) == ("False", reason)
    assert (conditions["Stalled"]["status"], conditions["Stalled"]["message"]) == ("True", "what and what to do")
    assert conditions["Trained"]["reason"] == conditions["GatePassed"]["reason"] == "NotReached"
    assert "Reconciling" not in conditions


def test_exhausted_retries_are_said_with_the_last_message(scene: Any, now: datetime) -> None:
    scene.job(PREPARE, condition="Failed", reason="BackoffLimitExceeded", failed=4)
    scene.ended(PREPARE, 1, failure("Prepare", "EngineCrashed", "vLLM died"))
    stalled = said(scene, now)["Stalled"]
    assert stalled["reason"] == "RetriesExhausted"
    assert "3 retries" in stalled["message"]
    assert "EngineCrashed: vLLM died" in stalled["message"]


def test_without_retries_the_failure_itself_is_the_reason(scene: Any, now: datetime) -> None:
    scene.spec["failurePolicy"] = {"maxRetries": 0}
    scene.job(PREPARE, condition="Failed", reason="BackoffLimitExceeded", failed=1)
    scene.ended(PREPARE, 1, failure("Prepare", "EngineCrashed", "vLLM died"))
    assert said(scene, now)["Stalled"]["reason"] == "EngineCrashed"


@pytest.mark.parametrize(
    ("terminated", "reason", "part"),
    [
        ({"reason": "OOMKilled"}, "OutOfMemory", "limits.memory"),
        ({"reason": "Error"}, "Unexpected", "exit code 137"),
    ],
)
def test_a_killed_pod_is_explained(
    scene: Any, now: datetime, terminated: dict[str, str], reason: str, part: str
) -> None:
    scene.job(PREPARE, active=1, failed=1).ended(PREPARE, 137, "Traceback …", **terminated)
    ready = said(scene, now)["Ready"]
    assert ready["reason"] == reason
    assert part in ready["message"]


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("", "no termination message"),
        ("Segmentation fault", "Segmentation fault"),
        ('{"stage":"Prepare"}', "not a result"),
        ('{"stage": "Train"', "not a result"),
        ("[" * 3000, "not a result"),
        (failure("Prepare", "DatasetEmpty"), "result of a failure"),
    ],
)
def test_a_success_without_a_result_ends_the_run_and_says_why(
    scene: Any, now: datetime, message: Any, part: str
) -> None:
    scene.job(PREPARE, condition="Complete", succeeded=1).ended(PREPARE, 0, message)
    stalled = said(scene, now)["Stalled"]
    assert stalled["reason"] == "Unexpected"
    assert part in stalled["message"]


def test_a_result_of_another_stage_is_not_taken(scene: Any, now: datetime, evaluated: dict[str, Any]) -> None:
    scene.job(PREPARE, condition="Complete", succeeded=1).ended(PREPARE, 0, evaluated)
    assert "result of Evaluate" in said(scene, now)["Stalled"]["message"]


def test_counts_that_no_engine_can_have_counted_are_not_taken(
    scene: Any, now: datetime, evaluated: dict[str, Any]
) -> None:
    evaluated["domain"]["tuned"] = {"drafts": 10, "accepted": [11, 3, 2]}
    scene.remember("Prepared", "Trained").job(EVALUATE, condition="Complete").ended(EVALUATE, 0, evaluated)
    assert "contradict" in said(scene, now)["Stalled"]["message"]


def test_a_lost_result_stalls_without_ending_the_run(scene: Any, now: datetime) -> None:
    scene.job(PREPARE, condition="Complete", succeeded=1)
    later = said(scene, now + timedelta(seconds=120))
    assert "delete the Job" in later["Stalled"]["message"]
    assert later["Succeeded"]["status"] == "Unknown"
    assert "Stalled" not in said(scene, now)


@pytest.mark.parametrize(
    ("reason", "expected"), [("GateFailed", "GateFailed"), ("TooFewDrafts", "TooFewDrafts"), (None, "GateFailed")]
)
def test_a_failed_gate_ends_the_run_with_its_reason(
    scene: Any, now: datetime, evaluated: dict[str, Any], reason: str | None, expected: str
) -> None:
    evaluated["gate"] = {"passed": False, "failures": ["improvement 0.01 is below 0.05"], "reason": reason}
    scene.remember("Prepared", "Trained").job(EVALUATE, condition="Complete").ended(EVALUATE, 0, evaluated)
    conditions = said(scene, now)
    assert (conditions["GatePassed"]["status"], conditions["GatePassed"]["reason"]) == ("False", expected)
    assert conditions["Evaluated"]["status"] == "True"
    assert conditions["Published"]["reason"] == "NotReached"
    assert conditions["Stalled"]["message"] == "improvement 0.01 is below 0.05"
    assert "evaluation" in status(scene.run, scene.observed, now, DEFAULTS)


def test_a_gate_that_warns_lets_the_run_go_on_with_a_message(
    scene: Any, now: datetime, evaluated: dict[str, Any]
) -> None:
    scene.spec["evaluation"]["gate"] = {"onFailure": "Warn"}
    evaluated["gate"] = {"passed": False, "failures": ["too little"], "reason": "GateFailed"}
    scene.remember("Prepared", "Trained").job(EVALUATE, condition="Complete").ended(EVALUATE, 0, evaluated)
    scene.status = status(scene.run, scene.observed, now, DEFAULTS)
    scene.jobs.clear()
    conditions = said(scene, now)
    assert (conditions["GatePassed"]["status"], conditions["GatePassed"]["reason"]) == ("False", "GateWarned")
    assert "too little" in conditions["GatePassed"]["message"]
    assert "Stalled" not in conditions


def test_an_evaluation_is_shown_as_decimal_strings_beside_counts(
    scene: Any, now: datetime, evaluated: dict[str, Any]
) -> None:
    scene.remember("Prepared", "Trained").job(EVALUATE, condition="Complete").ended(EVALUATE, 0, evaluated)
    shown = status(scene.run, scene.observed, now, DEFAULTS)["evaluation"]
    assert shown["shipped"]["summary"] == "0.897/0.719/0.476"
    assert shown["tuned"]["meanAcceptanceLength"] == "3.297"
    assert shown["tuned"]["positions"][1] == {"position": 1, "rate": "0.774", "conditional": "0.850", "accepted": 6966}
    assert (shown["improvement"], shown["tokensPerSecondRatio"]) == ("0.205", "1.182")
    assert shown["report"] == "pvc://ws/gsm-0a1b2c3d/evaluate/report.html"


def test_what_prepare_found_out_is_kept(scene: Any, now: datetime, prepared: dict[str, Any]) -> None:
    scene.job(PREPARE, condition="Complete").ended(PREPARE, 0, prepared)
    scene.status = status(scene.run, scene.observed, now, DEFAULTS)
    scene.jobs.clear()
    scene.pods.clear()
    resolved = status(scene.run, scene.observed, now, DEFAULTS)["resolved"]
    assert (resolved["family"], resolved["headTensors"], resolved["workspacePath"]) == ("qwen3_5", 15, "gsm-0a1b2c3d")


def test_an_end_is_final(scene: Any, now: datetime) -> None:
    scene.job(PREPARE, condition="Failed", reason="PodFailurePolicy").ended(PREPARE, 3, failure("Prepare", "NoMTPHead"))
    scene.status = status(scene.run, scene.observed, now, DEFAULTS)
    scene.jobs.clear()
    scene.pods.clear()
    assert status(scene.run, scene.observed, now + timedelta(days=1), DEFAULTS) == scene.status


def test_a_queued_job_is_not_said_to_run(scene: Any, now: datetime) -> None:
    scene.labels = {"kueue.x-k8s.io/queue-name": "gpu"}
    scene.job(PREPARE, suspend=True)
    assert said(scene, now)["Ready"]["reason"] == "Queued"


def test_a_job_that_its_queue_took_back_counts_as_a_preemption_once(scene: Any, now: datetime) -> None:
    scene.labels = {"kueue.x-k8s.io/queue-name": "gpu"}
    scene.job(PREPARE, active=1).running(PREPARE)
    scene.status = status(scene.run, scene.observed, now, DEFAULTS)
    scene.pods.clear()
    scene.job(PREPARE, suspend=True)
    for _ in range(3):
        scene.status = status(scene.run, scene.observed, now, DEFAULTS)
    assert (scene.status["preemptions"], scene.status.get("retries")) == (1, None)


def test_an_interrupted_pod_is_a_preemption_and_no_retry(scene: Any, now: datetime) -> None:
    scene.job(PREPARE, active=1).ended(PREPARE, 75, failure("Prepare", "Interrupted"))
    written = status(scene.run, scene.observed, now, DEFAULTS)
    assert (written["preemptions"], written.get("retries")) == (1, None)
    assert said(scene, now)["Ready"]["reason"] == "Interrupted"


def test_time_in_a_queue_doesnt_count_against_the_deadline(scene: Any, now: datetime) -> None:
    scene.spec["activeDeadlineSeconds"] = 100
    scene.job(PREPARE, active=1).pod(PREPARE, **WAITING["Unschedulable"])
    assert "Stalled" not in said(scene, now + timedelta(hours=9))
    scene.pods.clear()
    scene.running(PREPARE, seconds=101)
    assert said(scene, now)["Stalled"]["reason"] == "DeadlineExceeded"


def test_suspension_shows_beside_what_the_run_is_doing(scene: Any, now: datetime) -> None:
    scene.spec["suspend"] = True
    scene.job(PREPARE, active=1).running(PREPARE)
    conditions = said(scene, now)
    assert conditions["Suspended"]["status"] == conditions["Reconciling"]["status"] == "True"
    assert conditions["Ready"]["reason"] == "Suspended"


@pytest.mark.parametrize(
    ("previous_age", "step", "written"),
    [(None, 10, True), (29, 10, False), (30, 10, True), (5, 100, True)],
    ids=["first", "too-soon", "due", "last-step"],
)
def test_progress_is_written_at_most_every_30_seconds(
    scene: Any, now: datetime, previous_age: int | None, step: int, written: bool
) -> None:
    from dataclasses import replace

    scene.remember("Prepared").job(TRAIN, active=1).running(TRAIN)
    if previous_age is not None:
        then = (now - timedelta(seconds=previous_age)).strftime("%Y-%m-%dT%H:%M:%SZ")
        scene.status["progress"] = {"percent": 5, "step": 5, "totalSteps": 100, "lastUpdateTime": then}
    seen = Progress(step=step, total_steps=100, percent=step, loss=float("nan"))
    shown = status(scene.run, replace(scene.observed, progress=seen), now, DEFAULTS)["progress"]
    assert (shown["step"] == step) is written
    assert "loss" not in shown


def test_a_training_that_is_done_shows_all_its_steps(scene: Any, now: datetime) -> None:
    read_last = {"percent": 83, "step": 167, "totalSteps": 200, "lastUpdateTime": "2026-11-30T11:59:00Z"}
    scene.status["progress"] = {**read_last, "estimatedRemainingSeconds": 20}
    done = {
        "stage": "Train", "objective": "KL", "kvContext": "Serving", "steps": 3, "optimizerSteps": 200,
        "bestStep": 200, "firstLoss": 1.1, "lastLoss": 0.25, "shippedPredicted": [0.7], "tunedPredicted": [0.8, 0.66],
        "tokensPerSecond": 871.4, "uniqueTokens": 900, "passes": 4,
        "head": {"path": "/x", "digest": "sha256:h", "sizeBytes": 1},
    }  # fmt: skip
    scene.remember("Prepared").job(TRAIN, active=0).ended(TRAIN, 0, done)
    shown = status(scene.run, scene.observed, now, DEFAULTS)["progress"]
    assert shown == {
        "percent": 100, "step": 200, "totalSteps": 200, "loss": "0.250", "tokensPerSecond": 871,
        "heldOutAcceptance": "0.80/0.66", "lastUpdateTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip
    scene.status["progress"] = shown
    assert status(scene.run, scene.observed, now + timedelta(hours=1), DEFAULTS)["progress"] == shown


def test_times_of_transition_stay_until_the_status_flips(scene: Any, now: datetime) -> None:
    scene.job(PREPARE, active=1).pod(PREPARE, **WAITING["Unschedulable"])
    scene.status = status(scene.run, scene.observed, now, DEFAULTS)
    scene.pods.clear()
    scene.running(PREPARE)
    later = now + timedelta(minutes=5)
    before = {c["type"]: c for c in scene.status["conditions"]}
    after = said(scene, later)
    assert after["Ready"]["reason"] != before["Ready"]["reason"]
    assert after["Ready"]["lastTransitionTime"] == before["Ready"]["lastTransitionTime"]
