"""The manifests that users apply."""

from __future__ import annotations

from pathlib import Path

from harness.api import PODS, eventually
from harness.control_plane import ControlPlane
from harness.operator import NAMESPACE

BASE = Path(__file__).resolve().parents[2] / "manifests" / "base"


def test_the_base_can_be_applied_again_and_changes_nothing(cluster: ControlPlane) -> None:
    before = cluster.kubectl(
        "get", f"--namespace={NAMESPACE}", "deployment", "mtp-operator", "-o", "jsonpath={.metadata.generation}"
    )
    said = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-k", str(BASE))
    assert all(line.endswith("serverside-applied (server dry run)") for line in said.splitlines())
    assert before == "1"


def test_the_restricted_pod_security_standard_admits_the_operators_pod(cluster: ControlPlane) -> None:
    """A pod that the standard refuses is never created: its ReplicaSet only tells of it."""

    def pods() -> list[str]:
        found = cluster.api.list(PODS, NAMESPACE, "app.kubernetes.io/name=mtp-operator")
        return [pod["metadata"]["name"] for pod in found]

    assert len(eventually(pods, "the operator's pod")) == 1
