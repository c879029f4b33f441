"""Child processes that never outlive the tests, with their output in a file."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Runs in the child before exec: a test run that is itself killed leaves no server behind (Linux only)."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A running child."""

    def __init__(
        self, name: str, command: Sequence[str | os.PathLike[str]], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [os.fspath(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    def check(self) -> None:
        """Raise with the end of the log if it has ended."""
        if self.ended:
            raise RuntimeError(f"{self.name} ended with {self._popen.returncode}; {self.log} ends with:\n{self.tail()}")

    def tail(self, size_bytes: int = 6000) -> str:
        """The end of its output."""
        return self.log.read_bytes()[-size_bytes:].decode(errors="replace")

    def kill(self) -> None:
        """SIGKILL: no time to say goodbye."""
        self._popen.kill()
        self._popen.wait()

    def stop(self, patience_seconds: float = 10) -> int:
        """SIGTERM, then SIGKILL; its exit status."""
        if not self.ended:
            self._popen.terminate()
            try:
                self._popen.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._popen.wait()

    def wait(self, patience_seconds: float) -> int:
        """Its exit status, once it ends by itself."""
        return self._popen.wait(patience_seconds)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on. All are held until all are known."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()
