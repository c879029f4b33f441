"""Sessions on real, small processes: a container is this interpreter with a script."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mtp_operator.kube.verbs import Object
from mtp_operator.local.session import LocalSession

PATIENCE_SECONDS = 30.0


def job(name: str, script: str, *arguments: str, **spec: Any) -> Object:
    """A Job whose pod runs a Python script."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "none",
        "command": [sys.executable, "-c", script],
        "args": list(arguments),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **spec.pop("container", {}),
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": spec.pop("grace", 5),
        "containers": [container],
        "volumes": spec.pop("volumes", []),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"backoffLimit": 3, "template": {"metadata": {"labels": {"app": name}}, "spec": pod}, **spec},
    }


async def until(holds: Callable[[], Any]) -> Any:
    """Wait for something to become true, and give it."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not (value := holds()):
        assert asyncio.get_running_loop().time() < deadline, "it never became true"
        await asyncio.sleep(0.02)
    return value


@asynccontextmanager
async def running(state: Path, **claims: Path) -> AsyncIterator[LocalSession]:
    """A session without the operator: only what a cluster does."""
    async with LocalSession(state, claims, reconcilers={}) as session:
        yield session


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[LocalSession]:
    async with running(tmp_path / "state") as found:
        yield found
