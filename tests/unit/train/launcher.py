"""Runs ``mtp-trainer`` in forks of a process that has loaded torch already: loading takes longer than a tiny run.

One JSON request per line of standard input, one JSON answer per line of standard output::

    {"arguments": [...], "log": FILE, "environment": {...}, "largestFile": BYTES or null}  ->  PID
    PID                                                                                     ->  exit status, or -signal
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any, NoReturn

from transformers import AutoTokenizer, Qwen3_5ForCausalLM

import mtp_trainer.prepare
import mtp_trainer.train
from mtp_trainer.cli import main

LOADED = (mtp_trainer.prepare, mtp_trainer.train, AutoTokenizer, Qwen3_5ForCausalLM)


def start(request: dict[str, Any]) -> int:
    """Fork a run of the command; gives its process id."""
    pid = os.fork()
    if pid == 0:
        run(request)
    return pid


def run(request: dict[str, Any]) -> NoReturn:
    """Be the command, from its arguments to its exit status."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(request["environment"])
    if request["largestFile"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largestFile"], resource.RLIM_INFINITY))
    leave(main(request["arguments"]))


def leave(code: int) -> NoReturn:
    """End without taking torch down, which takes seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for line in sys.stdin:
        match json.loads(line):
            case int(pid):
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            case request:
                answer = start(request)
        print(answer, flush=True)
    leave(0)
