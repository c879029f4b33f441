"""Reading what pods say, from servers that say what they shouldn't."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from mtp_operator.controller import fetch as fetch_module
from mtp_operator.controller.fetch import Fetcher, TooLong


@asynccontextmanager
async def pod(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.get("/metrics", handler)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    finally:
        await runner.cleanup()


async def test_text_is_read_even_where_it_is_no_utf_8() -> None:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=b"drafts 1\n\xff\n")

    async with pod(metrics) as url, Fetcher() as fetch:
        assert await fetch(url) == "drafts 1\n\ufffd\n"


async def test_an_error_is_an_error() -> None:
    async def unwell(_: web.Request) -> web.Response:
        return web.Response(status=503)

    async with pod(unwell) as url, Fetcher() as fetch:
        with pytest.raises(aiohttp.ClientResponseError, match="503"):
            await fetch(url)


async def test_more_than_metrics_can_be_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_module, "MAX_BYTES", 100_000)
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 10_000)
                sent += 10_000
        except ConnectionError:
            return answer

    async with pod(endless) as url, Fetcher() as fetch:
        with pytest.raises(TooLong, match="100000 bytes"):
            await fetch(url)
    assert sent >= 100_000


async def test_a_pod_cannot_send_the_operator_elsewhere() -> None:
    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data")

    async with pod(elsewhere) as url, Fetcher() as fetch:
        assert "169.254" not in await fetch(url)
