"""Whatever is observed, plan and status answer: an exception would stop the run and say nothing to anybody."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtp_operator.api.conditions import FineTuneCondition
from mtp_operator.measure.window import WindowCounts
from mtp_operator.reconcile import fine_tune_plan, fine_tune_status, serving_plan, serving_status
from mtp_operator.reconcile.events import notes
from mtp_operator.reconcile.fine_tune_run import fine_tune_run
from mtp_operator.reconcile.observed import FineTuneObserved, deployment_view, job_view, pod_view
from mtp_operator.reconcile.serving_run import ServingObserved, serving_of
from mtp_operator.render.defaults import Defaults
from mtp_trainer.contract import Progress, Stage

DEFAULTS = Defaults()

times = st.sampled_from(
    ["2026-11-30T11:59:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "2026-11-30", "yesterday", ""]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | times
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, strategy, strategy, anything)


def some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return mostly(st.fixed_dictionaries({}, optional={name: mostly(value) for name, value in fields.items()}))


counts = st.integers(-2, 5) | st.just(10**400)
conditions = st.lists(
    some(
        {
            "type": st.sampled_from(
                ["Complete", "Failed", "PodScheduled", "Ready", "DisruptionTarget", "Progressing"]
                + [str(kind) for kind in FineTuneCondition]
            ),
            "status": st.sampled_from(["True", "False", "Unknown"]),
            "reason": st.sampled_from(["", "BackoffLimitExceeded", "PodFailurePolicy", "Unschedulable", "x"]),
            "message": st.text(max_size=5),
            "lastTransitionTime": times,
        }
    ),
    max_size=5,
)
acceptance = st.fixed_dictionaries({"drafts": counts, "accepted": st.lists(counts, max_size=9)})
evaluate = st.fixed_dictionaries(
    {
        "stage": st.just("Evaluate"),
        "numSpeculativeTokens": st.integers(),
        "outputParity": st.booleans(),
        "parityPrompts": st.integers(),
        "domain": st.fixed_dictionaries(
            {
                "shipped": acceptance,
                "tuned": acceptance,
                "improvement": st.floats(),
                "improvementLow": st.floats(),
                "improvementHigh": st.floats(),
            }
        ),
        "gate": st.fixed_dictionaries({"passed": st.booleans()}),
    }
).map(json.dumps)
failure = st.fixed_dictionaries(
    {
        "stage": st.sampled_from([stage.value for stage in Stage]),
        "failed": st.just(True),
        "reason": st.sampled_from(["NoMTPHead", "nonsense"]),
        "message": st.text(max_size=5),
    }
).map(json.dumps)
message = evaluate | failure | st.text(max_size=20) | anything.map(lambda value: json.dumps(value, default=str))
state = some(
    {
        "running": some({"startedAt": times}),
        "waiting": some(
            {"reason": st.sampled_from(["ErrImagePull", "CreateContainerConfigError"]), "message": st.text()}
        ),
        "terminated": some(
            {
                "exitCode": st.sampled_from([0, 1, 3, 75, 137]),
                "startedAt": times,
                "finishedAt": times,
                "reason": st.sampled_from(["OOMKilled", "Error"]),
                "message": message,
            }
        ),
    }
)
metadata = some(
    {
        "name": st.text(max_size=5),
        "uid": st.text(max_size=5),
        "labels": some({"kueue.x-k8s.io/queue-name": st.text(max_size=5)}),
        "annotations": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
        "creationTimestamp": times,
        "deletionTimestamp": times,
        "generation": counts,
    }
)
pod = some(
    {
        "metadata": metadata,
        "status": some(
            {
                "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
                "podIP": st.text(max_size=5),
                "conditions": conditions,
                "containerStatuses": st.lists(
                    some({"name": st.just("trainer"), "state": state, "lastState": state}), max_size=2
                ),
            }
        ),
    }
)
job = some(
    {
        "metadata": metadata,
        "spec": some({"suspend": st.booleans()}),
        "status": some({"active": counts, "succeeded": counts, "failed": counts, "conditions": conditions}),
    }
)
deployment = some(
    {
        "metadata": metadata,
        "spec": some({"replicas": counts}),
        "status": some(
            dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas", "readyReplicas"), counts)
            | {"observedGeneration": counts, "conditions": conditions}
        ),
    }
)
previous = some(
    {
        "conditions": conditions,
        "completionTime": times,
        "jobs": st.lists(some({"name": st.text(max_size=3), "active": counts}), max_size=2),
        "retries": counts,
        "resolved": anything,
        "progress": some({"lastUpdateTime": times, "step": counts}),
        "acceptance": anything,
    }
)
run_spec = st.fixed_dictionaries(
    {
        "verifier": st.just({"uri": "pvc://models/qwen"}),
        "dataset": st.just({"uri": "pvc://data/train.jsonl"}),
        "evaluation": st.just({"dataset": {"uri": "pvc://data/test.jsonl"}}),
        "workspace": st.sampled_from([{"claimName": "ws"}, {"storage": "1Gi"}]),
        "output": st.just({"path": "pvc://heads/gsm"}),
    },
    optional={
        "suspend": st.booleans(),
        "activeDeadlineSeconds": st.integers(1, 100),
        "ttlSecondsAfterFinished": st.sampled_from([0, 60, 315360000]),
    },
)
serving_spec = st.fixed_dictionaries(
    {"model": st.just({"uri": "pvc://models/qwen"})},
    optional={"head": st.just({"fineTuneRef": {"name": "gsm"}}), "replicas": st.integers(0, 3)},
)
progress = st.none() | st.builds(
    Progress,
    step=st.integers(),
    total_steps=st.integers(),
    percent=st.integers(),
    loss=st.none() | st.floats(),
    tokens_per_second=st.none() | st.floats(),
    held_out_acceptance=st.lists(st.floats(), max_size=3).map(tuple),
)
window = st.none() | st.builds(
    WindowCounts,
    pods=st.integers(0, 3),
    engines=st.integers(0, 3),
    drafts=st.integers(0, 2**62),
    draft_tokens=st.integers(0, 2**62),
    accepted_tokens=st.integers(0, 2**62),
    accepted=st.lists(st.integers(0, 2**62), max_size=9).map(tuple),
)
thorough = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@thorough
@given(
    spec=mostly(run_spec),
    status=previous,
    meta=metadata,
    jobs=st.dictionaries(st.sampled_from(list(Stage)), job, max_size=4),
    pods=st.lists(st.tuples(st.sampled_from(list(Stage)), pod), max_size=4),
    seen=progress,
)
def test_a_run_is_answered_for_whatever_is_observed(
    spec: Any, status: Any, meta: Any, jobs: dict[Stage, Any], pods: list[tuple[Stage, Any]], seen: Progress | None
) -> None:
    run = fine_tune_run({"metadata": meta, "spec": spec, "status": status})
    observed = FineTuneObserved(
        jobs={stage: job_view(value) for stage, value in jobs.items()},
        pods={stage: tuple(pod_view(value, "trainer") for at, value in pods if at is stage) for stage in Stage},
        progress=seen,
    )
    now = datetime.fromisoformat("2026-11-30T12:00:00+00:00")
    fine_tune_plan.plan(run, observed, now, DEFAULTS)
    fine_tune_plan.next_look(run, observed, now)
    first = fine_tune_status.status(run, observed, now, DEFAULTS)
    assert first["observedGeneration"] == run.generation
    notes(run.previous, first)
    again = fine_tune_run({"metadata": meta, "spec": spec, "status": first})
    later = fine_tune_status.status(again, FineTuneObserved(jobs=observed.jobs, pods=observed.pods), now, DEFAULTS)
    assert later.get("completionTime") == first.get("completionTime")


@thorough
@given(
    spec=mostly(serving_spec),
    status=previous,
    meta=metadata,
    seen=st.none() | deployment,
    pods=st.lists(pod, max_size=3),
    run=st.none() | some({"status": previous, "spec": anything}),
    counted=window,
)
def test_a_serving_is_answered_for_whatever_is_observed(
    spec: Any, status: Any, meta: Any, seen: Any, pods: list[Any], run: Any, counted: WindowCounts | None
) -> None:
    serving = serving_of({"metadata": meta, "spec": spec, "status": status})
    observed = ServingObserved(
        deployment=None if seen is None else deployment_view(seen),
        pods=tuple(pod_view(value, "trainer") for value in pods),
        runs={"gsm": run},
        window=counted,
    )
    now = datetime.fromisoformat("2026-11-30T12:00:00+00:00")
    serving_plan.plan(serving, observed, DEFAULTS)
    first = serving_status.status(serving, observed, now, DEFAULTS)
    again = serving_of({"metadata": meta, "spec": spec, "status": first})
    assert serving_status.status(again, observed, now, DEFAULTS) == first
    notes(serving.previous, first)
