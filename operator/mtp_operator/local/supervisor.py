"""Runs one container's command and leaves nothing behind. Started as a program of its own; standard library only.

Usage: ``supervisor.py GRACE_SECONDS LOCK_FILE COMMAND [ARGUMENT...]``

Its standard input is a pipe from the session. SIGTERM goes on to the command, as the kubelet's does to a container's
first process; after the grace period everything is killed. When the pipe ends, the session is gone (killed, most
likely) and the same happens with a shorter grace. When the command ends, whatever it left running is killed, as a
container's other processes are; on Linux this includes processes that moved to a session of their own. Its exit status
is the command's, 128 + n for signal n. LOCK_FILE is locked while anything may still run.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ORPHANED_GRACE_SECONDS = 5.0
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Run to the end; returns the exit status."""
    grace, lock_file, *command = arguments
    with open(lock_file, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _adopt_orphans()
        wake, signals = os.pipe()
        os.set_blocking(signals, False)
        signal.set_wakeup_fd(signals)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            return 127
        status = _supervise(child.pid, float(grace), wake)
        _kill_all(child.pid)
        return status


def _supervise(child: int, grace: float, wake: int) -> int:
    """Wait for the command, forward the end of the session to it; its exit status."""
    deadline: float | None = None
    watched = [wake, sys.stdin.fileno()]
    while True:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        readable, _, _ = select.select(watched, [], [], timeout)
        stop_within: float | None = None
        if sys.stdin.fileno() in readable and not os.read(sys.stdin.fileno(), 1024):
            watched.remove(sys.stdin.fileno())
            stop_within = min(grace, ORPHANED_GRACE_SECONDS)
        if wake in readable and signal.SIGTERM in os.read(wake, 1024):
            stop_within = grace
        if stop_within is not None:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            ends = time.monotonic() + stop_within
            deadline = ends if deadline is None else min(deadline, ends)
        status = _reap(child)
        if status is not None:
            return status
        if deadline is not None and time.monotonic() >= deadline:
            _signal_all(child, signal.SIGKILL)
            deadline = time.monotonic() + 1.0


def _reap(child: int) -> int | None:
    """Collect everything that ended; the command's exit status when it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


def _adopt_orphans() -> None:
    """Become the parent of grandchildren whose parent ends, so that they can be found (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill_all(child: int) -> None:
    """Kill what is left; a process that forks while it dies is met in the next round."""
    for _ in range(100):
        living = _signal_all(child, signal.SIGKILL)
        _reap(child)  # before the end of this process hands them to an init that may not
        if not living:
            return
        time.sleep(0.02)


def _signal_all(child: int, number: signal.Signals) -> int:
    """Signal the command's process group and all descendants; how many processes there were."""
    found = _descendants(os.getpid())
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)
    return len(found)


def _descendants(root: int) -> list[int]:
    """Living descendants by ``/proc``; none where there is no ``/proc``."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # pid (comm) state ppid ...; comm may hold spaces and parentheses
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, pending = [], [root]
    while pending:
        for pid in children.get(pending.pop(), []):
            found.append(pid)
            pending.append(pid)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
