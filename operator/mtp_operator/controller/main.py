"""The operator's entry point: a table of contents.

Find the cluster, wait for our kinds, become the leader, then watch and work until told to stop or no longer leading.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

import kopf

from mtp_operator.controller.fetch import Fetcher
from mtp_operator.controller.handlers import handlers
from mtp_operator.controller.login import register_login
from mtp_operator.controller.metrics import Metrics
from mtp_operator.controller.probes import Health
from mtp_operator.controller.queue import WorkQueue
from mtp_operator.controller.reconcilers import OUR_KINDS, Reconcilers, resync
from mtp_operator.controller.settings import Settings, kopf_settings, parse
from mtp_operator.controller.web import CannotListen, serving
from mtp_operator.kube.client import KubeClient
from mtp_operator.kube.connection import NoConnection, load_configuration
from mtp_operator.kube.lease import LeaderLease, LeaseLost
from mtp_operator.kube.verbs import KubeError
from mtp_operator.measure.store import AcceptanceStore

logger = logging.getLogger(__name__)

LEASE = "mtp-operator"
KINDS_RETRY_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    settings = parse(arguments)
    kopf.configure(log_format=kopf.LogFormat.JSON if settings.log_format == "json" else kopf.LogFormat.FULL)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # it tells of every event that a handler took
    # kopf asks who it runs as, and a random uid without a passwd entry, as OpenShift gives, ends it there.
    os.environ.setdefault("POD_ID", settings.identity)
    try:
        asyncio.run(run(settings))
    except (CannotListen, LeaseLost, NoConnection) as error:
        logger.error("ending: %s", error)
        return 1
    return 0


async def run(settings: Settings) -> None:
    """One life of the operator.

    Raises:
        CannotListen: a port is in use.
        LeaseLost: another process leads, or may begin to.
        NoConnection: there is no cluster to connect to.
    """
    stop = asyncio.Event()
    _stop_on_signals(stop)
    samples = AcceptanceStore()
    metrics = Metrics(samples)
    async with AsyncExitStack() as open_until_end:
        cluster = await open_until_end.enter_async_context(KubeClient(load_configuration))
        fetch = await open_until_end.enter_async_context(Fetcher())
        queue = WorkQueue(Reconcilers(cluster, fetch, samples, settings.defaults), metrics, settings.workers)
        metrics.watch(queue.schedule)
        health = Health(lambda: queue.schedule.longest_active_seconds)
        probes = {"/healthz": health.alive, "/readyz": health.ready}
        await open_until_end.enter_async_context(serving(settings.address, settings.probe_port, probes))
        show = {"/metrics": metrics.show}
        await open_until_end.enter_async_context(serving(settings.address, settings.metrics_port, show))

        if not await _unless(stop, wait_for_kinds(cluster)):
            return
        lease = LeaderLease(cluster, settings.lease_namespace, LEASE, settings.identity)
        health.state = "standing by"
        if not await _unless(stop, lease.acquire()):
            return
        health.state = "leading"
        metrics.leading.set(1)
        try:
            await lead(settings, cluster, queue, lease, stop)
        finally:
            await lease.release()


async def lead(
    settings: Settings, cluster: KubeClient, queue: WorkQueue, lease: LeaderLease, stop: asyncio.Event
) -> None:
    """Watch and work until ``stop``, or until one of the parts ends."""
    parts = [
        asyncio.create_task(stop.wait(), name="stop"),
        asyncio.create_task(lease.keep(), name="lease"),
        asyncio.create_task(resync(cluster, settings.namespaces, queue.add, settings.resync_seconds), name="resync"),
        asyncio.create_task(queue.run(), name="queue"),
        asyncio.create_task(watch(settings, queue, stop), name="watch"),
    ]
    try:
        ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for part in reversed(parts):  # the lease is the last to go: what was begun ends under it
            if not part.done():
                part.cancel()
                await asyncio.gather(part, return_exceptions=True)
    for part in ended:
        part.result()


async def watch(settings: Settings, queue: WorkQueue, stop: asyncio.Event) -> None:
    """kopf, for as long as it runs."""
    registry = handlers(queue.add)
    register_login(registry)
    started, own_stop = asyncio.Event(), asyncio.Event()

    async def signals_back() -> None:
        await started.wait()
        _stop_on_signals(stop)  # kopf has taken them, and would end before the work that has begun

    back = asyncio.create_task(signals_back())
    try:
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            ready_flag=started,
            stop_flag=own_stop,
        )
    finally:
        back.cancel()


async def wait_for_kinds(cluster: KubeClient) -> None:
    """Return once the CRDs of both kinds are installed: kopf looks for them only when it starts."""
    told = ""
    while True:
        try:
            missing = [kind.plural for kind in OUR_KINDS if not await cluster.serves(kind)]
            what = f"the CRDs of {' and '.join(missing)} are not installed" if missing else ""
        except KubeError as error:
            missing, what = ["?"], str(error)
        if not missing:
            return
        if what != told:
            logger.warning("waiting: %s", what)
            told = what
        await asyncio.sleep(KINDS_RETRY_SECONDS)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Whether ``work`` ended before ``stop``."""
    waiter, worker = asyncio.create_task(stop.wait()), asyncio.create_task(work)
    await asyncio.wait((waiter, worker), return_when=asyncio.FIRST_COMPLETED)
    for task in (waiter, worker):
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if worker.done() and not worker.cancelled():
        worker.result()
        return True
    return False


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


if __name__ == "__main__":
    sys.exit(main())
