"""What a serving's status says, by what was observed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mtp_operator.api import SpecDecodeServing
from mtp_operator.api.conditions import ServingCondition, ServingReason
from mtp_operator.measure.window import WindowCounts
from mtp_operator.reconcile.observed import DeploymentView, PodView, Problem
from mtp_operator.reconcile.serving_plan import plan
from mtp_operator.reconcile.serving_run import Serving, ServingObserved, serving_of
from mtp_operator.reconcile.serving_status import status
from mtp_operator.render.defaults import Defaults

DEFAULTS = Defaults()
DONE = DeploymentView(
    generation=1, observed_generation=1, wanted_replicas=1, replicas=1, updated=1, available=1, ready=1
)
MOVING = replace(DONE, available=0, ready=0)
GOOD = WindowCounts(1, 1, 1000, 3000, 2100, (900, 700, 500))


def serving(previous: dict[str, Any] | None = None, **spec: Any) -> Serving:
    return serving_of(
        {
            "metadata": {"name": "qwen", "namespace": "team", "uid": "9f8e", "generation": 1},
            "spec": {"model": {"uri": "pvc://models/qwen"}} | spec,
            "status": previous or {},
        }
    )


def said(what: Serving, observed: ServingObserved, now: datetime) -> dict[str, dict[str, Any]]:
    written = status(what, observed, now, DEFAULTS)
    spec = {"model": {"uri": "pvc://models/qwen"}}
    SpecDecodeServing.model_validate({"metadata": {"name": "qwen"}, "spec": spec, "status": written})
    conditions = {entry["type"]: entry for entry in written["conditions"]}
    assert set(conditions) <= {str(kind) for kind in ServingCondition}
    assert {entry["reason"] for entry in conditions.values()} <= {str(reason) for reason in ServingReason}
    return conditions


@pytest.mark.parametrize(
    ("pod", "reason", "part"),
    [
        (PodView(name="p", unschedulable="0/3 nodes"), "Unschedulable", "0/3 nodes"),
        (PodView(name="p", waiting_reason="ErrImagePull", waiting_message="denied"), "ImagePullFailed", "denied"),
        (PodView(name="p", waiting_reason="ContainerCreating"), "Progressing", "ContainerCreating"),
        (PodView(name="p", started=datetime(2026, 1, 1)), "EngineStarting", "loading"),
        (
            PodView(name="p", waiting_reason="CrashLoopBackOff", last_exit_code=1, last_message="CUDA error"),
            "EngineCrashed",
            "exit code 1: CUDA error",
        ),
        (PodView(name="p", waiting_reason="CrashLoopBackOff", last_reason="OOMKilled"), "OutOfMemory", "memory"),
    ],
    ids=["unschedulable", "image", "creating", "loading", "crashed", "memory"],
)
def test_why_pods_take_no_requests_is_said(now: datetime, pod: PodView, reason: str, part: str) -> None:
    conditions = said(serving(), ServingObserved(MOVING, (pod,)), now)
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == ("False", reason)
    assert part in conditions["Ready"]["message"]
    assert conditions["Reconciling"]["status"] == "True"


@pytest.mark.parametrize(
    ("deployment", "ready"),
    [
        (DONE, "True"),
        (MOVING, "False"),
        (replace(DONE, observed_generation=0), "False"),
        (replace(DONE, updated=0), "False"),
        (replace(DONE, replicas=2), "False"),
        (replace(DONE, wanted_replicas=2), "False"),
    ],
    ids=["done", "unavailable", "unseen", "old-template", "old-pod-left", "scaled-since"],
)
def test_ready_means_that_the_newest_pods_serve(now: datetime, deployment: DeploymentView, ready: str) -> None:
    assert said(serving(), ServingObserved(deployment), now)["Ready"]["status"] == ready


def test_a_stuck_rollout_stalls_with_its_cause(now: datetime) -> None:
    pod = PodView(name="p", unschedulable="0/3 nodes")
    stuck = replace(MOVING, deadline_exceeded="has timed out")
    stalled = said(serving(), ServingObserved(stuck, (pod,)), now)["Stalled"]
    assert (stalled["reason"], "0/3 nodes" in stalled["message"]) == ("ProgressDeadlineExceeded", True)


def test_zero_replicas_are_ready_and_said(now: datetime) -> None:
    empty = replace(DONE, wanted_replicas=0, replicas=0, updated=0, available=0, ready=0)
    ready = said(serving(replicas=0), ServingObserved(empty), now)["Ready"]
    assert (ready["status"], ready["reason"]) == ("True", "ScaledToZero")


@pytest.mark.parametrize(
    ("window", "measured", "healthy"),
    [
        (None, ("Unknown", "NoTraffic"), ("Unknown", "NoTraffic")),
        (replace(GOOD, drafts=10), ("Unknown", "TooFewDrafts"), ("Unknown", "TooFewDrafts")),
        (replace(GOOD, accepted_tokens=1), ("False", "Inconsistent"), ("Unknown", "Inconsistent")),
        (replace(GOOD, accepted=(900, 700)), ("False", "PositionsMissing"), ("Unknown", "PositionsMissing")),
        (GOOD, ("True", "Measured"), ("True", "Healthy")),
        (WindowCounts(1, 1, 1000, 3000, 0, (0, 0, 0)), ("True", "Measured"), ("False", "DraftsRejected")),
        (WindowCounts(1, 1, 1000, 3000, 900, (500, 300, 100)), ("True", "Measured"), ("False", "BelowThreshold")),
    ],
    ids=["unread", "few", "inconsistent", "positions", "good", "rejected", "below"],
)
@pytest.mark.parametrize("on_degraded", ["Report", "NotReady"])
def test_acceptance_touches_ready_only_when_asked_to(
    now: datetime, window: WindowCounts | None, measured: Any, healthy: Any, on_degraded: str
) -> None:
    what = serving(acceptance={"degradedBelow": {"meanAcceptanceLength": "2.5"}, "onDegraded": on_degraded})
    conditions = said(what, ServingObserved(DONE, window=window), now)
    assert (conditions["AcceptanceMeasured"]["status"], conditions["AcceptanceMeasured"]["reason"]) == measured
    assert (conditions["AcceptanceHealthy"]["status"], conditions["AcceptanceHealthy"]["reason"]) == healthy
    degraded = on_degraded == "NotReady" and healthy[0] == "False"
    assert conditions["Ready"]["status"] == ("False" if degraded else "True")
    assert "Stalled" not in conditions


def test_a_pod_that_cannot_be_read_is_no_verdict(now: datetime) -> None:
    conditions = said(serving(), ServingObserved(DONE, scrape_failure="pod p: /metrics can't be read"), now)
    assert (conditions["AcceptanceMeasured"]["status"], conditions["AcceptanceHealthy"]["status"]) == (
        "False",
        "Unknown",
    )


def test_a_name_conflict_stalls(now: datetime) -> None:
    observed = ServingObserved(problem=Problem("NameConflict", "Deployment qwen exists"))
    assert said(serving(), observed, now)["Stalled"]["reason"] == "NameConflict"


def run_status(succeeded: str, ready: str, **artifact: Any) -> dict[str, Any]:
    return {
        "spec": {"verifier": {"uri": "hf://Qwen/Qwen3.5-9B"}},
        "status": {
            "conditions": [
                {"type": "Succeeded", "status": succeeded},
                {"type": "Ready", "status": ready, "reason": "GateFailed", "message": "too little"},
            ],
            "resolved": {"verifierRevision": "abc"},
            "artifact": artifact,
        },
    }


HEAD = {"head": {"path": "pvc://heads/gsm/1", "digest": "sha256:1"}}


@pytest.mark.parametrize(
    ("run", "reason", "stalled"),
    [
        (None, "ModelNotFound", True),
        ({}, "ModelPending", False),
        (run_status("Unknown", "False"), "ModelPending", False),
        (run_status("False", "False"), "GateNotPassed", True),
        (run_status("True", "True"), "ModelNotFound", True),
        (run_status("True", "True", head={"path": "/somewhere"}), "ModelNotFound", True),
        (run_status("True", "True", **HEAD), "Resolved", False),
    ],
    ids=["missing", "new", "running", "failed", "nothing-published", "not-in-a-claim", "published"],
)
@pytest.mark.parametrize("field", ["head", "model"])
def test_what_a_run_brings_is_served_once_its_gate_passed(
    now: datetime, field: str, run: Any, reason: str, stalled: bool
) -> None:
    what = serving(**{field: {"fineTuneRef": {"name": "gsm"}}})
    observed = ServingObserved(runs={"gsm": run})
    conditions = said(what, observed, now)
    assert conditions["ModelResolved"]["reason"] == reason
    assert ("Stalled" in conditions) is stalled
    assert bool(plan(what, observed, DEFAULTS)) is (reason == "Resolved")


def test_a_run_as_model_is_its_verifier_with_its_head(now: datetime) -> None:
    what = serving(model={"fineTuneRef": {"name": "gsm"}})
    observed = ServingObserved(runs={"gsm": run_status("True", "True", **HEAD)})
    args = status(what, observed, now, DEFAULTS)["resolved"]["args"]
    assert args[:3] == ["Qwen/Qwen3.5-9B", "--revision", "abc"]
    assert '"model":"/mnt/mtp/claims/heads/gsm/1"' in args[-1]


def test_a_run_that_published_only_a_checkpoint_is_served_by_it(now: datetime) -> None:
    what = serving(model={"fineTuneRef": {"name": "gsm"}})
    checkpoint = {"checkpoint": {"path": "pvc://heads/gsm/2", "digest": "sha256:2"}}
    observed = ServingObserved(runs={"gsm": run_status("True", "True", **checkpoint)})
    resolved = status(what, observed, now, DEFAULTS)["resolved"]
    assert resolved["args"][0] == "/mnt/mtp/claims/heads/gsm/2"
    assert "head" not in resolved


REFUSED: dict[str, dict[str, Any]] = {
    "spec.model.image": {"model": {"image": "registry.example/models/qwen:1"}},
    "spec.model.uri": {"model": {"uri": "s3://bucket/model"}},
    "spec.head.image": {"head": {"image": "registry.example/heads/qwen:1"}},
    "spec.head.uri": {"head": {"uri": f"oci://registry.example/heads/qwen@sha256:{'0' * 64}"}},
    "spec.speculative.numSpeculativeTokens": {"speculative": {"numSpeculativeTokens": "Auto"}},
    "spec.headUpdate": {"headUpdate": "Live"},
    "spec.router.httpRoute": {"router": {"httpRoute": {"parentRefs": [{"name": "gateway"}]}}},
    "spec.router.inferencePool": {"router": {"inferencePool": {"endpointPickerRef": {"name": "picker"}}}},
    "spec.monitoring.podMonitor": {"monitoring": {"podMonitor": "Enabled"}},
    "spec.acceptance.onDegraded": {"acceptance": {"onDegraded": "Retune"}},
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_this_version_cannot_do_is_refused_before_anything_is_created(now: datetime, field: str) -> None:
    what = serving(**REFUSED[field])
    assert plan(what, ServingObserved(), DEFAULTS) == []
    stalled = said(what, ServingObserved(), now)["Stalled"]
    assert (stalled["reason"], field in stalled["message"]) == ("NotSupported", True)
