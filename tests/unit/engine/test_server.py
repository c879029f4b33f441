"""A child process that is started, waited for, watched, and gone afterwards; any program can stand in for vLLM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mtp_trainer.contract import EngineConfig, ExitCode, Reason, StageError
from mtp_trainer.engine import Completions, VLLMServer

FAILS = """
import sys
print("INFO loading")
print("(EngineCore pid=7) ERROR 11-30 03:05:24 [core.py:9] ValueError: No room for the key-value cache", flush=True)
print("INFO cleaning up")
print("RuntimeError: Engine core initialization failed. See root cause above.", flush=True)
sys.exit(3)
"""
SLEEPS = "import time; print('INFO loading', flush=True); time.sleep(600)"
SERVES = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""
DIES = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(b'{"data": [{"max_model_len": 100}]}')
    def do_POST(self):
        print("torch.OutOfMemoryError: CUDA out of memory", flush=True)
        os._exit(1)
http.server.HTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""
WITH_WORKER = """
import subprocess, sys
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
worker = subprocess.Popen([sys.executable, "-c", deaf])
open({file!r}, "w").write(str(worker.pid))
"""


@pytest.fixture
def server_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., VLLMServer]:
    """A server whose process runs some Python instead of vLLM; ``{port}`` stands for its port."""

    def make(program: str, timeout: int = 30) -> VLLMServer:
        def command(model: Path, port: int, *_: object) -> list[str]:
            return [sys.executable, "-c", program.replace("{port}", str(port))]

        monkeypatch.setattr("mtp_trainer.engine.server.serve_command", command)
        config = EngineConfig(startup_timeout_seconds=timeout)
        return VLLMServer(tmp_path / "verifier", tmp_path / "vllm.log", config, say=lambda _: None)

    return make


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie that nobody has waited for doesn't)."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it didn't happen"
        time.sleep(0.05)


def failure(server: VLLMServer) -> StageError:
    with pytest.raises(StageError) as caught, server:
        pass
    return caught.value


def test_a_server_that_answers_is_ready_and_is_gone_after_the_block(server_of: Callable[..., VLLMServer]) -> None:
    with server_of(SERVES) as server:
        pid = server.pid
        assert pid is not None
        assert server.exit_code() is None
    assert not alive(pid)


def test_a_failed_start_names_its_root_cause_exit_code_and_log(server_of: Callable[..., VLLMServer]) -> None:
    error = failure(server_of(FAILS))
    assert error.reason is Reason.ENGINE_FAILED
    assert error.exit_code is ExitCode.FAILED
    assert "exit code 3" in error.message
    assert "ValueError: No room for the key-value cache" in error.message
    assert "vllm.log" in error.message


def test_a_silent_failure_says_that_the_log_is_empty(server_of: Callable[..., VLLMServer]) -> None:
    assert "its log is empty" in failure(server_of("import os; os._exit(9)")).message


def test_a_start_that_takes_too_long_names_the_setting_and_leaves_nothing(
    server_of: Callable[..., VLLMServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_of(SLEEPS, timeout=1)
    pids: list[int | None] = []
    stop = server.stop
    monkeypatch.setattr(server, "stop", lambda: (pids.append(server.pid), stop()))
    error = failure(server)
    assert error.reason is Reason.ENGINE_FAILED
    assert "startupTimeoutSeconds" in error.message
    assert pids[0] is not None
    assert not alive(pids[0])


def test_a_crash_while_serving_is_told_from_a_lost_connection(server_of: Callable[..., VLLMServer]) -> None:
    with server_of(SERVES) as server:
        server.raise_if_crashed(grace_seconds=0)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(StageError, match="exit code -9") as caught:
            server.raise_if_crashed()
    assert caught.value.reason is Reason.ENGINE_CRASHED


def test_an_engine_that_dies_at_a_request_is_reported_with_its_own_last_words(
    server_of: Callable[..., VLLMServer],
) -> None:
    with (
        server_of(DIES) as server,
        Completions(server.url, 1, 10, server.raise_if_crashed) as client,
        pytest.raises(StageError, match="OutOfMemoryError: CUDA out of memory") as caught,
    ):
        list(client.complete([(0, [1, 2])], 5))
    assert caught.value.reason is Reason.ENGINE_CRASHED
    assert caught.value.exit_code is ExitCode.FAILED


def test_workers_that_outlive_the_server_are_ended_with_it(
    server_of: Callable[..., VLLMServer], tmp_path: Path
) -> None:
    file = tmp_path / "worker"
    with server_of(WITH_WORKER.format(file=str(file)) + SERVES):
        worker = int(file.read_text())
        assert alive(worker)
    wait_until(lambda: not alive(worker))


def test_the_server_is_told_to_end_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(f"""
import sys, time
from pathlib import Path
import mtp_trainer.engine.server as module
from mtp_trainer.contract import EngineConfig
module.serve_command = lambda *_: [sys.executable, "-c", {SLEEPS!r}]
server = module.VLLMServer(Path("verifier"), Path({str(tmp_path)!r}) / "vllm.log", EngineConfig(), say=lambda _: None)
server.start()
print(server.pid, flush=True)
time.sleep(600)
""")
    with subprocess.Popen([sys.executable, str(parent)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert alive(child)
        process.kill()
        wait_until(lambda: not alive(child))
