"""A small HTTP server, for as long as a block runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CannotListen(Exception):
    """The address and port can't be listened on; says which."""


@asynccontextmanager
async def serving(address: str, port: int, routes: Mapping[str, Handler]) -> AsyncIterator[None]:
    """Answer GET requests of these paths.

    Raises:
        CannotListen: the port is in use, or the address isn't this machine's.
    """
    app = web.Application()
    app.add_routes([web.get(path, handler) for path, handler in routes.items()])
    runner = web.AppRunner(app, handle_signals=False, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address, port).start()
        except OSError as error:
            raise CannotListen(f"cannot listen on {address}:{port}: {error.strerror or error}") from error
        yield
    finally:
        await runner.cleanup()
