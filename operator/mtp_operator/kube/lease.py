"""One leader at a time, by a ``coordination.k8s.io`` Lease.

kopf's own peering only asks others to pause, and a paused operator has no way to know that it missed the message. Here
the lease is taken before kopf starts, and a process that can't renew it in time ends: two leaders can overlap only
by what is in flight, which level-triggered, idempotent work forgives.

Whether a lease has run out is judged by how long *this* process has seen no renewal, never by comparing the holder's
clock with ours.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from mtp_operator.kube.verbs import LEASE, AlreadyExists, Conflict, Kind, KubeError, Object

logger = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]


class LeaseVerbs(Protocol):
    """What a lease needs of a client."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None: ...

    async def create(self, obj: Object) -> Object: ...

    async def replace(self, obj: Object) -> Object: ...


class LeaseLost(Exception):
    """The lease wasn't renewed in time, or somebody else holds it: stop now."""


@dataclass(frozen=True)
class LeaseTimes:
    """In seconds; the figures of client-go.

    Attributes:
        duration: how long others wait without a renewal before they take over.
        renew_within: how long the holder may fail to renew before it gives up; shorter than ``duration``.
        retry: between two tries.
    """

    duration: float = 15.0
    renew_within: float = 10.0
    retry: float = 2.0


class LeaderLease:
    """A lease that one process at a time holds.

    Args:
        verbs: the cluster.
        namespace: of the lease.
        name: of the lease.
        identity: of this process; the pod's name, so that a restarted container goes on at once.
    """

    def __init__(
        self,
        verbs: LeaseVerbs,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes = LeaseTimes(),
        clock: Clock | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._verbs = verbs
        self._namespace, self._name = namespace, name
        self._identity = identity
        self._times = times
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self._seen: tuple[str, float] | None = None
        self._held: Object | None = None
        self._holder = ""

    async def acquire(self) -> None:
        """Return once this process holds the lease."""
        told = ""
        while not await self._try(self._times.renew_within):
            holder = self._holder or "nobody yet"
            if holder != told:
                logger.info("standing by: the lease %s/%s is held by %s", self._namespace, self._name, holder)
                told = holder
            await self._pause()
        logger.info("holding the lease %s/%s as %s", self._namespace, self._name, self._identity)

    async def keep(self) -> None:
        """Renew for ever.

        Raises:
            LeaseLost: it could not be renewed in time, or another holds it.
        """
        renewed = self._clock()
        while True:
            await self._pause()
            begun = self._clock()
            left = max(0.1, renewed + self._times.renew_within - begun)
            if await self._try(left):
                renewed = begun
            elif self._holder not in ("", self._identity):
                raise LeaseLost(f"{self._holder} holds the lease {self._namespace}/{self._name}")
            elif self._clock() - renewed > self._times.renew_within:
                raise LeaseLost(
                    f"the lease {self._namespace}/{self._name} was not renewed for {self._times.renew_within:g} s"
                )

    async def release(self) -> None:
        """Let the next one start at once. Not managing to is harmless: the lease runs out."""
        if self._held is None:
            return
        lease, self._held = self._held, None
        spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._verbs.replace({**lease, "spec": spec})
        except KubeError as error:
            logger.info("the lease was not released: %s", error)

    async def _try(self, within_seconds: float) -> bool:
        """Take or renew the lease if that is possible now; an answer that comes too late is none."""
        try:
            async with asyncio.timeout(within_seconds):
                return await self._take()
        except (AlreadyExists, Conflict):
            return False  # somebody was faster; the next look shows who
        except (KubeError, TimeoutError) as error:
            logger.warning("the lease %s/%s: %s", self._namespace, self._name, error or type(error).__name__)
            return False

    async def _take(self) -> bool:
        lease = await self._verbs.get(LEASE, self._namespace, self._name)
        if lease is None:
            self._held = await self._verbs.create(self._lease(0))
        else:
            self._observe(lease)
            if not self._takeable(lease):
                return False
            self._held = await self._verbs.replace({**lease, "spec": self._spec(lease)})
        self._holder = self._identity
        return True

    def _observe(self, lease: Object) -> None:
        version = str(lease["metadata"]["resourceVersion"])
        self._holder = str(lease.get("spec", {}).get("holderIdentity") or "")
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self._clock())

    def _takeable(self, lease: Object) -> bool:
        if self._holder in ("", self._identity):
            return True
        lasts = float(lease["spec"].get("leaseDurationSeconds") or self._times.duration)
        return self._seen is not None and self._clock() - self._seen[1] > lasts

    def _lease(self, transitions: int) -> Object:
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._terms(transitions, _now()),
        }

    def _spec(self, lease: Object) -> Object:
        spec: Object = lease.get("spec") or {}
        transitions = int(spec.get("leaseTransitions") or 0)
        if self._holder == self._identity:
            return self._terms(transitions, str(spec.get("acquireTime") or _now()))
        return self._terms(transitions + 1, _now())

    def _terms(self, transitions: int, acquired: str) -> Object:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "acquireTime": acquired,
            "renewTime": _now(),
            "leaseTransitions": transitions,
        }

    async def _pause(self) -> None:
        """With jitter, so that many who wait don't ask at the same moment."""
        await self._sleep(self._times.retry * random.uniform(0.8, 1.2))  # noqa: S311 -- not a secret


def _now() -> str:
    """RFC 3339 with microseconds, the API's ``MicroTime``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
