"""Runs, Jobs and pods as JSON, the way an API server gives them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mtp_operator.reconcile.fine_tune_run import FineTuneRun, fine_tune_run
from mtp_operator.reconcile.observed import FineTuneObserved, job_view, pod_view
from mtp_trainer.contract import Stage

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Scene:
    """A run and what is seen of it; tests describe, views are made at the end."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] = {
            "verifier": {"uri": "pvc://models/qwen"},
            "dataset": {"uri": "pvc://data/train.jsonl"},
            "evaluation": {"dataset": {"uri": "pvc://data/test.jsonl"}},
            "workspace": {"claimName": "ws"},
            "output": {"path": "pvc://heads/gsm"},
        }
        self.status: dict[str, Any] = {}
        self.labels: dict[str, str] = {}
        self.jobs: dict[Stage, dict[str, Any]] = {}
        self.pods: dict[Stage, list[dict[str, Any]]] = {}

    def remember(self, *types: str) -> Scene:
        """Conditions that the status has as True."""
        self.status["conditions"] = [
            {"type": kind, "status": "True", "reason": "Completed", "message": "", "lastTransitionTime": ago(900)}
            for kind in types
        ]
        return self

    def job(
        self, stage: Stage, *, condition: str = "", reason: str = "", suspend: bool = False, **counts: int
    ) -> Scene:
        """A Job, with a condition that is True since 10 s, or 900 s for ``lost``."""
        name = f"gsm-{stage.value.lower()}"
        conditions = [{"type": condition, "status": "True", "reason": reason, "lastTransitionTime": ago(10)}]
        self.jobs[stage] = {
            "metadata": {"name": name, "uid": f"job-{name}", "labels": self.labels, "creationTimestamp": ago(900)},
            "spec": {"suspend": suspend},
            "status": {**counts, "conditions": conditions if condition else []},
        }
        return self

    def pod(self, stage: Stage, state: dict[str, Any] | None = None, **status: Any) -> Scene:
        """A pod whose container is in this state (``state`` of a container status)."""
        pods = self.pods.setdefault(stage, [])
        container = [{"name": "trainer", "state": state}] if state is not None else []
        pods.append(
            {
                "metadata": {"name": f"pod-{len(pods)}", "uid": f"pod-{len(pods)}", "creationTimestamp": ago(900)},
                "status": {"phase": "Pending", "containerStatuses": container, **status},
            }
        )
        return self

    def running(self, stage: Stage, seconds: float = 60) -> Scene:
        return self.pod(stage, {"running": {"startedAt": ago(seconds)}}, phase="Running")

    def ended(self, stage: Stage, exit_code: int, message: dict[str, Any] | str = "", **more: Any) -> Scene:
        text = message if isinstance(message, str) else json.dumps(message)
        terminated = {
            "exitCode": exit_code, "message": text, "startedAt": ago(100), "finishedAt": ago(20 - len(self.pods)),
        } | more  # fmt: skip
        return self.pod(stage, {"terminated": terminated}, phase="Failed" if exit_code else "Succeeded")

    @property
    def run(self) -> FineTuneRun:
        metadata = {"name": "gsm", "namespace": "team", "uid": "0a1b2c3d", "generation": 1, "labels": self.labels}
        return fine_tune_run({"metadata": metadata, "spec": self.spec, "status": self.status})

    @property
    def observed(self) -> FineTuneObserved:
        return FineTuneObserved(
            jobs={stage: job_view(job) for stage, job in self.jobs.items()},
            pods={stage: tuple(pod_view(pod, "trainer") for pod in pods) for stage, pods in self.pods.items()},
            config_maps=frozenset(job["metadata"]["name"] for job in self.jobs.values()),
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def prepared() -> dict[str, Any]:
    """The termination message of a Prepare that went well."""
    return {
        "stage": "Prepare", "family": "qwen3_5", "verifierDigest": "sha256:v", "headTensors": 15,
        "headParameters": 1000, "dataDigest": "sha256:d", "read": 10, "kept": 9, "trainDocuments": 8,
        "validationDocuments": 1, "trainTokens": 100, "trainedTokens": 60, "rows": 4, "domainPrompts": 5,
    }  # fmt: skip


@pytest.fixture
def evaluated() -> dict[str, Any]:
    """The termination message of an Evaluate whose gate passed."""
    return {
        "stage": "Evaluate", "numSpeculativeTokens": 3, "outputParity": True, "parityPrompts": 5,
        "domain": {
            "shipped": {"drafts": 9120, "accepted": [8181, 6557, 4341]},
            "tuned": {"drafts": 9000, "accepted": [8199, 6966, 5508]},
            "improvement": 0.205, "improvementLow": 0.15, "improvementHigh": 0.26, "tokensPerSecondRatio": 1.1821,
        },
        "gate": {"passed": True},
    }  # fmt: skip
