"""A small synchronous client for tests: JSON in, JSON out, with the errors as the API server words them."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Json = dict[str, Any]
PATIENCE_SECONDS = 120.0

FINE_TUNES = "apis/specdecode.dev/v1alpha1/namespaces/{}/mtpfinetunes"
SERVINGS = "apis/specdecode.dev/v1alpha1/namespaces/{}/specdecodeservings"
JOBS = "apis/batch/v1/namespaces/{}/jobs"
DEPLOYMENTS = "apis/apps/v1/namespaces/{}/deployments"
PODS = "api/v1/namespaces/{}/pods"
CONFIG_MAPS = "api/v1/namespaces/{}/configmaps"
CLAIMS = "api/v1/namespaces/{}/persistentvolumeclaims"
SERVICES = "api/v1/namespaces/{}/services"
EVENTS = "api/v1/namespaces/{}/events"


class ApiError(Exception):
    """An answer of 400 or more."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Api:
    """One API server, as one user."""

    def __init__(self, server: str, authority: Path, token: str) -> None:
        self.server = server
        self.token = token
        self._context = ssl.create_default_context(cafile=str(authority))

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON, or its text when it is none. ``body`` is sent as JSON unless it is text."""
        data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
        url = f"{self.server}/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 -- the session's own server
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:  # noqa: S310
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                raise ApiError(error.code, json.loads(text)["message"]) from None
            except (ValueError, KeyError, TypeError):
                raise ApiError(error.code, text) from None
        try:
            return json.loads(text)
        except ValueError:
            return text

    def get(self, collection: str, namespace: str, name: str) -> Json | None:
        """The object, or ``None``."""
        try:
            found: Json = self.request("GET", f"{collection.format(namespace)}/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def list(self, collection: str, namespace: str, selector: str = "") -> list[Json]:
        """Objects of a namespace."""
        query = {"labelSelector": selector} if selector else None
        items: list[Json] = self.request("GET", collection.format(namespace), query=query)["items"]
        return items

    def create(self, collection: str, namespace: str, obj: Json) -> Json:
        """The object as it was stored."""
        created: Json = self.request("POST", collection.format(namespace), obj)
        return created

    def delete(self, collection: str, namespace: str, name: str) -> None:
        """In the background, as kubectl does."""
        self.request("DELETE", f"{collection.format(namespace)}/{name}", {"propagationPolicy": "Background"})

    def create_yaml(self, collection: str, namespace: str, text: str, *, dry_run: bool = False) -> Json:
        """Create from YAML as a person wrote it; unknown fields are refused, as kubectl asks for."""
        created: Json = self.request("POST", collection.format(namespace), text, "application/yaml", _strict(dry_run))
        return created

    def update_yaml(self, collection: str, namespace: str, text: str, version: str, *, dry_run: bool = False) -> Json:
        """Replace an object of this resourceVersion by what the YAML says; the name is the YAML's."""
        name = text.split("\n  name: ", 1)[1].split("\n", 1)[0]
        text = text.replace("metadata:\n", f'metadata:\n  resourceVersion: "{version}"\n', 1)
        path = f"{collection.format(namespace)}/{name}"
        updated: Json = self.request("PUT", path, text, "application/yaml", _strict(dry_run))
        return updated

    def patch_status(self, collection: str, namespace: str, name: str, status: Json) -> Json:
        """Merge into the status subresource."""
        path = f"{collection.format(namespace)}/{name}/status"
        patched: Json = self.request("PATCH", path, {"status": status}, "application/merge-patch+json")
        return patched


def _strict(dry_run: bool) -> dict[str, str]:
    return {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}


def eventually(look: Callable[[], T | None], what: str, patience_seconds: float = PATIENCE_SECONDS) -> T:
    """The first truthy value that ``look`` returns. The time is a limit for a broken build, not a measurement."""
    deadline = time.monotonic() + patience_seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_seconds:.0f} s in vain for {what}; last seen: {found!r}")
        time.sleep(0.1)


def condition(obj: Json | None, kind: str) -> Json:
    """The condition of a type; empty when it isn't there."""
    conditions = (obj or {}).get("status", {}).get("conditions", [])
    return next((found for found in conditions if found["type"] == kind), {})
