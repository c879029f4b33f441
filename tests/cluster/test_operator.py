"""The operator as a process: killed, replaced, told to stop, cut off from the API server."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.api import DEPLOYMENTS, FINE_TUNES, JOBS, Json, condition, eventually
from harness.control_plane import ControlPlane
from harness.kubelet import Kubelet
from harness.operator import NAMESPACE, Operator
from harness.results import STAGES, message_of

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart" / "mtpfinetune.yaml"
SERVING = Path(__file__).parent / "manifests" / "good" / "specdecodeserving-minimal.yaml"
LEASES = "apis/coordination.k8s.io/v1/namespaces/{}/leases"


def apply(cluster: ControlPlane, namespace: str, file: Path = QUICKSTART) -> None:
    cluster.kubectl("apply", f"--namespace={namespace}", "-f", str(file))


def holder(cluster: ControlPlane) -> str:
    lease = cluster.api.get(LEASES, NAMESPACE, "mtp-operator")
    assert lease is not None
    return str(lease["spec"].get("holderIdentity", ""))


@pytest.fixture
def standby(cluster: ControlPlane, operator: Operator, tmp_path: Path) -> Iterator[Operator]:
    """A second operator. Afterwards the first leads again."""
    second = Operator(cluster, tmp_path, identity="operator-1")
    second.start()
    eventually(lambda: second.state() == "standing by", "the second operator to stand by")
    yield second
    assert second.process.stop() == 0
    eventually(lambda: operator.state() == "leading", "the first operator to lead again")


def test_an_operator_killed_at_any_stage_goes_on_where_it_was_with_one_job_per_stage(
    cluster: ControlPlane, operator: Operator, namespace: str
) -> None:
    kubelet = Kubelet(cluster.api, namespace)
    apply(cluster, namespace)
    for stage in STAGES:
        kubelet.waiting_pod(f"quickstart-{stage}")
        operator.process.kill()
        kubelet.finish(f"quickstart-{stage}", message_of(stage))  # nobody is there to see it happen
        operator.start_leading()
    cluster.kubectl("wait", f"--namespace={namespace}", "--for=condition=Ready", "--timeout=120s", "mtpft/quickstart")
    jobs = Counter(job["metadata"]["labels"]["specdecode.dev/stage"] for job in cluster.api.list(JOBS, namespace))
    assert jobs == dict.fromkeys(STAGES, 1)
    assert all(len(kubelet.pods(f"quickstart-{stage}")) == 1 for stage in STAGES)


def test_objects_made_while_no_operator_ran_are_found_when_it_starts(
    cluster: ControlPlane, operator: Operator, namespace: str
) -> None:
    operator.process.kill()
    apply(cluster, namespace)
    apply(cluster, namespace, SERVING)
    operator.start_leading()
    eventually(lambda: cluster.api.get(JOBS, namespace, "quickstart-prepare"), "the first Job")
    eventually(lambda: cluster.api.get(DEPLOYMENTS, namespace, "chat"), "the Deployment")


def test_told_to_stop_an_operator_ends_well_and_the_one_standing_by_takes_over(
    cluster: ControlPlane, operator: Operator, standby: Operator, namespace: str
) -> None:
    assert operator.process.stop() == 0
    eventually(lambda: standby.state() == "leading", "the second operator to lead")
    assert holder(cluster) == "operator-1"
    apply(cluster, namespace)
    eventually(lambda: cluster.api.get(JOBS, namespace, "quickstart-prepare"), "the first Job")
    operator.start()


def test_an_operator_that_stands_by_touches_nothing(
    cluster: ControlPlane, operator: Operator, standby: Operator, namespace: str
) -> None:
    apply(cluster, namespace)
    eventually(lambda: cluster.api.get(JOBS, namespace, "quickstart-prepare"), "the first Job")
    assert standby.metrics()["mtp_operator_leading"] == 0
    assert not any(name.startswith("mtp_operator_reconciles_total") for name in standby.metrics())
    assert holder(cluster) == "operator-0"


def test_an_operator_whose_lease_was_taken_ends(cluster: ControlPlane, operator: Operator) -> None:
    path = f"{LEASES.format(NAMESPACE)}/mtp-operator"
    taken = {"spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 1}}
    cluster.api.request("PATCH", path, taken, "application/merge-patch+json")
    assert operator.process.wait(120) == 1
    assert "somebody-else holds the lease" in operator.process.tail()
    operator.start_leading()


def test_an_api_server_that_goes_away_and_comes_back_is_survived(
    cluster: ControlPlane, operator: Operator, namespace: str
) -> None:
    """If it is away for longer than the lease allows, the operator ends and its Deployment starts it again."""
    apply(cluster, namespace)
    Kubelet(cluster.api, namespace).waiting_pod("quickstart-prepare")
    cluster.restart_api_server()
    apply(cluster, namespace, SERVING)
    Kubelet(cluster.api, namespace).finish("quickstart-prepare", message_of("prepare"))

    def converged() -> Json | None:
        operator.start_if_ended()
        done = condition(cluster.api.get(FINE_TUNES, namespace, "quickstart"), "Prepared").get("status") == "True"
        return cluster.api.get(DEPLOYMENTS, namespace, "chat") if done else None

    eventually(converged, "both objects to be worked on")
    eventually(lambda: operator.state() == "leading", "the operator to lead")


def test_the_log_can_be_json(operator: Operator) -> None:
    operator.process.stop()
    operator.start("--log-format=json")
    eventually(lambda: operator.state() == "leading", "the operator to lead")
    lines = [json.loads(line) for line in operator.process.tail().splitlines() if line.startswith("{")]
    assert any("holding the lease" in line["message"] for line in lines)
