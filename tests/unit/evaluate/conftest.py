"""The stand-in for vLLM, in this process or as one of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Test files are imported by path (--import-mode=importlib), which finds no neighbours.
sys.path.insert(0, str(Path(__file__).parent))

from stand_in import Behaviour, StandIn


@pytest.fixture
def serve() -> Iterator[Callable[[Behaviour], StandIn]]:
    """Start stand-ins in threads of this process; all are gone after the test."""
    running: list[tuple[StandIn, threading.Thread]] = []

    def start(behaviour: Behaviour) -> StandIn:
        server = StandIn(0, behaviour)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr("mtp_trainer.engine.client.PAUSE_SECONDS", 0.0)
