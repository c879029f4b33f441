"""A cluster in memory: the verbs over a dictionary, and a Job controller's part played by the test."""

from __future__ import annotations

import copy
import itertools
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mtp_operator.kube.verbs import (
    FINE_TUNE,
    JOB,
    POD,
    SERVING,
    AlreadyExists,
    Conflict,
    Kind,
    KubeError,
    NotFound,
    Object,
    kind_of,
)

START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


class MemoryVerbs:
    """:class:`mtp_operator.kube.verbs.Verbs` with versions, uids and name conflicts; ``refuse`` makes a verb fail."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.calls: Counter[str] = Counter()
        self.refuse: dict[tuple[str, str], KubeError] = {}
        self._numbers = itertools.count(1)

    def _key(self, obj: Object) -> tuple[str, str, str]:
        return kind_of(obj).plural, obj["metadata"]["namespace"], obj["metadata"]["name"]

    def _count(self, verb: str, kind: Kind) -> None:
        self.calls[f"{verb} {kind.kind}"] += 1
        if (verb, kind.kind) in self.refuse:
            raise self.refuse[verb, kind.kind]

    def put(self, obj: Object) -> Object:
        number = next(self._numbers)
        new = copy.deepcopy(obj)
        new["metadata"].setdefault("uid", f"uid-{number}")
        new["metadata"].setdefault("generation", 1)
        new["metadata"]["resourceVersion"] = str(number)
        self.objects[self._key(new)] = new
        return copy.deepcopy(new)

    def the(self, kind: Kind, name: str, namespace: str = "team") -> Object:
        return self.objects[kind.plural, namespace, name]

    def names(self, kind: Kind) -> list[str]:
        return sorted(name for plural, _, name in self.objects if plural == kind.plural)

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        self._count("get", kind)
        return copy.deepcopy(self.objects.get((kind.plural, namespace, name)))

    async def list(self, kind: Kind, namespace: str | None, label_selector: str | None = None) -> list[Object]:
        self._count("list", kind)
        wanted = dict(part.split("=") for part in (label_selector or "").split(",") if part)
        return [
            copy.deepcopy(obj)
            for (plural, found, _), obj in self.objects.items()
            if plural == kind.plural
            and namespace in (None, found)
            and wanted.items() <= obj["metadata"].get("labels", {}).items()
        ]

    async def create(self, obj: Object) -> Object:
        self._count("create", kind_of(obj))
        if self._key(obj) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{obj['metadata']['name']} already exists")
        return self.put(obj)

    async def apply(self, obj: Object) -> Object:
        self._count("apply", kind_of(obj))
        old = self.objects.get(self._key(obj))
        if old is None:
            return self.put(obj)
        new = {**old, "spec": {**old["spec"], **obj["spec"]}}
        for field in ("labels", "annotations"):
            if field in obj["metadata"]:
                new["metadata"] = {**new["metadata"], field: obj["metadata"][field]}
        if new["spec"] != old["spec"]:
            new["metadata"] = {**new["metadata"], "generation": old["metadata"]["generation"] + 1}
        return copy.deepcopy(old) if new == old else self.put(new)

    async def patch_status(self, obj: Object, status: Object) -> Object:
        self._count("patch_status", kind_of(obj))
        old = self.objects.get(self._key(obj))
        if old is None:
            raise NotFound(404, "NotFound", "gone")
        if old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "changed")
        return self.put({**old, "status": copy.deepcopy(status)})

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str | None = None) -> None:
        self._count("delete", kind)
        self.objects.pop((kind.plural, namespace, name), None)


class Clock:
    """The time, as the test moves it."""

    def __init__(self) -> None:
        self.now = START

    def pass_seconds(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def text(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")


class Cluster:
    """What the controllers of a real cluster would do, one step at a time."""

    def __init__(self, verbs: MemoryVerbs, clock: Clock) -> None:
        self.verbs, self.clock = verbs, clock

    def start_pod(self, job_name: str, ip: str = "10.0.0.7") -> Object:
        job = self.verbs.the(JOB, job_name)
        job["status"] = {"active": 1}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{job_name}-abcde",
                "namespace": job["metadata"]["namespace"],
                "labels": job["spec"]["template"]["metadata"]["labels"],
                "creationTimestamp": self.clock.text(),
                "ownerReferences": [
                    {"kind": "Job", "name": job_name, "uid": job["metadata"]["uid"], "controller": True}
                ],
            },
            "spec": {},
            "status": {
                "phase": "Running",
                "podIP": ip,
                "containerStatuses": [{"name": "trainer", "state": {"running": {"startedAt": self.clock.text()}}}],
            },
        }
        return self.verbs.put(pod)

    def end_pod(self, job_name: str, message: dict[str, Any] | str, exit_code: int = 0) -> None:
        """The pod ends with this termination message, and its Job with it."""
        pod = self.verbs.the(POD, f"{job_name}-abcde")
        pod["status"]["phase"] = "Succeeded" if exit_code == 0 else "Failed"
        pod["status"]["containerStatuses"][0]["state"] = {
            "terminated": {
                "exitCode": exit_code,
                "finishedAt": self.clock.text(),
                "startedAt": self.clock.text(),
                "message": message if isinstance(message, str) else json.dumps(message),
            }
        }
        kind, reason = ("Complete", "") if exit_code == 0 else ("Failed", "PodFailurePolicy")
        self.verbs.the(JOB, job_name)["status"] = {
            "succeeded": int(exit_code == 0),
            "failed": int(exit_code != 0),
            "conditions": [{"type": kind, "status": "True", "reason": reason, "lastTransitionTime": self.clock.text()}],
        }


@pytest.fixture
def verbs() -> MemoryVerbs:
    return MemoryVerbs()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(verbs: MemoryVerbs, clock: Clock) -> Cluster:
    return Cluster(verbs, clock)


@pytest.fixture
def fine_tune(verbs: MemoryVerbs) -> Object:
    return verbs.put(
        {
            "apiVersion": FINE_TUNE.api_version,
            "kind": FINE_TUNE.kind,
            "metadata": {"name": "gsm", "namespace": "team", "uid": "0a1b2c3d-run"},
            "spec": {
                "verifier": {"uri": "pvc://models/qwen"},
                "dataset": {"uri": "pvc://data/train.jsonl", "responses": "AsIs"},
                "evaluation": {"dataset": {"uri": "pvc://data/test.jsonl"}},
                "workspace": {"storage": "10Gi"},
                "output": {"path": "pvc://heads/gsm"},
                "pods": {"gpus": 0},
            },
            "status": {"observedGeneration": -1},
        }
    )


@pytest.fixture
def serving(verbs: MemoryVerbs) -> Object:
    return verbs.put(
        {
            "apiVersion": SERVING.api_version,
            "kind": SERVING.kind,
            "metadata": {"name": "qwen", "namespace": "team", "uid": "9f8e7d6c-serving"},
            "spec": {
                "model": {"uri": "pvc://models/qwen"},
                "head": {"uri": "pvc://heads/gsm"},
                "engine": {"gpus": 0},
                "acceptance": {"minDrafts": 100},
            },
            "status": {"observedGeneration": -1},
        }
    )


@pytest.fixture
def results() -> dict[str, dict[str, Any]]:
    """Termination messages of a run that goes well, by stage."""
    head = {"path": "/mnt/mtp/claims/heads/gsm/sha256-1", "digest": "sha256:1", "sizeBytes": 9}
    return {
        "prepare": {
            "stage": "Prepare", "family": "qwen3_5", "verifierDigest": "sha256:v", "headTensors": 15,
            "headParameters": 1000, "dataDigest": "sha256:d", "read": 10, "kept": 9, "trainDocuments": 8,
            "validationDocuments": 1, "trainTokens": 100, "trainedTokens": 60, "rows": 4, "domainPrompts": 5,
        },
        "train": {
            "stage": "Train", "objective": "KL", "kvContext": "Serving", "steps": 3, "optimizerSteps": 9,
            "bestStep": 9, "firstLoss": 2.0, "lastLoss": 1.0, "shippedPredicted": [0.8, 0.5, 0.3],
            "tunedPredicted": [0.9, 0.7, 0.5], "tokensPerSecond": 1000.0, "uniqueTokens": 60, "passes": 3.0,
            "head": {"path": "/mnt/mtp/workspace/gsm-0a1b2c3d/train/head", "digest": "sha256:1", "sizeBytes": 9},
        },
        "evaluate": {
            "stage": "Evaluate", "numSpeculativeTokens": 3, "outputParity": True, "parityPrompts": 5,
            "domain": {
                "shipped": {"drafts": 1000, "accepted": [800, 500, 300]},
                "tuned": {"drafts": 1000, "accepted": [900, 700, 500]},
                "improvement": 0.5, "improvementLow": 0.4, "improvementHigh": 0.6, "tokensPerSecondRatio": 1.18,
            },
            "gate": {"passed": True},
        },
        "publish": {"stage": "Publish", "head": head, "tags": ["r7"]},
    }  # fmt: skip
