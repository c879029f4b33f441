"""An Event about one of our objects."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from mtp_operator.api import API_VERSION
from mtp_operator.render.labels import OPERATOR
from mtp_operator.render.owner import Owner


def event(owner: Owner, kind: str, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """``kind`` is Normal or Warning. The name follows from the content, so that the same is not told twice."""
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha256("\0".join((owner.uid, kind, reason, message, moment)).encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        # Unlike other children an Event has no owner reference: it goes by its own time to live.
        "metadata": {"name": f"{owner.name}.{digest}", "namespace": owner.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": owner.kind,
            "name": owner.name,
            "namespace": owner.namespace,
            "uid": owner.uid,
        },
        "type": kind,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": OPERATOR},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
