"""Services: a loopback address that forwards connections to the ready pods, one after the other."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import itertools
import re
from contextlib import suppress
from typing import Any

from mtp_operator.kube.verbs import POD, SERVICE, Object
from mtp_operator.local.pods import is_ready
from mtp_operator.local.store import LocalStore

_BUFFER_BYTES = 64 * 1024
_IN_CLUSTER = re.compile(r"http://([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.cluster\.local)?:(\d+)")


def service_address(namespace: str, name: str) -> str:
    """The loopback address of a Service; always the same for a name, so that clients may keep it."""
    first, second, third = hashlib.sha256(f"service {namespace}/{name}".encode()).digest()[:3]
    return f"127.{first % 253 + 1}.{second}.{third % 253 + 1}"


def reachable(value: Any) -> Any:
    """A copy of an object in which addresses that only a cluster's DNS knows are those of local Services."""
    if isinstance(value, dict):
        return {key: reachable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reachable(item) for item in value]
    if isinstance(value, str):
        return _IN_CLUSTER.sub(lambda match: f"http://{service_address(match[2], match[1])}:{match[3]}", value)
    return copy.copy(value)


class Services:
    """One listener per port of each Service."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._listeners: dict[tuple[str, str, int], asyncio.Server] = {}
        self._turn = itertools.count()

    async def sync(self) -> None:
        """Listen for what there is, stop listening for what is gone."""
        wanted = {
            (service["metadata"]["namespace"], service["metadata"]["name"], port["port"])
            for service in self._store.select(SERVICE)
            for port in service["spec"].get("ports", [])
        }
        for key in wanted - self._listeners.keys():
            namespace, name, port = key

            async def accept(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: tuple[str, str, int] = key
            ) -> None:
                await self._forward(key, reader, writer)

            self._listeners[key] = await asyncio.start_server(accept, service_address(namespace, name), port)
        for key in self._listeners.keys() - wanted:
            self._listeners.pop(key).close()

    async def stop(self) -> None:
        """Stop listening."""
        for server in self._listeners.values():
            server.close()
        self._listeners.clear()

    def _target(self, key: tuple[str, str, int]) -> tuple[str, int] | None:
        """Address and port of the ready pod whose turn it is."""
        namespace, name, port = key
        service = self._store.read(SERVICE, namespace, name)
        if service is None:
            return None
        selector = ",".join(f"{label}={value}" for label, value in service["spec"]["selector"].items())
        pods = [pod for pod in self._store.select(POD, namespace, selector) if is_ready(pod)]
        if not pods:
            return None
        pod = pods[next(self._turn) % len(pods)]
        entry = next(entry for entry in service["spec"]["ports"] if entry["port"] == port)
        return pod["status"]["podIP"], _container_port(pod, entry.get("targetPort", port))

    async def _forward(
        self, key: tuple[str, str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        target = self._target(key)
        try:
            if target is not None:
                pod_reader, pod_writer = await asyncio.open_connection(*target)
                await asyncio.gather(_copy(reader, pod_writer), _copy(pod_reader, writer))
        except OSError:
            pass  # the pod or the client went away: the connection ends, as it does in a cluster
        finally:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_BUFFER_BYTES):
            writer.write(data)
            await writer.drain()
    finally:
        with suppress(OSError):
            writer.close()


def _container_port(pod: Object, port: int | str) -> int:
    if isinstance(port, int):
        return port
    named = {
        entry["name"]: entry["containerPort"]
        for container in pod["spec"]["containers"]
        for entry in container.get("ports", [])
        if "name" in entry
    }
    return int(named[port])
