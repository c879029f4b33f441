"""The Service in front of a serving's pods."""

from __future__ import annotations

from typing import Any

from mtp_operator.api.serving_spec import SpecDecodeServingSpec
from mtp_operator.render import labels
from mtp_operator.render.deployment import HTTP_PORT_NAME
from mtp_operator.render.owner import Owner, child_metadata


def serving_service(owner: Owner, spec: SpecDecodeServingSpec) -> dict[str, Any]:
    """Named like the object."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(owner, owner.name, labels.for_serving(owner.name)),
        "spec": {
            "selector": {labels.SERVING: owner.name},
            "ports": [
                {
                    "name": HTTP_PORT_NAME,
                    "port": spec.router.service.port,
                    "targetPort": HTTP_PORT_NAME,
                    "protocol": "TCP",
                }
            ],
        },
    }


def service_url(owner: Owner, spec: SpecDecodeServingSpec) -> str:
    """Where clients in the cluster reach the model, without ``/v1``."""
    return f"http://{owner.name}.{owner.namespace}.svc:{spec.router.service.port}"
