"""helm, kubectl, and one API server for the tests that install."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# Test files are imported by path (--import-mode=importlib), which finds no neighbours; the control plane is that of
# the cluster tier.
sys.path[:0] = [
    str(Path(__file__).parent),
    str(REPOSITORY / "tests" / "cluster"),
    str(REPOSITORY / "tools" / "cluster"),
]

import build  # noqa: E402
from harness.control_plane import ControlPlane  # noqa: E402
from helm_command import Helm  # noqa: E402


@pytest.fixture(scope="session")
def helm_program(pytestconfig: pytest.Config) -> Path:
    """helm, built at the first run, with its progress on the terminal."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return build.binaries(build.HELM) / "helm"


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Path:
    """kubectl and the control plane's programs, likewise."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return build.binaries()


@pytest.fixture(scope="session")
def helm(helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm without a cluster."""
    home = tmp_path_factory.mktemp("helm")
    return Helm(helm_program, home, home / "no-kubeconfig")


@pytest.fixture(scope="session")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with the namespaces that the values name, and nothing of ours. No controllers: nothing is run."""
    plane = ControlPlane(binaries, tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        for name in ("mtp-system", "team-a", "team-b"):
            plane.kubectl("create", "namespace", name)
            plane.kubectl("label", "namespace", name, "pod-security.kubernetes.io/warn=restricted")
        yield plane
        plane.check()
    finally:
        plane.stop()
