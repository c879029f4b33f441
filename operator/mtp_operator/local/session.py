"""A session: the state folder comes to life, as a cluster would, until the session ends.

::

    async with LocalSession(Path(".mtp-local"), claims={"models": Path("models")}) as session:
        await session.apply(objects)
        await session.wait(FINE_TUNE, "run", "Ready")
        print(session.get(FINE_TUNE, "run")["status"])

Leaving it stops every process. What was not finished goes on in the next session.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from mtp_operator.api.validation import InvalidManifest, check_update, parse, with_defaults
from mtp_operator.kube.verbs import (
    CLAIM,
    FINE_TUNE,
    POD,
    SERVING,
    Kind,
    KubeError,
    NotFound,
    Object,
    Refused,
    Verbs,
    kind_of,
)
from mtp_operator.local.cluster import Cluster
from mtp_operator.local.container import Places
from mtp_operator.local.files import Claims, session_lock
from mtp_operator.local.services import reachable
from mtp_operator.local.store import LocalStore, refuse_unknown_kinds
from mtp_operator.loop import AcceptanceStore, reconcile_fine_tune, reconcile_serving

Fetch = Callable[[str], Awaitable[str]]
Reconcile = Callable[[Verbs, str, str, datetime, Fetch], Awaitable[float | None]]

_FETCH_SECONDS = 5.0
_RETRY_SECONDS = 2.0
_POLL_SECONDS = 0.2
_METADATA = ("labels", "annotations")
_CLAIM = re.compile(r"\"pvc://([a-z0-9][-a-z0-9.]*)")

log = logging.getLogger(__name__)


def operators_reconcilers() -> Mapping[Kind, Reconcile]:
    """The operator's own, with one memory of readings."""
    return {FINE_TUNE: reconcile_fine_tune, SERVING: partial(reconcile_serving, samples=AcceptanceStore())}


@dataclass(frozen=True)
class _Look:
    """The newest look at an object: the store's version before it, and when to look again if nothing changes."""

    version: int
    due: float


class WaitFailed(RuntimeError):
    """What was waited for can't come any more, or didn't come in time."""


class LocalSession:
    """See the module. ``claims`` gives folders to claims by name; others get one in the state folder."""

    def __init__(
        self,
        state: Path,
        claims: Mapping[str, Path] | None = None,
        reconcilers: Mapping[Kind, Reconcile] | None = None,
    ) -> None:
        self._state = state.absolute()
        self._given_claims = dict(claims or {})
        self._reconcilers = operators_reconcilers() if reconcilers is None else reconcilers
        self._looks: dict[str, _Look] = {}
        self._exit = ExitStack()

    async def __aenter__(self) -> Self:
        """Take the state folder and start.

        Raises:
            SessionRunning: another session has it.
            NotADirectoryError: a claim was given a folder that doesn't exist.
        """
        self._exit.enter_context(session_lock(self._state))
        try:
            folders = Claims(self._state)
            for name, folder in self._given_claims.items():
                folders.give(name, folder)
            self.places = Places(self._state, folders)
            self.store = LocalStore(self._state)
            self._cluster = Cluster(self.store, self.places)
            await self._cluster.start()
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_FETCH_SECONDS))
            self._runner = asyncio.create_task(self._run())
        except BaseException:
            self._exit.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop every process, and let the objects say that they don't run."""
        try:
            self._runner.cancel()
            with suppress(asyncio.CancelledError):
                await self._runner
            await self._cluster.stop()
            self._cluster.sync_status()
            await self._reconcile_all(due_only=False)
            await self._http.close()
        finally:
            self._exit.close()

    async def apply(self, objects: list[Object]) -> list[str]:
        """Create or update all of them, or none when one is refused.

        Returns:
            ``created``, ``configured`` or ``unchanged`` for each.

        Raises:
            Refused: with the sentence that says what to write instead.
        """
        refuse_unknown_kinds(objects)
        planned: list[tuple[Object | None, Object]] = []
        for given in objects:
            try:
                new = with_defaults(given)
                new["metadata"].setdefault("namespace", "default")
                parse(new)
                metadata = new["metadata"]
                old = self.store.read(kind_of(new), metadata["namespace"], metadata["name"])
                if old is not None:
                    check_update(old, new)
            except InvalidManifest as error:
                raise Refused(422, "Invalid", str(error)) from error
            planned.append((old, new))
        return [await self._put(old, new) for old, new in planned]

    async def wait(
        self, kind: Kind, name: str, condition: str, within_seconds: float | None = None, namespace: str = "default"
    ) -> Object:
        """Wait until ``condition`` is True.

        Raises:
            WaitFailed: the object stalled, or ``within_seconds`` passed.
            NotFound: no such object.
        """
        deadline = None if within_seconds is None else asyncio.get_running_loop().time() + within_seconds
        while True:
            self.check()
            obj = self.get(kind, name, namespace)
            found = conditions(obj)
            if found.get(condition, {}).get("status") == "True":
                return obj
            if self.looked_at(obj) and found.get("Stalled", {}).get("status") == "True":
                ready = found.get("Ready", found["Stalled"])
                raise WaitFailed(f"{kind.kind} {name}: {ready['reason']}: {ready['message']}")
            if deadline is not None and asyncio.get_running_loop().time() > deadline:
                last = found.get("Ready", {"reason": "no status", "message": ""})
                why = f"{last['reason']}: {last['message']}"
                raise WaitFailed(f"{kind.kind} {name}: not {condition} within {within_seconds:.0f} s ({why})")
            await asyncio.sleep(_POLL_SECONDS)

    def get(self, kind: Kind, name: str, namespace: str = "default") -> Object:
        """The object, with addresses that work on this machine.

        Raises:
            NotFound: no such object.
        """
        found = self.store.read(kind, namespace, name)
        if found is None:
            raise NotFound(404, "NotFound", f'{kind.plural} "{name}" not found')
        result: Object = reachable(found)
        return result

    def looked_at(self, obj: Object) -> bool:
        """Whether this session has looked at an object; before, its status is what an earlier one left."""
        return obj["metadata"]["uid"] in self._looks

    async def delete(self, kind: Kind, name: str, namespace: str = "default") -> None:
        """Delete an object and wait until what it owned has ended and is gone."""
        await self.store.delete(kind, namespace, name)
        while any("deletionTimestamp" in pod["metadata"] for pod in self.store.select(POD)):
            self.check()
            await asyncio.sleep(_POLL_SECONDS)

    def check(self) -> None:
        """Raise what made the session's own loop end, if anything did."""
        if self._runner.done():
            self._runner.result()

    async def _put(self, old: Object | None, new: Object) -> str:
        for claim in sorted(set(_CLAIM.findall(json.dumps(new["spec"])))):
            if self.store.read(CLAIM, new["metadata"]["namespace"], claim) is None:
                await self.store.create(_claim(new["metadata"]["namespace"], claim))
        if old is None:
            await self.store.create(new)
            return "created"
        merged = {**old, "spec": new["spec"]}
        merged["metadata"] = {**old["metadata"], **{k: v for k, v in new["metadata"].items() if k in _METADATA}}
        return "unchanged" if self.store.replace(old, merged) == old else "configured"

    async def _run(self) -> None:
        while True:
            await self._cluster.sync()
            await self._reconcile_all()
            await self._cluster.wait()

    async def _reconcile_all(self, *, due_only: bool = True) -> None:
        """Look at every object again about which something changed, or whose time has come."""
        for kind, reconcile in self._reconcilers.items():
            for obj in self.store.select(kind):
                namespace, name, uid = (obj["metadata"][field] for field in ("namespace", "name", "uid"))
                clock, look = asyncio.get_running_loop().time(), self._looks.get(uid)
                if due_only and look is not None and look.version == self.store.version and clock < look.due:
                    continue
                version = self.store.version
                try:
                    wait = await reconcile(self.store, namespace, name, datetime.now(UTC), self._fetch)
                except KubeError as error:
                    log.warning("%s %s: %s; looking again", kind.kind, name, error)
                    wait = _RETRY_SECONDS
                self._looks[uid] = _Look(version, math.inf if wait is None else clock + wait)

    async def _fetch(self, url: str) -> str:
        async with self._http.get(url) as response:
            response.raise_for_status()
            return await response.text()


def conditions(obj: Object) -> dict[str, dict[str, str]]:
    """Conditions of an object by type."""
    return {condition["type"]: condition for condition in obj.get("status", {}).get("conditions", [])}


def _claim(namespace: str, name: str) -> Object:
    """A claim that a manifest refers to: on a laptop each name has a folder."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {},
        "status": {"phase": "Bound"},
    }


async def delete_from(state: Path, targets: list[tuple[Kind, str, str]]) -> None:
    """Delete objects (kind, namespace, name) and what they own from a state folder in which nothing runs.

    Raises:
        SessionRunning: a session runs there.
        NotFound: one of them doesn't exist; then none is deleted.
    """
    with session_lock(state):
        store = LocalStore(state)
        for kind, namespace, name in targets:
            if store.read(kind, namespace, name) is None:
                raise NotFound(404, "NotFound", f'{kind.plural} "{name}" not found')
        cluster = Cluster(store, Places(Path.cwd() / state, Claims(state)))
        await cluster.start()
        for kind, namespace, name in targets:
            await store.delete(kind, namespace, name)
        cluster.collect()
