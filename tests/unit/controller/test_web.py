"""What the kubelet and Prometheus read, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from socket import create_server

import aiohttp
import pytest

from mtp_operator.controller.metrics import Metrics
from mtp_operator.controller.probes import Health
from mtp_operator.controller.queue import Key, WorkQueue
from mtp_operator.controller.web import CannotListen, Handler, serving
from mtp_operator.kube.verbs import FINE_TUNE, SERVING
from mtp_operator.measure.counters import Counters
from mtp_operator.measure.store import AcceptanceStore
from mtp_operator.measure.window import Sample

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Site:
    """Pages by path, at a free port."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def get(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self._port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def site(routes: Mapping[str, Handler]) -> AsyncIterator[Site]:
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with serving("127.0.0.1", port, routes):
        yield Site(port)


async def test_a_port_in_use_is_named() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}"):
            async with serving("127.0.0.1", port, {}):
                pass


async def test_a_process_is_ready_once_it_leads_or_stands_by() -> None:
    health = Health(lambda: 0.0)
    async with site({"/readyz": health.ready}) as pages:
        assert await pages.get("/readyz") == (503, "starting\n")
        for state in ("standing by", "leading"):
            health.state = state
            assert await pages.get("/readyz") == (200, f"{state}\n")


async def test_work_that_no_time_limit_ends_makes_the_process_restart() -> None:
    now, begun, release = 0.0, asyncio.Event(), asyncio.Event()

    async def deaf(_: Key) -> None:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    metrics = Metrics(AcceptanceStore())
    queue = WorkQueue(deaf, metrics, limit_seconds=0.01, clock=lambda: now)
    health = Health(lambda: queue.schedule.longest_active_seconds)
    queue.add(Key(FINE_TUNE, "team", "a"))
    task = asyncio.create_task(queue.run())
    async with site({"/healthz": health.alive}) as pages:
        await begun.wait()
        now = health.limit_seconds
        assert await pages.get("/healthz") == (200, "alive\n")
        now = health.limit_seconds + 1
        assert await pages.get("/healthz") == (503, "a look at an object has not ended for 241 s\n")
    release.set()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def sample(at: datetime, drafts: int, *accepted: int) -> Sample:
    counters = Counters(drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=sum(accepted), accepted=accepted)
    return Sample(at, "p", {"0": counters})


async def test_metrics_tell_of_the_queue_and_of_live_acceptance() -> None:
    samples = AcceptanceStore()
    metrics = Metrics(samples)
    queue = WorkQueue(lambda _: asyncio.sleep(0), metrics)
    metrics.watch(queue.schedule)
    metrics.worked("MTPFineTune", "success", 0.2)
    metrics.leading.set(1)
    queue.add(Key(SERVING, "team", "chat"))
    earlier = NOW - timedelta(minutes=1)
    samples.add("team/chat", NOW, [sample(earlier, 0, 0, 0, 0), sample(NOW, 100, 90, 70, 50)], earlier)
    async with site({"/metrics": metrics.show}) as pages:
        lines = (await pages.get("/metrics"))[1].splitlines()
        assert {
            'mtp_operator_reconciles_total{kind="MTPFineTune",result="success"} 1.0',
            'mtp_operator_reconcile_seconds_bucket{kind="MTPFineTune",le="0.25"} 1.0',
            "mtp_operator_leading 1.0",
            "mtp_operator_queue_depth 1.0",
            "mtp_operator_queue_active 0.0",
            'mtp_window_drafts{namespace="team",serving="chat"} 100.0',
            'mtp_mean_acceptance_length{namespace="team",serving="chat"} 3.1',
            'mtp_acceptance_rate{namespace="team",position="0",serving="chat"} 0.9',
            'mtp_acceptance_rate{namespace="team",position="2",serving="chat"} 0.5',
        } <= set(lines)
        samples.forget("team/chat")
        assert "chat" not in (await pages.get("/metrics"))[1]
