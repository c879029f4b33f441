"""The object that children belong to.

Built by hand: without ``blockOwnerDeletion``, since OpenShift lets only those set it who may update the owner's
finalizers, which the operator may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mtp_operator.api import API_VERSION


@dataclass(frozen=True)
class Owner:
    """Identity of an MTPFineTune or SpecDecodeServing."""

    kind: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)


def owner_references(owner: Owner) -> list[dict[str, Any]]:
    """``metadata.ownerReferences`` of a child: garbage collection deletes it with the owner."""
    return [{"apiVersion": API_VERSION, "kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}]


def child_metadata(
    owner: Owner, name: str, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """``metadata`` of a child."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": owner.namespace,
        "labels": dict(labels),
        "ownerReferences": owner_references(owner),
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata
