"""Reads what pods say over HTTP: a trainer's progress, an engine's counters."""

from __future__ import annotations

from typing import Self

import aiohttp

TIMEOUT = aiohttp.ClientTimeout(total=5)
MAX_BYTES = 16 * 2**20
"""An engine with many models has some megabytes of metrics; more isn't metrics."""


class TooLong(Exception):
    """The answer is no progress and no metrics."""


class Fetcher:
    """Calls are ``fetch(url) -> str``. Pods come and go, so no connection is kept for long."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            timeout=TIMEOUT, connector=aiohttp.TCPConnector(limit=64, keepalive_timeout=5), auto_decompress=True
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def __call__(self, url: str) -> str:
        """The body of ``url``.

        Raises:
            aiohttp.ClientError: no answer, or one of 400 or more.
            TimeoutError: none in time.
            TooLong: more than :data:`MAX_BYTES`.
        """
        async with self._session.get(url, allow_redirects=False) as answer:
            answer.raise_for_status()
            body = bytearray()
            async for chunk in answer.content.iter_chunked(65536):
                body += chunk
                if len(body) > MAX_BYTES:
                    raise TooLong(f"{url}: more than {MAX_BYTES} bytes")
            return body.decode("utf-8", errors="replace")
