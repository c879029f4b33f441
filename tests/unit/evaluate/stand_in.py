"""A small HTTP server in the place of vLLM: it drafts by dice, counts as vLLM does, and fails in ways that a real
engine can't be made to. ``python stand_in.py PORT BEHAVIOUR_JSON`` runs it as a process.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STEPS = 5
"""Drafts of each answer longer than a token."""


@dataclass(frozen=True)
class Behaviour:
    """How a stand-in serves."""

    name: str = "stand-in"
    depth: int = 3
    """0 is no drafting."""
    acceptance: float = 0.5
    """Probability of each further drafted token."""
    changes_output: bool = False
    trouble: str = ""
    """Of its answers: ``HTML``, ``500``, ``no metrics``, ``another's drafts`` (counted, but of no request here),
    ``dies``; or ``doesn't start``."""
    trouble_after: int = 0
    """Answers that are given before the trouble begins."""
    asked: str = ""
    """File to which the name is appended at each answer."""


class StandIn(ThreadingHTTPServer):
    """One server."""

    daemon_threads = True

    def __init__(self, port: int, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.behaviour = behaviour
        self.lock = threading.Lock()
        self.answers = 0
        self.drafts = 0
        self.accepted = [0] * behaviour.depth
        self.max_model_len = 1000

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def metrics(self) -> str:
        """The counters, in vLLM's words."""
        labels = 'engine="0",model_name="model"'
        totals = {
            "drafts": self.drafts,
            "draft_tokens": self.drafts * self.behaviour.depth,
            "accepted_tokens": sum(self.accepted),
        }
        lines = [f"vllm:spec_decode_num_{name}_total{{{labels}}} {float(value)}" for name, value in totals.items()]
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} {float(n)}'
            for i, n in enumerate(self.accepted)
        ]
        return "\n".join(lines) + "\n"

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """An answer that depends on prompt and seed, with its histogram counted."""
        behaviour, prompt = self.behaviour, body["prompt"]
        ids = [(prompt[-1] + i + body.get("seed", 0)) % 300 for i in range(body["max_tokens"])]
        if behaviour.changes_output:
            ids[-1] += 1
        answer: dict[str, Any] = {"choices": [{"text": "", "finish_reason": "length", "token_ids": ids}]}
        if not behaviour.depth:
            return answer
        dice = random.Random(sum(prompt))
        histogram = [0] * (behaviour.depth + 1)
        for _ in range(STEPS if len(ids) > 1 else 0):
            taken = 0
            while taken < behaviour.depth and dice.random() < behaviour.acceptance:
                taken += 1
            histogram[taken] += 1
        with self.lock:
            self.drafts += sum(histogram) + (behaviour.trouble == "another's drafts")
            for i in range(behaviour.depth):
                self.accepted[i] += sum(histogram[i + 1 :])
        if behaviour.trouble != "no metrics":
            counts = {"num_spec_steps": sum(histogram), "acceptance_histogram": histogram}
            answer["metrics"] = {"speculative_decoding": counts}
        return answer


class Handler(BaseHTTPRequestHandler):
    server: StandIn
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        match self.path:
            case "/health":
                self.send("")
            case "/metrics":
                self.send(self.server.metrics())
            case "/v1/models":
                self.send(json.dumps({"data": [{"max_model_len": self.server.max_model_len}]}))

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if server.behaviour.asked:
            with Path(server.behaviour.asked).open("a") as file:
                file.write(server.behaviour.name + "\n")
        with server.lock:
            server.answers += 1
            troubled = server.answers > server.behaviour.trouble_after
        match server.behaviour.trouble if troubled else "":
            case "HTML":
                self.send("<html>Welcome</html>")
            case "500":
                self.send("no memory left", 500)
            case "dies":
                print("torch.OutOfMemoryError: CUDA out of memory", flush=True)
                os._exit(1)
            case _:
                self.send(json.dumps(server.answer(body)))

    def send(self, text: str, status: int = 200) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the log to what matters."""


def main(port: str, behaviour: str) -> None:
    chosen = Behaviour(**json.loads(behaviour))
    if chosen.trouble == "doesn't start":
        print("ValueError: No room for the key-value cache", flush=True)
        sys.exit(3)
    StandIn(int(port), chosen).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
