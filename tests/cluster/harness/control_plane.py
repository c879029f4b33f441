"""etcd, kube-apiserver and kube-controller-manager on free ports of the loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from harness.api import Api, eventually
from harness.certificates import write_certificates
from harness.processes import Process, free_ports

ADMIN_TOKEN = "tests-admin"
# What the tests need and no more: every controller costs memory, and nodes, clouds and autoscaling aren't here.
CONTROLLERS = (
    "garbage-collector-controller",
    "job-controller",
    "deployment-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
    "root-ca-certificate-publisher-controller",
)


class ControlPlane:
    """A running cluster without nodes: Jobs get pods, nobody runs them."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._processes: list[Process] = []
        self.kubeconfig = folder / "kubeconfig"
        self._etcd_port, self._port = 0, 0
        self.api: Api

    def start(self) -> None:
        """Return when the API server is ready."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_certificates(self._folder)
        self._etcd_port, self._port, peers = free_ports(3)
        self._start_etcd(peers)
        self._start_api_server()
        self.api = Api(f"https://127.0.0.1:{self._port}", self._folder / "ca.crt", ADMIN_TOKEN)
        self.write_kubeconfig(self.kubeconfig, ADMIN_TOKEN)
        eventually(self._ready, "the API server to be ready")

    def start_controllers(self) -> None:
        """Start kube-controller-manager.

        The garbage collector asks only every 30 s which kinds there are, so a cluster whose own kinds are installed
        before it starts deletes their children at once.
        """
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(CONTROLLERS)}",
            f"--root-ca-file={self._folder / 'ca.crt'}",
            f"--service-account-private-key-file={self._folder / 'accounts.key'}",
            "--leader-elect=false",
            "--secure-port=0",
        )

    def restart_api_server(self) -> None:
        """Kill it and start it again at the same port: every watch is cut."""
        old = next(process for process in self._processes if process.name == "kube-apiserver")
        self._processes.remove(old)
        old.kill()
        self._start_api_server()
        eventually(self._ready, "the API server to be ready again")

    def stop(self) -> None:
        """Stop all of them; etcd last, since the others wait for it when they end."""
        for process in sorted(self._processes, key=lambda process: process.name == "etcd"):
            process.stop()
        self._processes.clear()

    def check(self) -> None:
        """Raise if one has ended."""
        for process in self._processes:
            process.check()

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """What kubectl says, both streams; a failure raises with it unless ``check`` is off."""
        ended = subprocess.run(
            [self._binaries / "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "KUBECACHEDIR": str(self._folder / "kubectl-cache")},
        )
        if check and ended.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)} ended with {ended.returncode}:\n{ended.stdout}")
        return ended.stdout

    def write_kubeconfig(self, path: Path, token: str) -> None:
        """A kubeconfig for whoever has this token."""
        named = {"name": "tests"}
        cluster = {"server": self.api.server, "certificate-authority": str(self._folder / "ca.crt")}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{**named, "cluster": cluster}],
            "users": [{**named, "user": {"token": token}}],
            "contexts": [{**named, "context": {"cluster": "tests", "user": "tests"}}],
            "current-context": "tests",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content), encoding="utf-8")

    def _start_etcd(self, peers: int) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{peers}"
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _start_api_server(self) -> None:
        tokens = self._folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n', encoding="utf-8")
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self._folder / 'server.crt'}",
            f"--tls-private-key-file={self._folder / 'server.key'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'accounts.key'}",
            f"--service-account-signing-key-file={self._folder / 'accounts.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # A loopback address may not stand in the endpoints of the service "kubernetes", which nobody uses here.
            "--endpoint-reconciler-type=none",
            # With it the operator's rules about blockOwnerDeletion are those of OpenShift.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        )

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._binaries / program, *arguments]
        self._processes.append(Process(program, command, self._folder / f"{program}.log"))

    def _ready(self) -> bool:
        self.check()
        try:
            return bool(self.api.request("GET", "readyz") == "ok")
        except Exception:  # not listening yet, or not ready yet
            return False
