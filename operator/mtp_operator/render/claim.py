"""The claim of a workspace that a run owns. Outputs never live in it: it is deleted with the run."""

from __future__ import annotations

from typing import Any

from mtp_operator.api.fine_tune_spec import WorkspaceSpec
from mtp_operator.render import labels
from mtp_operator.render.owner import Owner, child_metadata


def workspace_claim_name(owner: Owner, workspace: WorkspaceSpec) -> str:
    """Name of the claim that holds the workspace, the user's or the run's own."""
    return workspace.claim_name or f"{owner.name}-workspace"


def workspace_claim(owner: Owner, workspace: WorkspaceSpec) -> dict[str, Any] | None:
    """The claim to create; ``None`` when the user brings one."""
    if workspace.claim_name is not None:
        return None
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(workspace.storage)}},
    }
    if workspace.storage_class_name is not None:
        spec["storageClassName"] = workspace.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": child_metadata(owner, workspace_claim_name(owner, workspace), labels.for_run(owner.name)),
        "spec": spec,
    }
