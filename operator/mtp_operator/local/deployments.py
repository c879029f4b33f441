"""Runs Deployments as their controller does: as many pods as asked for, replaced in steps when the template changes.

Pods belong to the Deployment itself; there are no ReplicaSets in between.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from mtp_operator.kube.verbs import DEPLOYMENT, POD, Object
from mtp_operator.local.pods import FINISHED, delete_pods, is_ready, pod_from_template
from mtp_operator.local.store import LocalStore, timestamp

HASH_LABEL = "pod-template-hash"


async def sync_deployments(store: LocalStore, now: datetime) -> None:
    """One look at every Deployment."""
    for deployment in store.select(DEPLOYMENT):
        await _sync(store, deployment, now)


async def _sync(store: LocalStore, deployment: Object, now: datetime) -> None:
    spec, digest = deployment["spec"], _hash(deployment["spec"]["template"])
    wanted = spec.get("replicas", 1)
    pods = store.owned(POD, deployment)
    ended = [pod for pod in pods if pod.get("status", {}).get("phase") in FINISHED]
    living = [pod for pod in pods if pod not in ended and "deletionTimestamp" not in pod["metadata"]]
    current = [pod for pod in living if pod["metadata"]["labels"].get(HASH_LABEL) == digest]
    outdated = [pod for pod in living if pod not in current]
    surge, unavailable = _limits(spec, wanted)
    # Pods that are still stopping hold their GPU, and here their memory: they count against the surge.
    room = wanted + surge - (len(pods) - len(ended))
    for _ in range(max(0, min(wanted - len(current), room))):
        labels = {HASH_LABEL: digest}
        await store.create(pod_from_template(deployment, spec["template"], labels))
    ready = [pod for pod in living if is_ready(pod)]
    spare = max(0, len(ready) - (wanted - unavailable))
    broken_first = sorted(outdated, key=is_ready)
    doomed = [pod for pod in broken_first if not is_ready(pod)]
    doomed += [pod for pod in broken_first if is_ready(pod)][:spare]
    excess = sorted(current, key=is_ready)[: max(0, len(current) - wanted)]
    await delete_pods(store, [*ended, *doomed, *excess])
    store.write_status(deployment, _status(deployment, wanted, unavailable, living, current, now))


def stopped_status(deployment: Object) -> dict[str, Any]:
    """Status of a Deployment none of whose pods run."""
    wanted = deployment["spec"].get("replicas", 1)
    return _status(deployment, wanted, _limits(deployment["spec"], wanted)[1], [], [], datetime.now(UTC))


def _status(
    deployment: Object, wanted: int, unavailable: int, living: list[Object], current: list[Object], now: datetime
) -> dict[str, Any]:
    old = deployment.get("status", {})
    ready, updated = sum(map(is_ready, living)), len(current)
    updated_ready = sum(map(is_ready, current))
    available = ready >= wanted - unavailable if wanted > 1 else ready >= wanted
    done = updated_ready >= wanted and len(living) == updated
    counts = {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": len(living),
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, wanted - ready),
    }
    moved = any(old.get(field) != value for field, value in counts.items())
    progressing = next((c for c in old.get("conditions", []) if c["type"] == "Progressing"), None)
    since = timestamp(now) if moved or progressing is None else progressing["lastUpdateTime"]
    stuck = not done and _seconds(since, now) > deployment["spec"].get("progressDeadlineSeconds", 600)
    reason = "NewReplicaSetAvailable" if done else "ProgressDeadlineExceeded" if stuck else "ReplicaSetUpdated"
    return counts | {
        "conditions": [
            _condition(old, "Available", available, f"MinimumReplicas{'Available' if available else 'Unavailable'}"),
            _condition(old, "Progressing", not stuck, reason) | {"lastUpdateTime": since},
        ]
    }


def _condition(old: dict[str, Any], kind: str, value: bool, reason: str) -> dict[str, Any]:
    status = "True" if value else "False"
    same = next((c for c in old.get("conditions", []) if c["type"] == kind and c["status"] == status), None)
    since = same["lastTransitionTime"] if same else timestamp()
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": since}


def _limits(spec: dict[str, Any], wanted: int) -> tuple[int, int]:
    """Pods above and below the wanted number while they are replaced."""
    rolling = spec.get("strategy", {}).get("rollingUpdate", {})
    surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return surge, max(unavailable, 0 if surge else 1)


def _share(value: int | str, wanted: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%")) * wanted
    return -(-percent // 100) if up else percent // 100


def _seconds(since: str, now: datetime) -> float:
    return (now - datetime.fromisoformat(since.replace("Z", "+00:00"))).total_seconds()


def _hash(template: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
