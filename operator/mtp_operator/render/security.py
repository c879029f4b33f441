"""Security contexts that the ``restricted`` Pod Security Standard and OpenShift's ``restricted-v2`` both take.

No user, group or fsGroup is named: OpenShift gives each namespace its own range and refuses others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pod_security(overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    """The pod's context; a key of the user's replaces ours."""
    return {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **(overrides or {})}


def container_security() -> dict[str, Any]:
    """The container's context. The root file system is read-only, so whatever is written has a volume."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
