"""The client against a server that answers as a real one does only in trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from mtp_operator.kube.client import KubeClient
from mtp_operator.kube.errors import NO_ANSWER
from mtp_operator.kube.verbs import CONFIG_MAP, JOB, KubeError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "team"}}


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    """The address of a server that answers everything with ``handler``."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await (site := web.TCPSite(runner, "127.0.0.1", 0)).start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def connection(address: str, token: Callable[[], str] = lambda: "t") -> Callable[[], Awaitable[Configuration]]:
    async def configuration() -> Configuration:
        return Configuration(host=address, api_key={"BearerToken": f"Bearer {token()}"})

    return configuration


async def error_of(handler: Handler) -> KubeError:
    """The error that a request ends with."""
    async with served(handler) as address, KubeClient(connection(address)) as client:
        with pytest.raises(KubeError) as raised:
            await client.create(MAP)
    return raised.value


async def test_too_many_requests_says_how_long_to_wait() -> None:
    async def busy(_: web.Request) -> web.Response:
        return web.json_response({"reason": "TooManyRequests"}, status=429, headers={"Retry-After": "7"})

    error = await error_of(busy)
    assert (error.status, error.retry_after_seconds) == (429, 7.0)


@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_a_refusal_is_asked_for_once_only(status: int) -> None:
    """The queue retries, and has to know of every failure."""
    asked = []

    async def unwell(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"reason": "Unwell"}, status=status, headers={"Retry-After": "0"})

    assert (await error_of(unwell)).status == status
    assert asked == ["/api/v1/namespaces/team/configmaps"]


async def test_a_page_of_a_load_balancer_is_an_error_with_its_text() -> None:
    async def in_between(_: web.Request) -> web.Response:
        return web.Response(text="<h1>Bad Gateway</h1>", status=502)

    error = await error_of(in_between)
    assert (error.status, error.reason) == (502, "Unknown")
    assert "Bad Gateway" in error.message


async def test_a_success_that_is_no_json_is_an_error() -> None:
    async def captive_portal(_: web.Request) -> web.Response:
        return web.Response(text="<h1>Log in</h1>")

    error = await error_of(captive_portal)
    assert error.reason == "NotJSON"
    assert "POST /api/v1/namespaces/team/configmaps" in error.message


async def test_an_answer_cut_in_the_middle_is_no_answer() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "1000"})
        await answer.prepare(request)
        await answer.write(b'{"kind": ')
        assert request.transport is not None
        request.transport.abort()
        return answer

    assert (await error_of(cut)).status == NO_ANSWER


async def test_nobody_listening_is_no_answer() -> None:
    async with served(web.Request.json) as address:
        pass
    async with KubeClient(connection(address)) as client:
        with pytest.raises(KubeError, match="NoAnswer") as raised:
            await client.get(JOB, "team", "one")
    assert raised.value.status == NO_ANSWER


async def test_many_requests_refused_at_once_all_go_on_with_the_new_token() -> None:
    """A token is rotated while all workers are busy: none may cut the connection that another has just opened."""
    together, fresh = asyncio.Barrier(8), 0

    async def rotated(request: web.Request) -> web.Response:
        nonlocal fresh
        if request.headers["Authorization"] == "Bearer old":
            async with together:
                return web.json_response({"reason": "Unauthorized"}, status=401)
        fresh += 1
        await asyncio.sleep(0.05 * fresh)  # some answers are still to come when the last refusal is read
        return web.json_response(MAP)

    tokens = iter(["old"])
    async with served(rotated) as address, KubeClient(connection(address, lambda: next(tokens, "new"))) as client:
        found = await asyncio.gather(*(client.get(CONFIG_MAP, "team", "one") for _ in range(8)))
    assert found == [MAP] * 8
