"""How far the run is: for the eye, in a file, and over HTTP."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from mtp_trainer.contract import Progress, StageError
from mtp_trainer.storage import write_file

FILE_SECONDS, LINE_SECONDS = 1.0, 5.0


class ProgressReporter:
    """Shows progress while its ``with`` block runs: a bar on a terminal, else a line every few seconds."""

    def __init__(self, path: Path, total_steps: int, first_step: int, port: int | None) -> None:
        self._path, self._total, self._first = path, total_steps, first_step
        self._began = self._filed = self._said = time.monotonic()
        self._current = Progress(step=first_step, total_steps=total_steps, percent=_percent(first_step, total_steps))
        self._terminal = sys.stdout.isatty()
        self._bar = Bar(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=Console(),
            disable=not self._terminal,
        )
        self._task = self._bar.add_task("training", total=total_steps, completed=first_step, figures="")
        self._server = None if port is None else _Server(port, lambda: self._current)

    @property
    def port(self) -> int | None:
        """The port that answers, None without one; useful when 0 asked for any."""
        return None if self._server is None else self._server.port

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if self._server is not None:
            self._server.close()
        try:
            self._write()
        except StageError:
            # What ended the block says more than that its last progress can't be written.
            if error is None:
                raise

    def update(self, step: int, loss: float, acceptance: tuple[float, ...], tokens_per_second: float) -> None:
        """After ``step`` optimiser steps; ``acceptance`` is the newest prediction per position."""
        now = time.monotonic()
        left = remaining_seconds(now - self._began, step - self._first, self._total - step)
        self._current = Progress(
            step=step,
            total_steps=self._total,
            percent=_percent(step, self._total),
            loss=round(loss, 5),
            held_out_acceptance=tuple(round(rate, 4) for rate in acceptance),
            tokens_per_second=round(tokens_per_second, 1),
            estimated_remaining_seconds=None if left is None else round(left),
            updated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        figures = f"loss {loss:.4f}  acceptance {'/'.join(f'{rate:.3f}' for rate in acceptance)}"
        self._bar.update(self._task, completed=step, figures=f"{figures}  {tokens_per_second:,.0f} tokens/s")
        if now - self._filed >= FILE_SECONDS or step == self._total:
            self._write()
            self._filed = now
        if not self._terminal and (now - self._said >= LINE_SECONDS or step == self._total):
            time_left = "" if left is None else f", about {left:.0f} s left"
            print(f"step {step} of {self._total}  {figures}  {tokens_per_second:,.0f} tokens/s{time_left}", flush=True)
            self._said = now

    def _write(self) -> None:
        write_file(self._path, self._current.model_dump_json(by_alias=True, exclude_none=True) + "\n")


def remaining_seconds(elapsed: float, done: int, left: int) -> float | None:
    """Time for the steps that are ``left`` at the pace of those ``done`` in this process; None before the first."""
    return elapsed / done * left if done else None


def _percent(step: int, total: int) -> int:
    return 100 * step // max(1, total)


class _Server:
    """``GET /progress`` (JSON of the contract's Progress) and ``GET /metrics`` (Prometheus)."""

    def __init__(self, port: int, current: Callable[[], Progress]) -> None:
        registry = CollectorRegistry()
        gauges = _Gauges(registry)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                progress = current()
                if self.path == "/progress":
                    self._answer(
                        "application/json", progress.model_dump_json(by_alias=True, exclude_none=True).encode()
                    )
                elif self.path == "/metrics":
                    gauges.set(progress)
                    self._answer("text/plain; version=0.0.4", generate_latest(registry))
                else:
                    self.send_error(404, "ask for /progress or /metrics")

            def _answer(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes aren't worth a line each."""

        self._http = ThreadingHTTPServer((os.environ.get("MTP_BIND_ADDRESS", "0.0.0.0"), port), Handler)  # noqa: S104
        self.port = int(self._http.server_address[1])
        threading.Thread(target=self._http.serve_forever, name="progress", daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Gauges:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._step = Gauge("mtp_train_step", "Optimiser steps done", registry=registry)
        self._total = Gauge("mtp_train_total_steps", "Optimiser steps of the run", registry=registry)
        self._loss = Gauge("mtp_train_loss", "Loss of the newest step", registry=registry)
        self._speed = Gauge("mtp_train_tokens_per_second", "Tokens under the loss mask per second", registry=registry)
        self._rate = Gauge(
            "mtp_train_held_out_acceptance", "Predicted unconditional acceptance", ["position"], registry=registry
        )

    def set(self, progress: Progress) -> None:
        self._step.set(progress.step)
        self._total.set(progress.total_steps)
        if progress.loss is not None:
            self._loss.set(progress.loss)
        if progress.tokens_per_second is not None:
            self._speed.set(progress.tokens_per_second)
        for position, rate in enumerate(progress.held_out_acceptance):
            self._rate.labels(str(position)).set(rate)
