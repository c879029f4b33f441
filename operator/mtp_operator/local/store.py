"""The verbs over a folder: objects as JSON files, with an API server's rules about names, versions and owners.

Objects of both kinds get the schema's defaults and the strict validation that ``kubectl`` and the API server do
together; nothing is stored when it fails. Deleting an object deletes what it owns. A pod is only marked for deletion
while its processes run, and removed by whoever runs them.
"""

from __future__ import annotations

import asyncio
import copy
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mtp_operator.api import API_VERSION
from mtp_operator.api.validation import InvalidManifest, check_update, parse, with_defaults
from mtp_operator.kube.verbs import KINDS, POD, AlreadyExists, Conflict, Kind, NotFound, Object, Refused, kind_of
from mtp_operator.local.files import read_json, write_json

Objects = list[Object]
Key = tuple[str, str, str]
"""Plural, namespace, name."""


def timestamp(moment: datetime | None = None) -> str:
    """RFC 3339 in UTC with whole seconds, as Kubernetes writes it."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class LocalStore:
    """Implements :class:`mtp_operator.kube.verbs.Verbs`.

    Reads give copies. ``changed`` is set after every write; who waits for it clears it.
    """

    def __init__(self, state: Path) -> None:
        self._root = state / "objects"
        self._objects: dict[Key, Object] = {}
        self.changed = asyncio.Event()
        for file in sorted(self._root.glob("*/*/*.json")):
            if not file.name.startswith("."):
                obj = read_json(file)
                self._objects[_key(obj)] = obj
        self._version = max((int(obj["metadata"]["resourceVersion"]) for obj in self._objects.values()), default=0)

    @property
    def version(self) -> int:
        """Grows with every write."""
        return self._version

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self.read(kind, namespace, name)

    async def list(self, kind: Kind, namespace: str | None, label_selector: str | None = None) -> Objects:
        return self.select(kind, namespace, label_selector)

    async def create(self, obj: Object) -> Object:
        new = copy.deepcopy(obj)
        kind, metadata = kind_of(new), new.setdefault("metadata", {})
        metadata.setdefault("namespace", "default")
        if _key(new) in self._objects:
            raise AlreadyExists(409, "AlreadyExists", f'{kind.plural} "{metadata["name"]}" already exists')
        new = _checked(new)
        new["metadata"] |= {"uid": str(uuid.uuid4()), "generation": 1, "creationTimestamp": timestamp()}
        return self._store(new)

    async def apply(self, obj: Object) -> Object:
        """Server-side apply, coarse: labels and annotations are merged, fields of ``spec`` replaced one by one."""
        kind = kind_of(obj)
        metadata = obj["metadata"]
        old = self.read(kind, metadata.get("namespace", "default"), metadata["name"])
        if old is None:
            return await self.create(obj)
        new = copy.deepcopy(old)
        for field in ("labels", "annotations"):
            if metadata.get(field):
                new["metadata"][field] = {**new["metadata"].get(field, {}), **metadata[field]}
        for field, value in obj.items():
            if field == "spec":
                new["spec"] = {**old.get("spec", {}), **copy.deepcopy(value)}
            elif field not in ("metadata", "status"):
                new[field] = copy.deepcopy(value)
        return self.replace(old, new)

    async def patch_status(self, obj: Object, status: Object) -> Object:
        old = self._existing(obj)
        if old["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            name = obj["metadata"]["name"]
            raise Conflict(409, "Conflict", f'"{name}" has changed since it was read; read it again')
        return self.write_status(obj, status)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str | None = None) -> None:
        obj = self._objects.get((kind.plural, namespace, name))
        if obj is None:
            return
        if uid is not None and obj["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", f'"{name}" has another uid than {uid}')
        if kind == POD:
            if "deletionTimestamp" not in obj["metadata"]:
                marked = copy.deepcopy(obj)
                marked["metadata"]["deletionTimestamp"] = timestamp()
                self._store(marked)
            return
        self.remove(obj)

    def read(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Like :meth:`get`, for callers that aren't coroutines."""
        return copy.deepcopy(self._objects.get((kind.plural, namespace, name)))

    def select(self, kind: Kind, namespace: str | None = None, label_selector: str | None = None) -> Objects:
        """Like :meth:`list`, for callers that aren't coroutines."""
        wanted = dict(part.split("=", 1) for part in label_selector.split(",")) if label_selector else {}
        return [
            copy.deepcopy(obj)
            for (plural, found, _), obj in sorted(self._objects.items())
            if plural == kind.plural
            and namespace in (None, found)
            and wanted.items() <= obj["metadata"].get("labels", {}).items()
        ]

    def owned(self, kind: Kind, owner: Object) -> Objects:
        """Objects of ``kind`` that ``owner`` controls, oldest first."""
        found = [obj for obj in self.select(kind, owner["metadata"]["namespace"]) if _owned_by(obj, owner)]
        return sorted(found, key=lambda obj: (obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]))

    def replace(self, old: Object, new: Object) -> Object:
        """Store ``new`` in place of ``old``; a changed spec is a new generation, and no change is no write.

        Raises:
            Refused: the new object is invalid, or a field changed that may not.
        """
        new = _checked(new)
        if new["apiVersion"] == API_VERSION:
            try:
                check_update(old, new)
            except InvalidManifest as error:
                raise Refused(422, "Invalid", str(error)) from error
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        return self._store(new)

    def write_status(self, obj: Object, status: Object) -> Object:
        """Replace ``status``, whatever version the caller has seen.

        Raises:
            NotFound: the object is gone.
        """
        old = self._existing(obj)
        if old.get("status") == status:
            return copy.deepcopy(old)
        return self._store({**old, "status": copy.deepcopy(status)})

    def remove(self, obj: Object) -> None:
        """Remove an object for good, and delete what it owns."""
        if self._objects.pop(_key(obj), None) is None:
            return
        self._path(obj).unlink(missing_ok=True)
        self._version += 1
        self.changed.set()
        for child in [child for child in self._objects.values() if _owned_by(child, obj)]:
            if kind_of(child) == POD:
                marked = copy.deepcopy(child)
                marked["metadata"].setdefault("deletionTimestamp", timestamp())
                self._store(marked)
            else:
                self.remove(child)

    def _existing(self, obj: Object) -> Object:
        found = self._objects.get(_key(obj))
        if found is None or found["metadata"]["uid"] != obj["metadata"]["uid"]:
            raise NotFound(404, "NotFound", f'{kind_of(obj).plural} "{obj["metadata"]["name"]}" not found')
        return found

    def _store(self, obj: Object) -> Object:
        self._version += 1
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(self._version)
        self._objects[_key(obj)] = obj
        write_json(self._path(obj), obj)
        self.changed.set()
        return copy.deepcopy(obj)

    def _path(self, obj: Object) -> Path:
        plural, namespace, name = _key(obj)
        return self._root / plural / namespace / f"{name}.json"


def _key(obj: Object) -> Key:
    return kind_of(obj).plural, obj["metadata"]["namespace"], obj["metadata"]["name"]


def _owned_by(obj: Object, owner: Object) -> bool:
    uid = owner["metadata"]["uid"]
    return any(reference["uid"] == uid for reference in obj["metadata"].get("ownerReferences", []))


def _checked(obj: Object) -> Object:
    """With defaults and validated, when it is one of our kinds; others are the operator's own, taken as they are."""
    if obj["apiVersion"] != API_VERSION:
        return obj
    try:
        obj = with_defaults(obj)
        parse(obj)
    except InvalidManifest as error:
        raise Refused(422, "Invalid", str(error)) from error
    return obj


def refuse_unknown_kinds(objects: list[Any]) -> None:
    """What a person may apply: the two kinds.

    Raises:
        Refused: something else, or not an object at all.
    """
    ours: list[str] = [kind.kind for kind in KINDS.values() if kind.api_version == API_VERSION]
    for obj in objects:
        if not isinstance(obj, dict) or obj.get("apiVersion") != API_VERSION or obj.get("kind") not in ours:
            found = f"{obj.get('apiVersion')} {obj.get('kind')}" if isinstance(obj, dict) else repr(obj)
            raise Refused(400, "BadRequest", f"{found}: write apiVersion {API_VERSION} and kind {' or '.join(ours)}")
        if not isinstance(obj.get("metadata"), dict) or not obj["metadata"].get("name"):
            raise Refused(400, "BadRequest", f"{obj['kind']}: metadata.name: Required value")
