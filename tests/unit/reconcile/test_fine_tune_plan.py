"""What a run needs next, by what was observed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mtp_operator.reconcile.actions import Apply, Create, Delete
from mtp_operator.reconcile.fine_tune_plan import next_look, plan
from mtp_operator.render.defaults import Defaults
from mtp_trainer.contract import Stage

STAGES = ("Prepared", "Trained", "Evaluated", "Published")
DEFAULTS = Defaults()


def created(scene: Any, now: datetime) -> list[str]:
    actions = plan(scene.run, scene.observed, now, DEFAULTS)
    return [f"{a.obj['kind']} {a.obj['metadata']['name']}" for a in actions if isinstance(a, Create)]


@pytest.mark.parametrize(("done", "stage"), [(0, "prepare"), (1, "train"), (2, "evaluate"), (3, "publish")])
def test_the_next_stage_begins_when_the_one_before_is_done(scene: Any, now: datetime, done: int, stage: str) -> None:
    scene.remember(*STAGES[:done])
    assert created(scene, now) == [f"ConfigMap gsm-{stage}", f"Job gsm-{stage}"]


def test_nothing_begins_after_the_last(scene: Any, now: datetime) -> None:
    scene.remember(*STAGES)
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []


def test_a_stage_whose_result_was_just_read_is_followed_at_once(
    scene: Any, now: datetime, prepared: dict[str, Any]
) -> None:
    scene.job(Stage.PREPARE, condition="Complete").ended(Stage.PREPARE, 0, prepared)
    assert "Job gsm-train" in created(scene, now)


@pytest.mark.parametrize(
    "describe",
    [
        lambda scene: scene.job(Stage.PREPARE, active=1).running(Stage.PREPARE),
        lambda scene: scene.job(Stage.PREPARE),
        lambda scene: scene.job(Stage.PREPARE, condition="Failed", reason="PodFailurePolicy").ended(Stage.PREPARE, 3),
        lambda scene: scene.job(Stage.PREPARE, condition="Complete"),
        lambda scene: scene.job(Stage.PREPARE, condition="Complete").ended(Stage.PREPARE, 0, "nonsense"),
    ],
    ids=["runs", "no-pod-yet", "failed", "result-lost", "result-unreadable"],
)
def test_nothing_is_created_while_a_stage_is_not_done(scene: Any, now: datetime, describe: Any) -> None:
    describe(scene)
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []


def test_a_failed_gate_publishes_nothing(scene: Any, now: datetime, evaluated: dict[str, Any]) -> None:
    evaluated["gate"] = {"passed": False, "failures": ["no"], "reason": "GateFailed"}
    scene.remember("Prepared", "Trained").job(Stage.EVALUATE, condition="Complete").ended(Stage.EVALUATE, 0, evaluated)
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []


def test_a_gate_that_warns_publishes(scene: Any, now: datetime, evaluated: dict[str, Any]) -> None:
    scene.spec["evaluation"]["gate"] = {"onFailure": "Warn"}
    evaluated["gate"] = {"passed": False, "failures": ["no"], "reason": "GateFailed"}
    scene.remember("Prepared", "Trained").job(Stage.EVALUATE, condition="Complete").ended(Stage.EVALUATE, 0, evaluated)
    assert "Job gsm-publish" in created(scene, now)


@pytest.mark.parametrize(("suspend", "job_suspended", "patched"), [
    (True, False, True), (True, True, None), (False, True, False), (False, False, None),
])  # fmt: skip
def test_suspend_is_passed_on_to_our_own_job(
    scene: Any, now: datetime, suspend: bool, job_suspended: bool, patched: bool | None
) -> None:
    scene.spec["suspend"] = suspend
    scene.job(Stage.PREPARE, suspend=job_suspended)
    actions = plan(scene.run, scene.observed, now, DEFAULTS)
    assert [a.obj["spec"] for a in actions if isinstance(a, Apply)] == (
        [] if patched is None else [{"suspend": patched}]
    )


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("job_suspended", [True, False])
def test_a_queues_job_is_never_touched(scene: Any, now: datetime, suspend: bool, job_suspended: bool) -> None:
    scene.labels = {"kueue.x-k8s.io/queue-name": "gpu"}
    scene.spec["suspend"] = suspend
    scene.job(Stage.PREPARE, suspend=job_suspended)
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []


def test_a_suspended_run_begins_nothing(scene: Any, now: datetime) -> None:
    scene.spec["suspend"] = True
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []


def end(scene: Any, now: datetime, succeeded: str, seconds_ago: int = 50) -> None:
    scene.status = {
        "conditions": [{"type": "Succeeded", "status": succeeded}],
        "completionTime": (now - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def test_an_ended_run_stops_what_runs_and_keeps_what_ended(scene: Any, now: datetime) -> None:
    end(scene, now, "False")
    scene.job(Stage.PREPARE, condition="Complete").job(Stage.TRAIN, active=1).running(Stage.TRAIN)
    assert plan(scene.run, scene.observed, now, DEFAULTS) == [Delete("batch/v1", "Job", "gsm-train", "job-gsm-train")]


def test_a_job_whose_pod_just_ended_well_is_left_to_end(scene: Any, now: datetime) -> None:
    end(scene, now, "True")
    scene.job(Stage.PUBLISH, active=1).ended(Stage.PUBLISH, 0)
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []


def test_an_ended_run_never_begins_again(scene: Any, now: datetime) -> None:
    end(scene, now, "False")
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []
    assert next_look(scene.run, scene.observed, now) is None


@pytest.mark.parametrize(
    ("ttl", "deleted"), [(None, []), (100, []), (50, ["Job", "ConfigMap"]), (0, ["Job", "ConfigMap"])]
)
def test_children_go_after_the_ttl(scene: Any, now: datetime, ttl: int | None, deleted: list[str]) -> None:
    if ttl is not None:
        scene.spec["ttlSecondsAfterFinished"] = ttl
    end(scene, now, "True")
    scene.job(Stage.PREPARE, condition="Complete")
    actions = plan(scene.run, scene.observed, now, DEFAULTS)
    assert [action.kind for action in actions if isinstance(action, Delete)] == deleted


REFUSED: dict[str, dict[str, Any]] = {
    "spec.verifier.uri": {"verifier": {"uri": "s3://bucket/model"}},
    "spec.dataset.uri": {"dataset": {"uri": "s3://bucket/data"}},
    "spec.evaluation.dataset.uri": {"evaluation": {"dataset": {"uri": "s3://bucket/data"}}},
    "spec.training.hiddenStates": {"training": {"hiddenStates": "VLLM"}},
    "spec.nodes": {"nodes": 2},
    "spec.output.image": {"output": {"image": "registry.example/heads/gsm"}},
    "spec.output.path": {"workspace": {"storage": "1Gi"}, "output": {"path": "pvc://gsm-workspace/out"}},
    "secretRef": {
        "verifier": {"uri": "hf://a/b", "secretRef": {"name": "one"}},
        "dataset": {"uri": "hf://a/c", "secretRef": {"name": "two"}},
    },
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_this_version_cannot_do_is_refused_before_anything_is_created(
    scene: Any, now: datetime, field: str
) -> None:
    from mtp_operator.reconcile.fine_tune_status import status

    scene.spec |= REFUSED[field]
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []
    conditions = {c["type"]: c for c in status(scene.run, scene.observed, now, DEFAULTS)["conditions"]}
    assert conditions["Stalled"]["reason"] == "NotSupported"
    assert field in conditions["Stalled"]["message"]


def test_a_spec_that_cannot_be_read_creates_nothing_and_names_the_field(scene: Any, now: datetime) -> None:
    from mtp_operator.reconcile.fine_tune_status import status

    scene.spec["training"] = {"newerField": 1}
    assert plan(scene.run, scene.observed, now, DEFAULTS) == []
    conditions = {c["type"]: c for c in status(scene.run, scene.observed, now, DEFAULTS)["conditions"]}
    assert "spec.training.newerField" in conditions["Stalled"]["message"]
