"""How the process ends when it can't begin."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from socket import create_server

import pytest

from mtp_operator.controller import main as main_module
from mtp_operator.controller.main import wait_for_kinds
from mtp_operator.kube.verbs import SERVING, Kind, KubeError


def ended(*flags: str, **environment: str) -> tuple[int, str]:
    """Exit status and output of an operator that ends by itself."""
    process = subprocess.run(
        [sys.executable, "-m", "mtp_operator.controller.main", "--address=127.0.0.1", *flags],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout


def free_ports() -> tuple[str, str]:
    with create_server(("127.0.0.1", 0)) as first, create_server(("127.0.0.1", 0)) as second:
        return f"--metrics-port={first.getsockname()[1]}", f"--probe-port={second.getsockname()[1]}"


def test_without_a_cluster_it_ends_and_says_what_to_set(tmp_path: Path) -> None:
    code, said = ended(*free_ports(), KUBECONFIG=str(tmp_path / "absent"))
    assert code == 1
    assert "no such file; set KUBECONFIG" in said
    assert "Traceback" not in said


def test_with_its_port_in_use_it_ends_and_names_the_port() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = ended(free_ports()[0], f"--probe-port={port}")
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "Traceback" not in said


class Installing:
    """An API server that isn't there at first, and then lacks the kinds for a while."""

    def __init__(self) -> None:
        self.asked = 0

    async def serves(self, kind: Kind) -> bool:
        self.asked += 1
        if self.asked < 3:
            raise KubeError(0, "NoAnswer", "connection refused")
        return self.asked > 10 or kind != SERVING


async def test_it_waits_for_the_kinds_and_says_once_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(main_module, "KINDS_RETRY_SECONDS", 0)
    async with asyncio.timeout(60):
        await wait_for_kinds(Installing())  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == [
        "waiting: 0 NoAnswer: connection refused",
        "waiting: the CRDs of specdecodeservings are not installed",
    ]
