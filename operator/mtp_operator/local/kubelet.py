"""Runs the pods that are in the store, and writes what becomes of them into their status, as a kubelet does.

Not here: init containers, several containers sharing a network, resource limits. ``preStop`` hooks are skipped: they
give endpoints time to change, and there are none.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from contextlib import suppress
from typing import Any

from mtp_operator.kube.verbs import POD, NotFound, Object
from mtp_operator.local.container import CannotStart, Container, Ended, Places
from mtp_operator.local.files import wait_unlocked
from mtp_operator.local.pods import FINISHED, runs_for_ever
from mtp_operator.local.probes import Probe
from mtp_operator.local.store import LocalStore, timestamp

LOST_EXIT_CODE = 137
"""Exit code of a container whose session was killed: it was too."""
_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 60.0
_CONFIG_RETRY_SECONDS = 2.0


class Kubelet:
    """One task per running pod."""

    def __init__(self, store: LocalStore, places: Places) -> None:
        self._store = store
        self._places = places
        self._pods: dict[str, _RunningPod] = {}

    async def recover(self) -> None:
        """Pods that an earlier session left behind: wait for their processes, which end by themselves, and say so."""
        for pod in self._store.select(POD):
            for lock in self._places.pod(pod).glob("*.running"):
                await asyncio.to_thread(wait_unlocked, lock)
            if "deletionTimestamp" in pod["metadata"]:
                self._forget(pod)
            elif pod.get("status", {}).get("phase") == "Running":
                self._store.write_status(pod, _lost(pod))

    def sync(self) -> None:
        """Start pods that are new, stop those that are to be deleted, remove those that have ended."""
        for pod in self._store.select(POD):
            uid, deleting = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
            running = self._pods.get(uid)
            if running is not None and running.task.done():
                running.task.result()  # a bug in here must not pass silently
                del self._pods[uid]
                running = None
            if running is not None:
                if deleting:
                    running.stop()
            elif deleting:
                self._forget(pod)
            elif pod.get("status", {}).get("phase") not in FINISHED:
                self._pods[uid] = _RunningPod(self._store, self._places, pod)

    async def stop(self) -> None:
        """The session ends: stop every pod and wait for their ends.

        A Job's pod stays, marked as disrupted, for the next session to go on from; a Deployment's pod is removed.
        """
        running = list(self._pods.values())
        for pod in running:
            pod.stop(disrupted=True)
        await asyncio.gather(*(pod.task for pod in running))
        for left in filter(runs_for_ever, self._store.select(POD)):
            self._forget(left)
        self.collect()

    def collect(self) -> None:
        """Remove pods that are to be deleted and don't run."""
        for pod in self._store.select(POD):
            if "deletionTimestamp" in pod["metadata"]:
                self._forget(pod)

    def _forget(self, pod: Object) -> None:
        shutil.rmtree(self._places.pod(pod) / "volumes", ignore_errors=True)
        self._store.remove(pod)


class _RunningPod:
    """A pod and the task that runs it."""

    def __init__(self, store: LocalStore, places: Places, pod: Object) -> None:
        self._store = store
        self._places = places
        self._pod = pod
        self._container: Container | None = None
        self._stopping = asyncio.Event()
        (self._spec,) = pod["spec"]["containers"]
        address = _address(pod["metadata"]["uid"])
        self._status: dict[str, Any] = {
            "phase": "Pending",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "hostIP": "127.0.0.1",
            "startTime": timestamp(),
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp()}],
            "containerStatuses": [],
        }
        self._disrupted = False
        self._restarts = 0
        self._last_state: dict[str, Any] = {}
        self.task = asyncio.create_task(self._run())

    def stop(self, *, disrupted: bool = False) -> None:
        """Ask for the end; the grace period is the supervisor's. ``disrupted``: through no fault of the pod's."""
        if not self._stopping.is_set():
            self._disrupted = disrupted
            self._stopping.set()
            if self._container is not None:
                self._container.stop()

    async def _run(self) -> None:
        backoff = _FIRST_BACKOFF_SECONDS
        always = runs_for_ever(self._pod)
        while not self._stopping.is_set():
            started = timestamp()
            ended = await self._run_once(started)
            if ended is None:
                await self._pause(_CONFIG_RETRY_SECONDS)
                continue
            state = {
                "exitCode": ended.exit_code,
                "reason": ended.reason,
                "message": ended.message,
                "startedAt": started,
                "finishedAt": timestamp(),
            }
            if not always or self._stopping.is_set():
                self._write("Succeeded" if ended.exit_code == 0 else "Failed", {"terminated": state})
                return
            self._restarts += 1
            self._last_state = {"terminated": state}
            waiting = {"reason": "CrashLoopBackOff", "message": f"started again in {backoff:.0f} s"}
            self._write("Running", {"waiting": waiting})
            await self._pause(backoff)
            backoff = min(2 * backoff, _LONGEST_BACKOFF_SECONDS)

    async def _run_once(self, started: str) -> Ended | None:
        """Run the container to its end; ``None`` when it couldn't be started."""
        self._pod["status"] = self._status
        try:
            self._container = await Container.start(self._store, self._places, self._pod, self._spec)
        except CannotStart as error:
            self._write("Pending", {"waiting": {"reason": error.reason, "message": error.message}})
            return None
        if self._stopping.is_set():
            self._container.stop()
        self._write("Running", {"running": {"startedAt": started}})
        probing = asyncio.create_task(self._probe(self._container, started))
        try:
            return await self._container.wait()
        finally:
            probing.cancel()
            self._container = None

    async def _probe(self, container: Container, started: str) -> None:
        """Startup probe, then readiness and liveness for as long as the container runs."""
        address = self._status["podIP"]
        startup, readiness, liveness = (
            Probe.read(self._spec, field, address) for field in ("startupProbe", "readinessProbe", "livenessProbe")
        )
        if startup is not None and not await startup.until_passed():
            container.stop()
            return
        ready, dead = readiness is None, 0
        self._write("Running", {"running": {"startedAt": started}}, ready=ready, is_started=True)
        probe = readiness or liveness
        while probe is not None:
            passed = await probe.passes()
            if passed != ready and readiness is not None:
                ready = passed
                self._write("Running", {"running": {"startedAt": started}}, ready=ready, is_started=True)
            if liveness is not None:
                dead = 0 if passed or await liveness.passes() else dead + 1
                if dead >= liveness.failure_threshold:
                    container.stop()
                    return
            await asyncio.sleep(min(probe.period_seconds, 1.0) if not ready else probe.period_seconds)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _write(self, phase: str, state: dict[str, Any], *, ready: bool = False, is_started: bool = False) -> None:
        condition = "True" if ready else "False"
        self._status = {
            **self._status,
            "phase": phase,
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": timestamp()}
                for kind, status in (("PodScheduled", "True"), ("ContainersReady", condition), ("Ready", condition))
            ]
            + ([_disruption("the local session was stopped")] if self._disrupted else []),
            "containerStatuses": [
                {
                    "name": self._spec["name"],
                    "image": self._spec.get("image", ""),
                    "ready": ready,
                    "started": is_started,
                    "restartCount": self._restarts,
                    "state": state,
                    "lastState": self._last_state,
                }
            ],
        }
        try:
            self._store.write_status(self._pod, self._status)
        except NotFound:
            self.stop()


def _address(uid: str) -> str:
    """A loopback address of the pod's own, so that fixed ports never collide; 127.0.* is left to others."""
    first, second, third = hashlib.sha256(uid.encode()).digest()[:3]
    return f"127.{first % 253 + 1}.{second}.{third % 253 + 1}"


def _lost(pod: Object) -> dict[str, Any]:
    """Status of a pod whose session was killed: as when a node goes away, so that nobody counts it as a failure."""
    status = pod["status"]
    finished = {"exitCode": LOST_EXIT_CODE, "reason": "Error", "message": "", "finishedAt": timestamp()}
    disruption = _disruption("the local session ended while the pod ran")
    return {
        **status,
        "phase": "Failed",
        "conditions": [*status.get("conditions", []), disruption],
        "containerStatuses": [
            {**container, "ready": False, "state": {"terminated": finished}}
            for container in status.get("containerStatuses", [])
        ],
    }


def _disruption(message: str) -> dict[str, Any]:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": message,
        "lastTransitionTime": timestamp(),
    }
