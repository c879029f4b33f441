"""A small HTTP server that misbehaves in ways that a real engine can't be made to, on a loopback port."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class FakeEngine(ThreadingHTTPServer):
    """Answers ``/v1/completions`` by a script whose last reply repeats, and keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Reply] = [self.echo]
        self.metrics = ""
        self.max_model_len = 1000
        self.models: str | None = None
        self.asked: list[dict[str, Any]] = []
        self.busy = 0
        self.busiest = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @staticmethod
    def completion(token_ids: list[int], finish_reason: str = "stop", **more: Any) -> dict[str, Any]:
        """A well-formed answer, as vLLM writes it."""
        text = " ".join(str(i) for i in token_ids)
        return {"choices": [{"index": 0, "text": text, "finish_reason": finish_reason, "token_ids": token_ids}], **more}

    @classmethod
    def echo(cls, handler: Handler, body: dict[str, Any]) -> None:
        """The last token of the prompt, twice where there is room."""
        handler.send(cls.completion([body["prompt"][-1]] * min(2, body["max_tokens"])))

    @staticmethod
    def drop(handler: Handler, body: dict[str, Any]) -> None:
        """Close the connection without an answer."""
        handler.close_connection = True
        handler.connection.close()

    @staticmethod
    def says(body: object, status: int = 200) -> Reply:
        """The same answer to whatever was asked."""
        return lambda handler, _: handler.send(body, status)


class Handler(BaseHTTPRequestHandler):
    server: FakeEngine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.send(self.server.metrics)
        elif self.path == "/v1/models":
            self.send(self.server.models or {"data": [{"id": "model", "max_model_len": self.server.max_model_len}]})
        else:
            self.send("not found", 404)

    def do_POST(self) -> None:
        engine = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with engine.lock:
            engine.asked.append(body)
            engine.busy += 1
            engine.busiest = max(engine.busy, engine.busiest)
            reply = engine.script.pop(0) if len(engine.script) > 1 else engine.script[0]
        try:
            reply(self, body)
        finally:
            with engine.lock:
                engine.busy -= 1

    def send(self, body: object, status: int = 200) -> None:
        """Send text as it is, anything else as JSON."""
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


Reply = Callable[[Handler, dict[str, Any]], None]
"""Answers one completion request, given its body."""


@pytest.fixture
def fake_engine() -> Iterator[FakeEngine]:
    """A running fake engine."""
    server = FakeEngine()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr("mtp_trainer.engine.client.PAUSE_SECONDS", 0.0)
