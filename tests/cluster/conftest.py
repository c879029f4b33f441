"""One control plane and one operator for all tests; a namespace for each test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
# Test files are imported by path (--import-mode=importlib), which finds no neighbours.
sys.path[:0] = [str(Path(__file__).parent), str(REPOSITORY / "tools" / "cluster")]

import build  # noqa: E402
from harness.api import eventually  # noqa: E402
from harness.control_plane import ControlPlane  # noqa: E402
from harness.operator import Operator  # noqa: E402


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Path:
    """The programs of the control plane, built at the first run, with its progress on the terminal."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return build.binaries()


@pytest.fixture(scope="session")
def cluster(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the operator's manifests applied, as a user applies them."""
    plane = ControlPlane(binaries, tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        plane.kubectl("apply", "--server-side", "-k", str(REPOSITORY / "manifests" / "base"))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
        plane.start_controllers()
        yield plane
        plane.check()
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def operator(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The leading operator. A test that kills it starts it again."""
    operator = Operator(cluster, tmp_path_factory.mktemp("operator"))
    operator.start_leading()
    try:
        yield operator
        operator.process.check()
    finally:
        operator.process.stop()


@pytest.fixture
def namespace(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own. Its deletion goes on behind the tests' backs."""
    name = "t-" + "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[:50].strip("-")
    cluster.api.request("POST", "api/v1/namespaces", {"metadata": {"name": name}})
    # Until the controller has made it, pods are refused: "serviceaccount default not found".
    eventually(lambda: cluster.api.get("api/v1/namespaces/{}/serviceaccounts", name, "default"), f"account in {name}")
    yield name
    cluster.api.request("DELETE", f"api/v1/namespaces/{name}")
