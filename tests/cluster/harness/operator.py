"""The operator as it runs in a cluster: its own process, with the rights of its service account and no others."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from harness.api import eventually
from harness.control_plane import ControlPlane
from harness.processes import Process, free_ports

NAMESPACE = "mtp-system"
ACCOUNT = "mtp-operator"


class Operator:
    """``python -m mtp_operator.controller.main`` against a control plane."""

    def __init__(self, cluster: ControlPlane, folder: Path, identity: str = "operator-0") -> None:
        self._cluster = cluster
        self._folder = folder
        self._identity = identity
        self._process: Process | None = None
        self.metrics_port, self.probe_port = free_ports(2)

    def start(self, *flags: str) -> None:
        """Start it; :meth:`state` says how far it is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        kubeconfig = self._folder / f"{self._identity}.kubeconfig"
        token = self._cluster.kubectl("create", "token", ACCOUNT, f"--namespace={NAMESPACE}", "--duration=2h").strip()
        self._cluster.write_kubeconfig(kubeconfig, token)
        command = [
            sys.executable,
            "-m",
            "mtp_operator.controller.main",
            "--address=127.0.0.1",
            f"--metrics-port={self.metrics_port}",
            f"--probe-port={self.probe_port}",
            *flags,
        ]
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "POD_NAME": self._identity,
            "POD_NAMESPACE": NAMESPACE,
            "MTP_TRAINER_IMAGE": "registry.example/mtp-trainer:tests",
        }
        self._process = Process(
            f"operator {self._identity}", command, self._folder / f"{self._identity}.log", environment
        )

    def start_leading(self) -> None:
        """Start it, and return once it holds the lease."""
        self.start()
        eventually(lambda: self.state() == "leading", f"{self._identity} to lead")

    def start_if_ended(self) -> None:
        """Start it again if it has ended, as its Deployment does."""
        if self.process.ended:
            self.start()

    @property
    def process(self) -> Process:
        assert self._process is not None, "not started"
        return self._process

    def state(self) -> str:
        """What ``/readyz`` says; empty before it answers with 200."""
        self.process.check()
        try:
            return self.read("readyz", self.probe_port).strip()
        except (urllib.error.URLError, ConnectionError):
            return ""

    def metrics(self) -> dict[str, float]:
        """Series by name and labels, as they are written."""
        lines = self.read("metrics", self.metrics_port).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def looks(self, kind: str) -> float:
        """How many looks at objects of a kind have ended well."""
        return self.metrics().get(f'mtp_operator_reconciles_total{{kind="{kind}",result="success"}}', 0)

    def read(self, path: str, port: int) -> str:
        """Body of a page of the operator's."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            text: str = answer.read().decode()
        return text
