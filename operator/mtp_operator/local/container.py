"""One container of a pod as a local process: command, environment, volumes, log, and how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtp_operator.kube.verbs import CONFIG_MAP, Object
from mtp_operator.local import supervisor
from mtp_operator.local.files import Claims
from mtp_operator.local.paths import Translation, expand_variables
from mtp_operator.local.store import LocalStore

MAX_MESSAGE_BYTES = 4096
"""What Kubernetes keeps of a termination message."""
FALLBACK_BYTES = 2048
"""What it takes of the log instead, with FallbackToLogsOnError."""
DEFAULT_TERMINATION_PATH = "/dev/termination-log"
BIND_ADDRESS = "MTP_BIND_ADDRESS"
SHARED_VOLUME = "cache"
SHARED_PATHS = ("/tmp", "/dev/shm")  # noqa: S108
"""Temporary volumes at these paths are this machine's own: processes share them here anyway."""


class CannotStart(Exception):
    """A container that can't be started now; ``reason`` as the kubelet would give it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    exit_code: int
    message: str

    @property
    def reason(self) -> str:
        return "Completed" if self.exit_code == 0 else "Error"


@dataclass(frozen=True)
class Places:
    """Folders that containers need."""

    state: Path
    claims: Claims

    def pod(self, pod: Object) -> Path:
        """Folder of one pod: logs, termination messages, configuration files, temporary volumes."""
        return self.state / "pods" / str(pod["metadata"]["namespace"]) / str(pod["metadata"]["name"])

    @property
    def cache(self) -> Path:
        return self.state / "cache"


class Container:
    """A running container."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        log: Path,
        termination: Path,
        fall_back: bool,
        to_mounts: Translation,
    ) -> None:
        self._process = process
        self._log = log
        self._termination = termination
        self._fall_back = fall_back
        self._to_mounts = to_mounts

    @classmethod
    async def start(cls, store: LocalStore, places: Places, pod: Object, spec: dict[str, Any]) -> Container:
        """Start a container of ``pod``; ``spec`` is its entry in ``spec.containers``.

        Raises:
            CannotStart: something that it refers to is missing.
        """
        folder = places.pod(pod)
        folder.mkdir(parents=True, exist_ok=True)
        termination = folder / f"{spec['name']}.termination"
        termination.write_text("")
        mounts = _volumes(store, places, pod, spec)
        translate = Translation({**mounts, spec.get("terminationMessagePath", DEFAULT_TERMINATION_PATH): termination})
        _write_config_maps(store, pod, spec, mounts, translate)
        environment = _environment(store, pod, spec, translate)
        words = [*spec.get("command", []), *spec.get("args", [])]
        command = [translate(expand_variables(word, environment)) for word in words]
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
        log = folder / f"{spec['name']}.log"
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                supervisor.__file__,
                str(grace),
                str(folder / f"{spec['name']}.running"),
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=_host_environment() | environment,
                cwd=folder,
                start_new_session=True,  # so that Ctrl-C reaches the session alone, which then stops its containers
            )
        fall_back = spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        return cls(process, log, termination, fall_back, Translation(mounts).reversed())

    async def wait(self) -> Ended:
        """Wait for its end."""
        code = await self._process.wait()
        message = self._termination.read_bytes()[:MAX_MESSAGE_BYTES]
        if not message and code != 0 and self._fall_back:
            message = self._log.read_bytes()[-FALLBACK_BYTES:]
        text = message.decode("utf-8", errors="replace")
        # A result's paths are read as mount paths, as in a cluster; an error's are for the person here.
        return Ended(code if code >= 0 else 128 - code, self._to_mounts(text) if code == 0 else text)

    def stop(self) -> None:
        """SIGTERM; the supervisor kills what is left after the grace period."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)


def _host_environment() -> dict[str, str]:
    """This process's environment, with its interpreter's folder first on the path: mtp-trainer and vllm are there."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def _volumes(store: LocalStore, places: Places, pod: Object, spec: dict[str, Any]) -> dict[str, Path]:
    """Folder of each mount path."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
    folders: dict[str, Path] = {}
    for mount in spec.get("volumeMounts", []):
        volume = volumes.get(mount["name"])
        if volume is None:
            raise CannotStart("CreateContainerConfigError", f"volume {mount['name']} is not in the pod's spec")
        if "emptyDir" in volume and mount["mountPath"] in SHARED_PATHS:
            continue
        if "persistentVolumeClaim" in volume:
            folder = places.claims.folder(volume["persistentVolumeClaim"]["claimName"])
        elif mount["name"] == SHARED_VOLUME and "emptyDir" in volume:
            folder = places.cache
        else:
            folder = places.pod(pod) / "volumes" / mount["name"]
        folder.mkdir(parents=True, exist_ok=True)
        folders[mount["mountPath"]] = folder / mount["subPath"] if "subPath" in mount else folder
    return folders


def _write_config_maps(
    store: LocalStore, pod: Object, spec: dict[str, Any], mounts: dict[str, Path], translate: Translation
) -> None:
    sources = {
        volume["name"]: volume["configMap"] for volume in pod["spec"].get("volumes", []) if "configMap" in volume
    }
    for mount in spec.get("volumeMounts", []):
        if mount["name"] not in sources:
            continue
        name = sources[mount["name"]]["name"]
        found = store.read(CONFIG_MAP, pod["metadata"]["namespace"], name)
        if found is None:
            raise CannotStart("CreateContainerConfigError", f'configmap "{name}" not found')
        for file, text in found.get("data", {}).items():
            (mounts[mount["mountPath"]] / file).write_text(translate(text), encoding="utf-8")


def _environment(store: LocalStore, pod: Object, spec: dict[str, Any], translate: Translation) -> dict[str, str]:
    """The container's own variables, ``$(NAME)`` expanded in order as Kubernetes does."""
    result: dict[str, str] = {}
    for variable in spec.get("env", []):
        name = variable["name"]
        if name == BIND_ADDRESS:
            result[name] = pod["status"]["podIP"]
        elif "valueFrom" in variable:
            value = _value_from(store, pod, variable["valueFrom"])
            if value is not None:
                result[name] = translate(value)
        else:
            result[name] = translate(expand_variables(variable.get("value", ""), result))
    return result


def _value_from(store: LocalStore, pod: Object, source: dict[str, Any]) -> str | None:
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    if "configMapKeyRef" in source:
        reference = source["configMapKeyRef"]
        found = store.read(CONFIG_MAP, pod["metadata"]["namespace"], reference["name"])
        value = (found or {}).get("data", {}).get(reference["key"])
        if value is None and not reference.get("optional"):
            raise CannotStart(
                "CreateContainerConfigError", f'configmap "{reference["name"]}": no key {reference["key"]}'
            )
        return value if value is None else str(value)
    if "secretKeyRef" in source:
        # There are no Secrets here: the value comes from the session's own variable of that name.
        reference = source["secretKeyRef"]
        if reference["key"] not in os.environ and not reference.get("optional"):
            raise CannotStart(
                "CreateContainerConfigError",
                f'secret "{reference["name"]}" not found: in local mode, set the variable {reference["key"]} instead',
            )
        return os.environ.get(reference["key"])
    raise CannotStart("CreateContainerConfigError", f"valueFrom {', '.join(source)}: not known in local mode")


def _field(pod: Object, path: str) -> str:
    fields = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"]["namespace"],
        "metadata.uid": pod["metadata"]["uid"],
        "status.podIP": pod["status"]["podIP"],
        "status.hostIP": pod["status"]["podIP"],
        "spec.nodeName": "local",
    }
    if path not in fields:
        raise CannotStart("CreateContainerConfigError", f"fieldRef {path}: not known in local mode")
    return str(fields[path])
