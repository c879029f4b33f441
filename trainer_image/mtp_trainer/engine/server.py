"""One vLLM server as a child process: started, waited for, watched, and gone when the block ends.

The server leads a process group of its own, so that stopping it takes its workers along; and it is told to die with
this process, so that a killed stage leaves no engine behind that holds the GPUs.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from mtp_trainer.contract import EngineConfig, ExitCode, Reason, StageError
from mtp_trainer.engine.command import DRAIN_SECONDS, Speculation, serve_command, serve_environment
from mtp_trainer.engine.installed import is_cpu_build

POLL_SECONDS = 0.5
PR_SET_PDEATHSIG = 1
CAUSE = re.compile(r"^\S*(?:Error|Exception|Killed|Assertion)\b.*|.*\b\w*(?:Error|Exception): .+")
"""A line of a log that names a cause: the type of an exception and its text."""


class VLLMServer:
    """A ``vllm serve`` of one checkpoint, for use in a ``with`` block."""

    def __init__(
        self,
        model: Path,
        log: Path,
        config: EngineConfig,
        speculation: Speculation | None = None,
        trust_remote_code: bool = False,
        say: Callable[[str], None] = lambda line: print(line, flush=True),
    ) -> None:
        self.model = model
        self.log = log
        self.config = config
        self.speculation = speculation
        self._trust_remote_code = trust_remote_code
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process without waiting for it.

        Raises:
            StageError: ``EngineMissing``.
        """
        cpu, port = is_cpu_build(), _free_port()
        command = serve_command(self.model, port, self.config, self.speculation, cpu, self._trust_remote_code)
        self.url = f"http://127.0.0.1:{port}"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._say(f"starting vLLM for {self.model.name} (log: {self.log})")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=serve_environment(os.environ, cpu),
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )

    def wait_ready(self) -> None:
        """Wait until ``/health`` answers.

        vLLM refuses connections until the model is loaded, so only the process and the clock tell a slow start from
        a failed one.

        Raises:
            StageError: ``EngineFailed``, with the log's last cause.
        """
        began = said = time.monotonic()
        # trust_env off: a proxy from the environment must not see loopback traffic.
        with httpx.Client(timeout=5, trust_env=False) as client:
            while True:
                if (code := self.exit_code()) is not None:
                    raise self._failed(f"vLLM ended with exit code {code} before it was ready")
                with suppress(httpx.TransportError):
                    if client.get(f"{self.url}/health").status_code == 200:
                        self._say(f"vLLM is ready after {time.monotonic() - began:.0f} s")
                        return
                now = time.monotonic()
                if now - began > self.config.startup_timeout_seconds:
                    raise self._failed(
                        f"vLLM was not ready after {self.config.startup_timeout_seconds} s; "
                        "raise failurePolicy.startupTimeoutSeconds if it needs longer"
                    )
                if now - said > 15:
                    self._say(f"waiting for vLLM, {now - began:.0f} s so far")
                    said = now
                time.sleep(POLL_SECONDS)

    def exit_code(self) -> int | None:
        """The ended process's exit code (negative: a signal), None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        """Process id, None before the start."""
        return None if self._process is None else self._process.pid

    def raise_if_crashed(self, grace_seconds: float = 10.0) -> None:
        """After a lost connection: the server ends itself within seconds when its engine has died.

        Raises:
            StageError: ``EngineCrashed``, with the log's last cause.
        """
        end = time.monotonic() + grace_seconds
        while time.monotonic() < end:
            if (code := self.exit_code()) is not None:
                raise StageError(
                    Reason.ENGINE_CRASHED,
                    f"vLLM crashed while it served (exit code {code}): {self.cause()}; its log is {self.log}",
                    ExitCode.FAILED,
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server and whatever it started; returns when they are gone."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(DRAIN_SECONDS + 30)
        # Workers share the group; they may outlive a server that was killed.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def cause(self) -> str:
        """The last line of the log that names an exception, else its last line."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 200_000))
                lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:
            return "it left no log"
        # The server's own last error only says that the engine failed; the engine's comes before it.
        causes = [line for line in lines if CAUSE.match(line) and "See root cause" not in line]
        chosen = causes[-1] if causes else lines[-1] if lines else "its log is empty"
        return re.sub(r"^\(\w+ pid=\d+\)\s*(?:ERROR \S+ \S+ \[\S+\]\s*)?", "", chosen)[:600]

    def _failed(self, what: str) -> StageError:
        return StageError(Reason.ENGINE_FAILED, f"{what}: {self.cause()}; its log is {self.log}", ExitCode.FAILED)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> Callable[[], None] | None:
    """Ask the kernel (Linux only) to end the child when this process ends, however it ends."""
    if sys.platform != "linux":
        return None
    # Looked up before the fork: afterwards only async-signal-safe work is allowed.
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def set_signal() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    return set_signal
