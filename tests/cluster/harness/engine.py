"""An engine's ``/metrics`` with vLLM's counters, which rise each time they are read, as under steady traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

PORT = 8000
LABELS = 'engine="0",model_name="chat"'


@contextmanager
def engine(ip: str, drafts: int, accepted: Sequence[int]) -> Iterator[None]:
    """Serve at ``ip`` and vLLM's port; each read adds so many drafts, and of each position so many accepted ones."""
    reads = 0

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal reads
            reads += 1
            body = "\n".join([*_lines(reads * drafts, [reads * count for count in accepted]), ""]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: it would go to the tests' output."""

    server = ThreadingHTTPServer((ip, PORT), Metrics)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _lines(drafts: int, accepted: Sequence[int]) -> Iterator[str]:
    name = "vllm:spec_decode_num"
    yield f"# TYPE {name}_drafts counter"
    yield f"{name}_drafts_total{{{LABELS}}} {float(drafts)}"
    yield f"{name}_draft_tokens_total{{{LABELS}}} {float(drafts * len(accepted))}"
    yield f"{name}_accepted_tokens_total{{{LABELS}}} {float(sum(accepted))}"
    for position, count in enumerate(accepted):
        yield f'{name}_accepted_tokens_per_pos_total{{{LABELS},position="{position}"}} {float(count)}'
