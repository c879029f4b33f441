"""The few Kubernetes verbs that the operator uses, as a protocol.

Two implementations: :mod:`mtp_operator.kube.client` talks to an API server, :mod:`mtp_operator.local.store` keeps the
objects in a folder and runs pods as local processes. Everything above this line is the same code.
Objects are plain JSON dictionaries with ``apiVersion``, ``kind`` and ``metadata``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

Object = dict[str, Any]


class Kind(NamedTuple):
    """A resource type: ``api_version`` as in manifests, ``kind``, and the ``plural`` of its URL."""

    api_version: str
    kind: str
    plural: str


FINE_TUNE = Kind("specdecode.dev/v1alpha1", "MTPFineTune", "mtpfinetunes")
SERVING = Kind("specdecode.dev/v1alpha1", "SpecDecodeServing", "specdecodeservings")
JOB = Kind("batch/v1", "Job", "jobs")
POD = Kind("v1", "Pod", "pods")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE = Kind("v1", "Service", "services")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
EVENT = Kind("v1", "Event", "events")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")

KINDS: dict[tuple[str, str], Kind] = {
    (k.api_version, k.kind): k
    for k in (FINE_TUNE, SERVING, JOB, POD, CONFIG_MAP, CLAIM, SERVICE, DEPLOYMENT, EVENT, LEASE)
}


def kind_of(obj: Object) -> Kind:
    """The :class:`Kind` of a manifest.

    Raises:
        KeyError: a type that the operator doesn't handle.
    """
    return KINDS[(obj["apiVersion"], obj["kind"])]


class KubeError(Exception):
    """An API error. ``status`` is the HTTP code, 0 when there was no answer."""

    def __init__(self, status: int, reason: str, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class AlreadyExists(KubeError):
    """Create met an object of that name (409 AlreadyExists)."""


class Conflict(KubeError):
    """The object changed since it was read (409 Conflict)."""


class NotFound(KubeError):
    """No such object (404)."""


class Refused(KubeError):
    """The API server will not take this object as it is (400, 403, 422): retrying the same won't help."""


class Verbs(Protocol):
    """What the reconcilers may do to a cluster."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """The object, or ``None`` when it doesn't exist."""

    async def list(self, kind: Kind, namespace: str | None, label_selector: str | None = None) -> list[Object]:
        """Objects of one namespace (``None``: all), restricted by an equality label selector."""

    async def create(self, obj: Object) -> Object:
        """Create.

        Raises:
            AlreadyExists: an object of that name is there, whoever owns it.
        """

    async def apply(self, obj: Object) -> Object:
        """Server-side apply as field manager ``mtp-operator``, taking over conflicting fields."""

    async def patch_status(self, obj: Object, status: Object) -> Object:
        """Replace ``status`` through the status subresource.

        Raises:
            Conflict: ``obj``'s resourceVersion is no longer the newest.
        """

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str | None = None) -> None:
        """Delete in the background, with its dependents; no error when it's gone already. ``uid`` is a precondition."""
