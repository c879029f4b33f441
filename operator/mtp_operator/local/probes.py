"""HTTP probes of a container: how patient to be while it starts, and whether it may take requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp


@dataclass(frozen=True)
class Probe:
    """One HTTP probe."""

    url: str
    period_seconds: float
    timeout_seconds: float
    failure_threshold: int
    initial_delay_seconds: float

    @classmethod
    def read(cls, container: dict[str, Any], field: str, address: str) -> Probe | None:
        """The probe ``field`` of a container; ``None`` when it has none over HTTP."""
        given = container.get(field)
        if not given or "httpGet" not in given:
            return None
        get = given["httpGet"]
        ports = {port.get("name"): port["containerPort"] for port in container.get("ports", [])}
        return cls(
            url=f"http://{address}:{ports.get(get['port'], get['port'])}{get.get('path', '/')}",
            period_seconds=given.get("periodSeconds", 10),
            timeout_seconds=given.get("timeoutSeconds", 1),
            failure_threshold=given.get("failureThreshold", 3),
            initial_delay_seconds=given.get("initialDelaySeconds", 0),
        )

    async def passes(self) -> bool:
        """Ask once. Any answer from 200 to 399 is a pass."""
        timeout = aiohttp.ClientTimeout(total=self.timeout_seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self.url, allow_redirects=False) as response,
            ):
                return 200 <= response.status < 400
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def until_passed(self) -> bool:
        """Ask until it passes; ``False`` after ``failure_threshold`` failures."""
        await asyncio.sleep(self.initial_delay_seconds)
        for _ in range(self.failure_threshold):
            if await self.passes():
                return True
            await asyncio.sleep(self.period_seconds)
        return False
