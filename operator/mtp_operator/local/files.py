"""The state folder: what lies where in it, whole files only, and one session at a time.

::

    <state>/
      lock                          held by the session that runs things
      objects/<plural>/<namespace>/<name>.json
      claims.json                   claims that `--claim NAME=DIR` gave a folder of their own
      claims/<name>/                all other claims
      cache/                        what each pod's cache volume is here: a laptop has one cache
      pods/<namespace>/<name>/      logs, termination messages, configuration files, temporary volumes
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class SessionRunning(RuntimeError):
    """Another session runs things in this state folder."""


def write_json(path: Path, value: Any) -> None:
    """Write a whole file or nothing, readable by another process at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """Content of a JSON file, ``None`` when there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


@contextmanager
def session_lock(state: Path) -> Iterator[None]:
    """Hold the state folder. The lock goes with the process, however that ends.

    Raises:
        SessionRunning: somebody else holds it.
    """
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise SessionRunning(
                f"{state}: process {file.read().strip() or '?'} runs things there; stop it with Ctrl-C first, "
                "or give another folder with --state"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


class Claims:
    """From claim names to folders."""

    def __init__(self, state: Path) -> None:
        self._root = state.resolve() / "claims"
        self._file = state / "claims.json"
        self._given: dict[str, str] = read_json(self._file) or {}

    def give(self, name: str, folder: Path) -> None:
        """Use this folder for a claim, now and in later sessions.

        Raises:
            NotADirectoryError: no such folder.
        """
        if not folder.is_dir():
            raise NotADirectoryError(f"--claim {name}={folder}: no such folder")
        self._given[name] = str(folder.resolve())
        write_json(self._file, self._given)

    def folder(self, name: str) -> Path:
        """Folder of a claim; made when it is asked for the first time."""
        folder = Path(self._given.get(name, self._root / name))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def remove(self, name: str) -> None:
        """Forget a claim that was deleted. Only folders that this class made are removed."""
        if name not in self._given:
            shutil.rmtree(self._root / name, ignore_errors=True)


def wait_unlocked(path: Path) -> None:
    """Wait until nobody holds the lock on this file."""
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
