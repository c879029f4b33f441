"""Pod objects, as controllers make and read them."""

from __future__ import annotations

import copy
import secrets
from typing import Any

from mtp_operator.kube.verbs import POD, Object
from mtp_operator.local.store import LocalStore

FINISHED = ("Succeeded", "Failed")


def pod_from_template(owner: Object, template: dict[str, Any], labels: dict[str, str]) -> Object:
    """A new pod of a Job or a Deployment, named after it."""
    template = copy.deepcopy(template)
    metadata, name = template.get("metadata", {}), owner["metadata"]["name"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name,
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": f"{name}-{secrets.token_hex(3)[:5]}",
            "namespace": owner["metadata"]["namespace"],
            "labels": {**metadata.get("labels", {}), **labels},
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    }


def runs_for_ever(pod: Object) -> bool:
    """Whether its container is started again whenever it ends."""
    return bool(pod["spec"].get("restartPolicy", "Always") == "Always")


def is_ready(pod: Object) -> bool:
    """Whether it takes requests."""
    conditions = pod.get("status", {}).get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


async def delete_pods(store: LocalStore, pods: list[Object]) -> None:
    """Delete them, each only if it is still the one that was seen."""
    for pod in pods:
        await store.delete(POD, pod["metadata"]["namespace"], pod["metadata"]["name"], pod["metadata"]["uid"])
