"""The verbs over an API server.

``kubernetes.aio`` knows how to find a cluster and how to log in; its typed and dynamic clients don't fit objects that
are plain JSON, so the few requests are made by hand here. Nothing is retried: the work queue owns that, and a retry
that it doesn't see would hide an unavailable API server from it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from mtp_operator import __version__
from mtp_operator.kube.errors import error_of, no_answer
from mtp_operator.kube.verbs import Kind, KubeError, NotFound, Object, kind_of

FIELD_MANAGER = "mtp-operator"
PAGE_SIZE = 500
TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
"""The library's 300 s would hold a worker of the queue for as long."""

_JSON = "application/json"
_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"


@dataclass(eq=False)
class _Connection:
    """Connections with one set of credentials, and how many requests use them."""

    api: ApiClient
    users: int = 0


class KubeClient:
    """Implements :class:`mtp_operator.kube.verbs.Verbs`, and ``replace`` for the leader's Lease.

    Args:
        configuration: gives the connection; called again when the API server no longer accepts the credentials.
    """

    def __init__(self, configuration: Callable[[], Awaitable[Configuration]]) -> None:
        self._configuration = configuration
        self._current: _Connection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._current is not None:
            connection, self._current = self._current, None
            await connection.api.close()

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        try:
            return await self._request("GET", _path(kind, namespace, name))
        except NotFound:
            return None

    async def list(self, kind: Kind, namespace: str | None, label_selector: str | None = None) -> list[Object]:
        """All pages. Items of a list carry no type of their own, so it is put back."""
        items: list[Object] = []
        query = {"limit": str(PAGE_SIZE)}
        if label_selector:
            query["labelSelector"] = label_selector
        while True:
            page = await self._request("GET", _path(kind, namespace), query=query)
            items += ({"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in page.get("items") or ())
            following = page["metadata"].get("continue")
            if not following:
                return items
            query["continue"] = following

    async def create(self, obj: Object) -> Object:
        path = _path(kind_of(obj), obj["metadata"]["namespace"])
        return await self._request("POST", path, obj, query={"fieldManager": FIELD_MANAGER})

    async def apply(self, obj: Object) -> Object:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._request("PATCH", _path_of(obj), obj, _APPLY, query)

    async def patch_status(self, obj: Object, status: Object) -> Object:
        """A JSON patch, since a merge patch can't remove what the new status no longer has.

        Writing the resourceVersion that was read makes the API server compare it: 409 when it's no longer the newest.
        """
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": obj["metadata"]["resourceVersion"]},
            {"op": "add", "path": "/status", "value": status},
        ]
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("PATCH", f"{_path_of(obj)}/status", patch, _JSON_PATCH, query)

    async def replace(self, obj: Object) -> Object:
        """Write the whole object.

        Raises:
            Conflict: its resourceVersion is no longer the newest.
        """
        return await self._request("PUT", _path_of(obj), obj)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str | None = None) -> None:
        options: Object = {"propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._request("DELETE", _path(kind, namespace, name), options)
        except NotFound:
            return

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows the kind: its CRD is installed and established."""
        try:
            found = await self._request("GET", _group(kind))
        except NotFound:
            return False
        return any(resource.get("name") == kind.plural for resource in found.get("resources") or ())

    async def _request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = _JSON,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """One request; a second one with fresh credentials when the first were refused."""
        answer = await self._send(method, path, body, content_type, query)
        if answer[0] == 401:
            answer = await self._send(method, path, body, content_type, query)
        status, content, headers = answer
        if status >= 400:
            raise error_of(status, content, headers)
        try:
            found: Object = json.loads(content)
        except ValueError as error:
            raise KubeError(status, "NotJSON", f"{method} {path}: the answer is not JSON") from error
        return found

    async def _send(
        self, method: str, path: str, body: object, content_type: str, query: Mapping[str, str] | None
    ) -> tuple[int, bytes, Mapping[str, str]]:
        connection = await self._connected()
        api = connection.api
        url = f"{api.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Content-Type": content_type, "Accept": _JSON, "User-Agent": f"{FIELD_MANAGER}/{__version__}"}
        connection.users += 1
        try:
            await api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
            answer: Any = await api.call_api(method, url, headers, body, _request_timeout=TIMEOUT)
            if answer.status == 401 and self._current is connection:
                self._current = None
            return answer.status, await answer.read(), answer.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error) from error
        finally:
            connection.users -= 1
            if self._current is not connection and connection.users == 0:  # the last one closes the door
                await api.close()

    async def _connected(self) -> _Connection:
        if self._current is None:
            configuration = await self._configuration()
            if self._current is None:  # another request may have been faster
                self._current = _Connection(ApiClient(configuration))
        return self._current


def _group(kind: Kind) -> str:
    return f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"


def _path(kind: Kind, namespace: str | None, name: str | None = None) -> str:
    parts = [_group(kind)]
    if namespace is not None:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(kind.plural)
    if name is not None:
        parts.append(quote(name, safe=""))
    return "/".join(parts)


def _path_of(obj: Object) -> str:
    return _path(kind_of(obj), obj["metadata"]["namespace"], obj["metadata"]["name"])
