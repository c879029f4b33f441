"""What a person sees while a session runs: one line per object, live on a terminal, line by line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from mtp_operator.kube.verbs import Object
from mtp_operator.local.session import conditions

_STYLES = {"True": "green", "False": "yellow", "Unknown": "cyan"}


def headline(obj: Object) -> str:
    """Where the object is: the stage of a run, the readiness of a serving, and why."""
    found = conditions(obj)
    ready = found.get("Ready")
    if ready is None:
        return "waiting for its first status"
    stage = obj.get("status", {}).get("stage")
    if ready["status"] == "True":
        return ready["reason"]
    text = f"{stage}: {ready['reason']}" if stage else ready["reason"]
    stalled = found.get("Stalled", {}).get("status") == "True"
    return f"{text}: {ready['message']}" if stalled and ready["message"] else text


def figures(obj: Object) -> str:
    """What is measured so far, in one line; empty when nothing is."""
    status = obj.get("status", {})
    parts: list[str] = []
    evaluation = status.get("evaluation")
    progress = status.get("progress") or {}
    if evaluation:
        shipped, tuned = evaluation["shipped"], evaluation["tuned"]
        parts.append(f"shipped {shipped.get('summary')} length {shipped.get('meanAcceptanceLength')}")
        parts.append(f"tuned {tuned.get('summary')} length {tuned.get('meanAcceptanceLength')}")
    elif progress and status.get("stage") == "Train":
        parts.append(f"{progress.get('percent', 0)} % ({progress.get('step', 0)}/{progress.get('totalSteps', '?')})")
        parts += [f"loss {progress['loss']}"] if "loss" in progress else []
        parts += [f"predicted {progress['heldOutAcceptance']}"] if progress.get("heldOutAcceptance") else []
        left = progress.get("estimatedRemainingSeconds")
        parts += [f"{left} s left"] if left is not None else []
    acceptance = status.get("acceptance")
    if acceptance and acceptance.get("drafts"):
        parts.append(f"accepted {acceptance.get('summary')}")
        parts.append(f"length {acceptance.get('meanAcceptanceLength')} over {acceptance['drafts']} drafts")
    if status.get("url"):
        parts.append(status["url"])
    return ", ".join(parts)


class Display(Protocol):
    """Shows objects as they change."""

    def show(self, objects: Iterable[Object]) -> None:
        """The newest state of all of them."""


class PlainDisplay:
    """A line whenever an object's line is another than before."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown: dict[str, str] = {}

    def show(self, objects: Iterable[Object]) -> None:
        for obj in objects:
            name = f"{obj['kind'].lower()}/{obj['metadata']['name']}"
            line = " | ".join(part for part in (headline(obj), figures(obj)) if part)
            if self._shown.get(name) != line:
                self._shown[name] = line
                print(f"{name}: {line}", file=self._out, flush=True)


class LiveDisplay:
    """A table that is redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, objects: Iterable[Object]) -> None:
        grid = Table.grid(padding=(0, 2))
        for obj in objects:
            ready = conditions(obj).get("Ready", {}).get("status", "Unknown")
            name = f"{obj['kind']} {obj['metadata']['name']}"
            grid.add_row(f"[bold]{name}[/]", f"[{_STYLES[ready]}]{headline(obj)}[/]", figures(obj))
        self._live.update(grid)


@contextmanager
def display(out: TextIO | None = None) -> Iterator[Display]:
    """The display that fits ``out``, standard error by default: results go to standard output."""
    out = out or sys.stderr
    if not out.isatty():
        yield PlainDisplay(out)
        return
    with Live(console=Console(file=out), refresh_per_second=4) as live:
        yield LiveDisplay(live)
