"""A SpecDecodeServing on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from harness.api import DEPLOYMENTS, FINE_TUNES, PODS, SERVICES, SERVINGS, Json, condition, eventually
from harness.control_plane import ControlPlane
from harness.engine import engine
from harness.kubelet import Kubelet
from harness.operator import Operator
from harness.results import STAGES, message_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
MINIMAL = Path(__file__).parent / "manifests" / "good" / "specdecodeserving-minimal.yaml"
NAME = "chat"

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def deployment(cluster: ControlPlane, namespace: str) -> Json:
    """The Deployment of the minimal serving, as kubectl applied it."""
    cluster.kubectl("apply", f"--namespace={namespace}", "-f", str(MINIMAL))
    return eventually(lambda: cluster.api.get(DEPLOYMENTS, namespace, NAME), "the Deployment")


@pytest.fixture
def measured_often() -> str:
    """The minimal serving with a depth of three, whose counters are read every second."""
    manifest = yaml.safe_load(MINIMAL.read_text())
    manifest["spec"]["speculative"] = {"numSpeculativeTokens": 3}
    manifest["spec"]["acceptance"] = {"interval": "1s"}
    return str(yaml.safe_dump(manifest))


def serving_pods(cluster: ControlPlane, namespace: str, count: int) -> list[Json]:
    """The serving's pods, once there are so many."""

    def look() -> list[Json] | None:
        pods = cluster.api.list(PODS, namespace, f"specdecode.dev/serving={NAME}")
        return pods if len(pods) == count else None

    return eventually(look, f"{count} pods of the serving")


def test_a_serving_gets_its_deployment_and_its_service(cluster: ControlPlane, namespace: str, deployment: Json) -> None:
    service = eventually(lambda: cluster.api.get(SERVICES, namespace, NAME), "the Service")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    config = json.loads(container["args"][container["args"].index("--speculative-config") + 1])
    assert config["method"] == "mtp"
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    serving_pods(cluster, namespace, 1)


@pytest.mark.usefixtures("deployment")
def test_a_serving_whose_pods_are_ready_is_ready_and_kubectl_shows_it(cluster: ControlPlane, namespace: str) -> None:
    kubelet = Kubelet(cluster.api, namespace)
    for pod in serving_pods(cluster, namespace, 1):
        kubelet.run(pod, ip="127.0.0.1")
    cluster.kubectl("wait", f"--namespace={namespace}", "--for=condition=Ready", "--timeout=120s", f"sds/{NAME}")
    lines = cluster.kubectl("get", f"--namespace={namespace}", "sds", NAME).splitlines()
    assert lines[0].split() == ["NAME", "MODEL", "K", "ACCEPTANCE", "LENGTH", "READY", "REPLICAS", "REASON", "AGE"]
    assert {"pvc://models/verifier", "True", "1"} <= set(lines[1].split())
    measured = condition(cluster.api.get(SERVINGS, namespace, NAME), "AcceptanceMeasured")
    assert measured["status"] != "True", "nobody answers /metrics here"


def test_what_a_serving_accepts_is_measured_and_shown(
    cluster: ControlPlane, operator: Operator, namespace: str, measured_often: str
) -> None:
    cluster.kubectl("apply", f"--namespace={namespace}", "-f", "-", text=measured_often)
    (pod,) = serving_pods(cluster, namespace, 1)
    with engine("127.8.0.1", drafts=1000, accepted=(900, 700, 500)):
        Kubelet(cluster.api, namespace).run(pod, ip="127.8.0.1")
        wait = ["wait", f"--namespace={namespace}", "--timeout=120s", f"sds/{NAME}"]
        cluster.kubectl(*wait, "--for=condition=AcceptanceHealthy")
        columns = cluster.kubectl("get", f"--namespace={namespace}", "sds", NAME).splitlines()
        assert {"0.900/0.700/0.500", "3.100"} <= set(columns[1].split())
        series = f'mtp_acceptance_rate{{namespace="{namespace}",position="2",serving="{NAME}"}}'
        assert operator.metrics()[series] == 0.5


@pytest.mark.usefixtures("deployment")
def test_kubectl_scale_reaches_the_deployment_and_an_autoscaler_finds_its_selector(
    cluster: ControlPlane, namespace: str
) -> None:
    cluster.kubectl("scale", f"--namespace={namespace}", "sds", NAME, "--replicas=2")
    serving_pods(cluster, namespace, 2)
    scale = f"{SERVINGS.format(namespace)}/{NAME}/scale"

    def told() -> Json | None:
        found: Json = cluster.api.request("GET", scale)
        return found if found["status"]["replicas"] == 2 else None

    assert eventually(told, "two replicas in the scale subresource")["status"]["selector"]


@pytest.mark.usefixtures("deployment")
def test_a_changed_deployment_is_put_right_and_foreign_fields_stay(cluster: ControlPlane, namespace: str) -> None:
    patch = {"metadata": {"labels": {"theirs": "1"}}, "spec": {"replicas": 5}}
    path = f"{DEPLOYMENTS.format(namespace)}/{NAME}"
    cluster.api.request("PATCH", path, patch, "application/merge-patch+json")

    def right() -> Json | None:
        found = cluster.api.get(DEPLOYMENTS, namespace, NAME)
        return found if found is not None and found["spec"]["replicas"] == 1 else None

    assert eventually(right, "one replica again")["metadata"]["labels"]["theirs"] == "1"


@pytest.mark.usefixtures("deployment")
def test_deleting_a_serving_deletes_its_deployment_its_service_and_its_pods(
    cluster: ControlPlane, namespace: str
) -> None:
    cluster.kubectl("delete", f"--namespace={namespace}", "sds", NAME)
    for collection in (DEPLOYMENTS, SERVICES, PODS):
        eventually(lambda c=collection: not cluster.api.list(c, namespace), f"{collection} to be empty")


def test_a_serving_starts_as_soon_as_the_run_that_it_names_is_ready(cluster: ControlPlane, namespace: str) -> None:
    for kind in ("specdecodeserving", "mtpfinetune"):
        cluster.kubectl("apply", f"--namespace={namespace}", "-f", str(EXAMPLES / f"{kind}.yaml"))

    def reason() -> str:
        return str(condition(cluster.api.get(SERVINGS, namespace, "quickstart"), "ModelResolved").get("reason"))

    eventually(lambda: reason() == "ModelPending", "the serving to wait for its run")
    assert cluster.api.list(DEPLOYMENTS, namespace) == []
    kubelet = Kubelet(cluster.api, namespace)
    for stage in STAGES:
        kubelet.finish(f"quickstart-{stage}", message_of(stage))
    made = eventually(lambda: cluster.api.get(DEPLOYMENTS, namespace, "quickstart"), "the Deployment")
    args = made["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "/mnt/mtp/claims/heads/quickstart/head" in json.dumps(args)
    assert condition(cluster.api.get(FINE_TUNES, namespace, "quickstart"), "Ready")["status"] == "True"
