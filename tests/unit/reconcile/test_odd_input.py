"""Whatever is observed, plan and status answer: an exception would stop the run and say nothing to anybody.

Scenes as a cluster shows them are drawn, and a few of their values replaced by anything or left out.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtp_operator.measure.window import WindowCounts
from mtp_operator.reconcile import fine_tune_plan, fine_tune_status, serving_plan, serving_status
from mtp_operator.reconcile.events import notes
from mtp_operator.reconcile.fine_tune_run import fine_tune_run
from mtp_operator.reconcile.observed import FineTuneObserved, PodView, deployment_view, job_view, pod_view
from mtp_operator.reconcile.serving_run import ServingObserved, serving_of
from mtp_operator.render.defaults import Defaults
from mtp_trainer.contract import Progress, Stage

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DEFAULTS = Defaults()
TIME, LONG_AGO = "2026-11-30T11:59:00Z", "2026-11-29T11:59:00Z"

ODD: list[Any] = [
    None, True, -1, 0, 7, 10**400, 0.5, float("nan"), float("inf"), "", "x", "True", "yesterday", "2026-11-30",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", LONG_AGO, [], [None], [[]], {}, {"name": 1},
    [{"type": 3}],
]  # fmt: skip


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place below a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from paths(item, (*path, key))


def mangle(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """The value with what is at ``path`` replaced; by nothing at all when that is :data:`ODD` itself."""
    new = copy.deepcopy(value)
    place = new
    for key in path[:-1]:
        place = place[key]
    if odd is ODD:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(odd)
    return new


@st.composite
def odd(draw: st.DrawFn, scenes: list[Any], most: int = 3) -> Any:
    """One of the scenes, with up to ``most`` places that are not as they should be."""
    scene = draw(st.sampled_from(scenes))
    for _ in range(draw(st.integers(0, most))):
        places = [path for path in paths(scene) if len(path) > 1]
        if places:
            scene = mangle(scene, draw(st.sampled_from(places)), draw(st.sampled_from([*ODD, ODD])))
    return scene


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": TIME}


ACCEPTED = {"drafts": 100, "accepted": [90, 70, 50]}
PREPARED = {
    "stage": "Prepare", "family": "f", "verifierDigest": "d", "headTensors": 1, "headParameters": 1, "dataDigest": "d",
    "read": 1, "kept": 1, "trainDocuments": 1, "validationDocuments": 1, "trainTokens": 1, "trainedTokens": 1,
    "rows": 1, "domainPrompts": 1,
}  # fmt: skip
EVALUATED = {
    "stage": "Evaluate", "numSpeculativeTokens": 3, "outputParity": True, "parityPrompts": 1, "gate": {"passed": True},
    "domain": {
        "shipped": ACCEPTED, "tuned": ACCEPTED, "improvement": 0.1, "improvementLow": 0.1, "improvementHigh": 0.1,
    },
}  # fmt: skip
PUBLISHED = {"stage": "Publish", "head": {"path": "/mnt/mtp/claims/heads/1", "digest": "d", "sizeBytes": 1}}
GAVE_UP = {"stage": "Prepare", "failed": True, "reason": "NoMTPHead", "message": "m"}


def ended(code: int = 0, reason: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "startedAt": TIME, "finishedAt": TIME, "reason": reason}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": "secret not found"}}


def pod(state: dict[str, Any], scheduled: bool = True) -> dict[str, Any]:
    placed = condition("PodScheduled") if scheduled else condition("PodScheduled", "False", "Unschedulable", "m")
    return {
        "metadata": {"name": "p", "uid": "u", "creationTimestamp": TIME, "annotations": {"a": "b"}},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [placed],
            "containerStatuses": [{"name": "c", "state": state, "lastState": state, "restartCount": 1}],
        },
    }


def job(*conditions: dict[str, str], suspend: bool = False, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "j", "uid": "u", "labels": labels, "creationTimestamp": TIME},
        "spec": {"suspend": suspend},
        "status": {"active": 1, "succeeded": 0, "failed": 2, "conditions": list(conditions)},
    }


def run_spec(**changes: Any) -> dict[str, Any]:
    return {
        "verifier": {"uri": "pvc://models/qwen"},
        "dataset": {"uri": "pvc://data/train.jsonl"},
        "evaluation": {"dataset": {"uri": "pvc://data/test.jsonl"}},
        "workspace": {"storage": "1Gi"},
        "output": {"path": "pvc://heads/gsm"},
        "ttlSecondsAfterFinished": 0,
        **changes,
    }


def run_status(done: int, succeeded: str = "Unknown") -> dict[str, Any]:
    """The status of a run that has done so many stages."""
    stages = ("Prepared", "Trained", "Evaluated", "Published")[:done]
    return {
        "observedGeneration": 1,
        "conditions": [condition("Succeeded", succeeded), *(condition(stage) for stage in stages)],
        "completionTime": LONG_AGO,
        "jobs": [{"stage": "Prepare", "name": "j", "active": 1, "suspended": False}],
        "retries": 1,
        "preemptions": 1,
        "progress": {"step": 1, "totalSteps": 2, "percent": 50, "lastUpdateTime": TIME},
        "resolved": {"templateHash": "h", "family": "f", "verifierRevision": "r"},
        "artifact": {"head": {"path": "pvc://heads/1", "digest": "d"}},
        "acceptance": {"summary": "0.9", "lastUpdateTime": TIME},
    }


METADATA = {"name": "n", "namespace": "ns", "uid": "u", "generation": 1, "labels": {"a": "b"}}


def run_scene(
    done: int, job: dict[str, Any], *pods: dict[str, Any], message: Any = None, spec: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A run that has done so many stages; its next one has this Job, these pods and this termination message."""
    return {
        "metadata": METADATA, "spec": spec or run_spec(), "status": run_status(done),
        "job": job, "pods": list(pods), "message": [message],
    }  # fmt: skip


COMPLETE = condition("Complete")
GIVEN_UP, REFUSED = (condition("Failed", reason=why) for why in ("BackoffLimitExceeded", "PodFailurePolicy"))
QUEUED = {"kueue.x-k8s.io/queue-name": "q"}
# Scenes by what Ready says of them.
RUNS = [
    ("Pending", run_scene(0, job(), pod(waiting("ContainerCreating")))),
    ("SecretMissing", run_scene(0, job(), pod(waiting("CreateContainerConfigError")))),
    ("ImagePullFailed", run_scene(1, job(), pod(waiting("ErrImagePull")))),
    ("Unschedulable", run_scene(1, job(), pod({}, scheduled=False))),
    ("Running", run_scene(1, job(), pod({"running": {"startedAt": TIME}}))),
    ("DeadlineExceeded", run_scene(
        1, job(), pod({"running": {"startedAt": LONG_AGO}}), spec=run_spec(activeDeadlineSeconds=100))),
    ("Suspended", run_scene(1, job(suspend=True), pod(ended(75)), spec=run_spec(suspend=True))),
    ("Queued", run_scene(1, job(suspend=True, **QUEUED), pod(ended(75)))),
    ("Interrupted", run_scene(1, job(), pod(ended(75)))),
    ("NoMTPHead", run_scene(0, job(REFUSED), pod(ended(3)), message=GAVE_UP)),
    ("OutOfMemory", run_scene(1, job(), pod(ended(137, "OOMKilled")))),
    ("RetriesExhausted", run_scene(1, job(GIVEN_UP), pod(ended(1)), pod(ended(1)))),
    ("Unexpected", run_scene(1, job(COMPLETE), pod(ended()), message="no JSON")),
    ("Unexpected", run_scene(0, job(COMPLETE), pod(ended()), message=PREPARED)),  # as the result of Train, too
    ("Unexpected", run_scene(2, job(COMPLETE), pod(ended()), message=EVALUATED)),
    ("Completed", run_scene(3, job(COMPLETE), pod(ended()), message=PUBLISHED)),
    (None, {**run_scene(4, job(COMPLETE)), "status": run_status(4, "True")}),
    (None, {**run_scene(2, job(REFUSED)), "status": run_status(2, "False")}),
]  # fmt: skip
progress = st.none() | st.builds(
    Progress,
    step=st.integers(),
    total_steps=st.integers(),
    percent=st.integers(),
    loss=st.none() | st.floats(),
    tokens_per_second=st.none() | st.floats(),
    held_out_acceptance=st.lists(st.floats(), max_size=3).map(tuple),
)
thorough = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


def pods_of(scene: dict[str, Any]) -> tuple[PodView, ...]:
    """With the termination message in its place: as JSON, unless it is text."""
    message = (scene["message"] or [None])[0]
    text = message if isinstance(message, str) else json.dumps(message)
    pods = copy.deepcopy(scene["pods"])
    for pod in pods:
        try:
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = text
        except (KeyError, IndexError, TypeError):
            continue
    return tuple(pod_view(pod, "c") for pod in pods if isinstance(pod, dict))


def answer_for_run(scene: dict[str, Any], seen: Progress | None = None) -> dict[str, Any]:
    run = fine_tune_run(scene)
    pods = pods_of(scene)
    observed = FineTuneObserved(
        jobs={stage: job_view(scene["job"]) for stage in Stage}, pods=dict.fromkeys(Stage, pods), progress=seen
    )
    fine_tune_plan.plan(run, observed, NOW, DEFAULTS)
    fine_tune_plan.plan(run, FineTuneObserved(), NOW, DEFAULTS)
    fine_tune_plan.next_look(run, observed, NOW)
    first = fine_tune_status.status(run, observed, NOW, DEFAULTS)
    notes(run.previous, first)
    again = fine_tune_run({**scene, "status": first})
    if again.ended:
        assert fine_tune_status.status(again, FineTuneObserved(), NOW, DEFAULTS) == first
    return first


@pytest.mark.parametrize(("reason", "scene"), [row for row in RUNS if row[0]])
def test_the_scenes_of_runs_are_what_they_are_called(reason: str, scene: dict[str, Any]) -> None:
    assert reason in [entry["reason"] for entry in answer_for_run(scene)["conditions"] if entry["type"] == "Ready"]


@thorough
@given(odd([scene for _, scene in RUNS]), progress)
def test_a_run_is_answered_for_whatever_is_observed(scene: dict[str, Any], seen: Progress | None) -> None:
    answer_for_run(scene, seen)


def serving_scene(deployment: dict[str, Any] | None, *pods: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": METADATA,
        "spec": {"model": {"uri": "pvc://models/qwen"}, "head": {"uri": "pvc://heads/gsm"}, "replicas": 1, **spec},
        "status": run_status(0),
        "deployment": deployment,
        "pods": list(pods),
        "message": [],
        "run": {"spec": run_spec(), "status": run_status(4, "True")},
    }


def deployment(available: int, *conditions: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"generation": 1, "annotations": {"specdecode.dev/pod-template": "{}"}},
        "spec": {"replicas": 1},
        "status": {
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": available,
            "availableReplicas": available, "conditions": list(conditions),
        },
    }  # fmt: skip


OVERDUE = condition("Progressing", "False", "ProgressDeadlineExceeded")
# Scenes by what Available says of them.
SERVINGS = [
    ("Progressing", serving_scene(None)),
    ("ImagePullFailed", serving_scene(deployment(0), pod(waiting("ErrImagePull")))),
    ("ProgressDeadlineExceeded", serving_scene(deployment(0, OVERDUE), pod(ended(1)))),
    ("MinimumReplicasAvailable", serving_scene(deployment(1), pod({"running": {"startedAt": TIME}}))),
    ("MinimumReplicasAvailable", serving_scene(
        deployment(1), pod({"running": {"startedAt": TIME}}), head=None, model={"fineTuneRef": {"name": "gsm"}},
        acceptance={"degradedBelow": {"meanAcceptanceLength": "2.5"}})),
]  # fmt: skip
counts = st.integers(0, 2**62)
windows = st.none() | st.builds(
    WindowCounts, counts, counts, counts, counts, counts, st.lists(counts, max_size=9).map(tuple)
)


def answer_for_serving(scene: dict[str, Any], window: WindowCounts | None = None) -> dict[str, Any]:
    serving = serving_of(scene)
    seen = scene["deployment"]
    observed = ServingObserved(
        deployment=None if seen is None else deployment_view(seen),
        pods=pods_of(scene),
        runs={"gsm": scene["run"]},
        window=window,
    )
    serving_plan.plan(serving, observed, DEFAULTS)
    first = serving_status.status(serving, observed, NOW, DEFAULTS)
    notes(serving.previous, first)
    again = serving_of({**scene, "status": first})
    assert serving_status.status(again, observed, NOW, DEFAULTS) == first
    return first


@pytest.mark.parametrize(("reason", "scene"), SERVINGS)
def test_the_scenes_of_servings_are_what_they_are_called(reason: str, scene: dict[str, Any]) -> None:
    conditions = answer_for_serving(scene)["conditions"]
    assert reason in [entry["reason"] for entry in conditions if entry["type"] == "Available"]


@thorough
@given(odd([scene for _, scene in SERVINGS]), windows)
def test_a_serving_is_answered_for_whatever_is_observed(scene: dict[str, Any], window: WindowCounts | None) -> None:
    answer_for_serving(scene, window)
