"""Deployments and Services: pods that stay, are replaced in steps, and are reached at one address."""

import socket
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mtp_operator.kube.verbs import DEPLOYMENT, POD, SERVICE, Object
from mtp_operator.local.services import reachable, service_address
from mtp_operator.local.session import LocalSession

from .conftest import running, until

SERVER = (
    "import http.server, os, sys\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())\n"
    "    def log_message(self, *_): pass\n"
    "http.server.ThreadingHTTPServer((os.environ['MTP_BIND_ADDRESS'], 8125), Handler).serve_forever()\n"
)


def deployment(text: str, script: str = SERVER, **spec: Any) -> Object:
    container = {
        "name": "main",
        "command": [sys.executable, "-c", script],
        "args": [text],
        "env": [{"name": "MTP_BIND_ADDRESS", "value": "everywhere"}],
        "ports": [{"name": "http", "containerPort": 8125}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 0.1},
    }
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": template,
            **spec,
        },
    }


def service(port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": port, "targetPort": "http"}]},
    }


def status(session: LocalSession) -> dict[str, Any]:
    found = session.store.read(DEPLOYMENT, "default", "web")
    return (found or {}).get("status", {})


async def ask(port: int) -> str:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://{service_address('default', 'web')}:{port}/") as answer,
    ):
        return await answer.text()


async def test_a_service_reaches_the_ready_pod(session: LocalSession) -> None:
    await session.store.create(deployment("hello"))
    await session.store.create(service(8126))
    await until(lambda: status(session).get("availableReplicas") == 1)
    assert await ask(8126) == "hello"


async def test_a_new_template_replaces_the_pod_and_only_then_counts_as_updated(session: LocalSession) -> None:
    await session.store.apply(deployment("old"))
    await session.store.create(service(8127))
    await until(lambda: status(session).get("availableReplicas") == 1)
    await session.store.apply(deployment("new"))
    await until(
        lambda: status(session).get("observedGeneration") == 2 and status(session).get("availableReplicas") == 1
    )
    assert await ask(8127) == "new"
    assert len(session.store.select(POD)) == 1


async def test_replicas_are_added_and_removed(session: LocalSession) -> None:
    await session.store.apply(deployment("x", replicas=2))
    await until(lambda: status(session).get("readyReplicas") == 2)
    await session.store.apply(deployment("x", replicas=0))
    await until(lambda: not session.store.select(POD))
    assert status(session)["conditions"][0]["status"] == "True"


async def test_a_crashing_container_is_started_again_and_says_how_it_ended(session: LocalSession) -> None:
    await session.store.create(deployment("x", script="import sys; sys.exit(9)"))

    def crashed() -> dict[str, Any] | None:
        containers = [c for p in session.store.select(POD) for c in p["status"].get("containerStatuses", [])]
        return next((c for c in containers if c["restartCount"] >= 1), None)

    found = await until(crashed)
    assert found["lastState"]["terminated"]["exitCode"] == 9
    assert not status(session).get("availableReplicas")


async def test_no_pod_of_a_deployment_outlives_its_session(tmp_path: Path) -> None:
    async with running(tmp_path / "state") as first:
        await first.store.create(deployment("x"))
        await until(lambda: status(first).get("availableReplicas") == 1)
    assert first.store.select(POD) == []
    assert status(first)["availableReplicas"] == 0


async def test_a_service_that_is_deleted_stops_listening(session: LocalSession) -> None:
    await session.store.create(service(8128))
    address = service_address("default", "web")

    def listens() -> bool:
        with socket.socket() as client:
            return client.connect_ex((address, 8128)) == 0

    await until(listens)
    await session.store.delete(SERVICE, "default", "web")
    await until(lambda: not listens())


@pytest.mark.parametrize("url", ["http://web.default.svc:8000", "http://web.default.svc.cluster.local:8000"])
def test_addresses_of_a_clusters_dns_become_local_ones(url: str) -> None:
    address = service_address("default", "web")
    assert reachable({"status": {"url": url}}) == {"status": {"url": f"http://{address}:8000"}}
