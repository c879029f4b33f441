"""What a cluster's controllers do, as one loop over the store: claims, Jobs, Deployments, Services, pods."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from mtp_operator.kube.verbs import CLAIM, DEPLOYMENT
from mtp_operator.local.container import Places
from mtp_operator.local.deployments import stopped_status, sync_deployments
from mtp_operator.local.jobs import sync_jobs
from mtp_operator.local.kubelet import Kubelet
from mtp_operator.local.services import Services
from mtp_operator.local.store import LocalStore

TICK_SECONDS = 0.5
"""Longest wait between two looks; back-offs and deadlines have no event of their own."""


class Cluster:
    """The controllers of one session."""

    def __init__(self, store: LocalStore, places: Places) -> None:
        self._store = store
        self._places = places
        self._kubelet = Kubelet(store, places)
        self._services = Services(store)
        self._bound = {claim["metadata"]["name"] for claim in store.select(CLAIM)}

    async def start(self) -> None:
        """Deal with what an earlier session left."""
        await self._kubelet.recover()

    async def sync(self) -> None:
        """One look at everything."""
        now = datetime.now(UTC)
        self._bind_claims()
        await sync_jobs(self._store, now)
        await sync_deployments(self._store, now)
        await self._services.sync()
        self._kubelet.sync()

    async def stop(self) -> None:
        """Stop every process and listener."""
        await self._services.stop()
        await self._kubelet.stop()

    def sync_status(self) -> None:
        """After :meth:`stop`: let Deployments say that none of their pods run, without starting any."""
        for deployment in self._store.select(DEPLOYMENT):
            self._store.write_status(deployment, stopped_status(deployment))

    def collect(self) -> None:
        """Remove what was deleted while nothing ran."""
        self._kubelet.collect()
        self._bind_claims()

    async def wait(self) -> None:
        """Until something changed, or it is time to look again."""
        # not wait_for: before Python 3.12 it may swallow the cancellation that ends a session
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                await self._store.changed.wait()
        self._store.changed.clear()

    def _bind_claims(self) -> None:
        """Give new claims their folders, and remove those of claims that were deleted."""
        found = {claim["metadata"]["name"] for claim in self._store.select(CLAIM)}
        for claim in self._store.select(CLAIM):
            if claim.get("status", {}).get("phase") != "Bound":
                self._places.claims.folder(claim["metadata"]["name"])
                self._store.write_status(claim, {"phase": "Bound"})
        for name in self._bound - found:
            self._places.claims.remove(name)
        self._bound = found
