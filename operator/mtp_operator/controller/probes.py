"""What the kubelet asks: is the process alive, and is it of use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Health:
    """State of this process, for its probes.

    Alive means that work ends: a piece of work that is older than ``limit_seconds`` hangs where no time limit reaches,
    and a new process is the remedy. An API server that doesn't answer is no reason to restart.

    Attributes:
        oldest_work_seconds: age of the oldest work that hasn't ended.
        limit_seconds: twice the queue's own limit for one piece of work.
        state: in words; ``None`` until the process is of use: as a leader, or standing by.
    """

    oldest_work_seconds: Callable[[], float]
    limit_seconds: float = 240.0
    state: str | None = field(default=None)

    async def alive(self, _: web.Request) -> web.Response:
        """``GET /healthz``."""
        age = self.oldest_work_seconds()
        if age > self.limit_seconds:
            return web.Response(status=503, text=f"a look at an object has not ended for {age:.0f} s\n")
        return web.Response(text="alive\n")

    async def ready(self, _: web.Request) -> web.Response:
        """``GET /readyz``. A stand-by is ready too: it takes over when it has to."""
        if self.state is None:
            return web.Response(status=503, text="starting\n")
        return web.Response(text=f"{self.state}\n")
