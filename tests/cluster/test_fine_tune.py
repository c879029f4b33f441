"""An MTPFineTune on a real API server: the Job controller makes the pods, the test plays their node."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.api import CLAIMS, CONFIG_MAPS, EVENTS, FINE_TUNES, JOBS, PODS, Json, condition, eventually
from harness.control_plane import ControlPlane
from harness.kubelet import Kubelet
from harness.operator import Operator
from harness.results import STAGES, failure, gate_failed, message_of

from mtp_trainer.contract import ExitCode, Reason, Stage

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart" / "mtpfinetune.yaml"
NAME = "quickstart"

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def kubelet(cluster: ControlPlane, namespace: str) -> Kubelet:
    return Kubelet(cluster.api, namespace)


@pytest.fixture
def applied(cluster: ControlPlane, namespace: str) -> Json:
    """The quickstart's run, as kubectl applied it."""
    cluster.kubectl("apply", f"--namespace={namespace}", "-f", str(QUICKSTART))
    run = cluster.api.get(FINE_TUNES, namespace, NAME)
    assert run is not None
    return run


def run_of(cluster: ControlPlane, namespace: str) -> Json:
    run = cluster.api.get(FINE_TUNES, namespace, NAME)
    assert run is not None
    return run


def wait_for(cluster: ControlPlane, namespace: str, kind: str, status: str) -> Json:
    """The run, once a condition has this status."""

    def look() -> Json | None:
        run = run_of(cluster, namespace)
        return run if condition(run, kind).get("status") == status else None

    return eventually(look, f"{kind}={status} of the run in {namespace}")


@pytest.mark.usefixtures("applied")
def test_an_applied_run_gets_its_claim_its_configuration_and_its_first_job(
    cluster: ControlPlane, namespace: str, kubelet: Kubelet
) -> None:
    pod = kubelet.waiting_pod(f"{NAME}-prepare")
    assert [c["metadata"]["name"] for c in cluster.api.list(CLAIMS, namespace)] == [f"{NAME}-workspace"]
    assert cluster.api.get(CONFIG_MAPS, namespace, f"{NAME}-prepare") is not None
    assert [j["metadata"]["name"] for j in cluster.api.list(JOBS, namespace)] == [f"{NAME}-prepare"]
    assert pod["spec"]["containers"][0]["image"] == "registry.example/mtp-trainer:tests"


@pytest.mark.usefixtures("applied")
def test_termination_messages_take_a_run_through_all_stages_to_ready(
    cluster: ControlPlane, namespace: str, kubelet: Kubelet
) -> None:
    for stage in STAGES:
        kubelet.finish(f"{NAME}-{stage}", message_of(stage))
    cluster.kubectl("wait", f"--namespace={namespace}", "--for=condition=Ready", "--timeout=120s", f"mtpft/{NAME}")
    run = run_of(cluster, namespace)
    held = {c["type"] for c in run["status"]["conditions"] if c["status"] == "True"}
    assert held == {"Ready", "Succeeded", "Prepared", "Trained", "Evaluated", "GatePassed", "Published"}
    assert run["status"]["observedGeneration"] == run["metadata"]["generation"]
    assert run["status"]["artifact"]["head"]["path"] == "pvc://heads/quickstart/head"
    names = sorted(job["metadata"]["name"] for job in cluster.api.list(JOBS, namespace))
    assert names == sorted(f"{NAME}-{stage}" for stage in STAGES)
    columns = cluster.kubectl("get", f"--namespace={namespace}", "mtpft", NAME).splitlines()
    header, row = columns[0].split(), columns[1].split()
    assert header == ["NAME", "VERIFIER", "STAGE", "PROGRESS", "ACCEPTANCE", "IMPROVEMENT", "READY", "REASON", "AGE"]
    assert {"pvc://quickstart/verifier", "0.880/0.720/0.580", "0.330", "True", "Completed"} <= set(row)


def test_the_operator_writes_nothing_but_status_to_the_users_object(
    cluster: ControlPlane, namespace: str, kubelet: Kubelet, applied: Json
) -> None:
    kubelet.waiting_pod(f"{NAME}-prepare")
    run = wait_for(cluster, namespace, "Reconciling", "True")
    assert run["spec"] == applied["spec"]
    assert run["metadata"]["annotations"] == applied["metadata"]["annotations"]
    assert "finalizers" not in run["metadata"]
    assert "labels" not in run["metadata"]
    writers = {field["manager"]: field.get("subresource", "") for field in run["metadata"]["managedFields"]}
    assert writers == {"kubectl-client-side-apply": "", "mtp-operator": "status"}


@pytest.mark.usefixtures("applied")
def test_bad_input_stalls_the_run_with_the_trainers_reason_and_sentence(
    cluster: ControlPlane, namespace: str, kubelet: Kubelet
) -> None:
    said = failure(Stage.PREPARE, Reason.NO_MTP_HEAD, "the checkpoint has no mtp.* tensors")
    kubelet.finish(f"{NAME}-prepare", said, ExitCode.BAD_INPUT)
    run = wait_for(cluster, namespace, "Stalled", "True")
    ready = condition(run, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoMTPHead")
    assert "no mtp.* tensors" in ready["message"]
    assert condition(run, "Succeeded")["status"] == "False"
    assert len(kubelet.pods(f"{NAME}-prepare")) == 1


@pytest.mark.usefixtures("applied")
def test_an_interrupted_pod_is_replaced_and_costs_no_retry(
    cluster: ControlPlane, namespace: str, kubelet: Kubelet
) -> None:
    said = failure(Stage.PREPARE, Reason.INTERRUPTED, "stopped by SIGTERM")
    kubelet.finish(f"{NAME}-prepare", said, ExitCode.INTERRUPTED)
    kubelet.finish(f"{NAME}-prepare", message_of("prepare"))
    wait_for(cluster, namespace, "Prepared", "True")
    job = cluster.api.get(JOBS, namespace, f"{NAME}-prepare")
    assert job is not None
    assert job["status"].get("failed", 0) == 0


@pytest.mark.usefixtures("applied")
def test_a_failed_gate_publishes_nothing(cluster: ControlPlane, namespace: str, kubelet: Kubelet) -> None:
    for stage in ("prepare", "train"):
        kubelet.finish(f"{NAME}-{stage}", message_of(stage))
    kubelet.finish(f"{NAME}-evaluate", gate_failed())
    run = wait_for(cluster, namespace, "Stalled", "True")
    assert condition(run, "GatePassed")["status"] == "False"
    assert condition(run, "Ready")["reason"] == "GateFailed"
    assert cluster.api.get(JOBS, namespace, f"{NAME}-publish") is None


def test_a_job_of_somebody_else_is_left_alone_and_named(cluster: ControlPlane, namespace: str) -> None:
    container = {"name": "theirs", "image": "registry.example/theirs:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    theirs = {"metadata": {"name": f"{NAME}-prepare"}, "spec": {"suspend": True, "template": template}}
    created = cluster.api.create(JOBS, namespace, theirs)
    cluster.kubectl("apply", f"--namespace={namespace}", "-f", str(QUICKSTART))

    def conflict() -> bool:
        return condition(cluster.api.get(FINE_TUNES, namespace, NAME), "Ready").get("reason") == "NameConflict"

    eventually(conflict, "the name conflict to be told")
    job = cluster.api.get(JOBS, namespace, f"{NAME}-prepare")
    assert job is not None
    assert job["metadata"]["uid"] == created["metadata"]["uid"]
    assert "ownerReferences" not in job["metadata"]


@pytest.mark.usefixtures("applied")
def test_deleting_a_run_deletes_all_that_it_made(cluster: ControlPlane, namespace: str, kubelet: Kubelet) -> None:
    kubelet.waiting_pod(f"{NAME}-prepare")
    cluster.kubectl("delete", f"--namespace={namespace}", "mtpft", NAME)
    selector = f"specdecode.dev/run={NAME}"
    for collection in (JOBS, CLAIMS, CONFIG_MAPS):
        eventually(lambda c=collection: not cluster.api.list(c, namespace, selector), f"{collection} to be empty")
    eventually(lambda: not kubelet.pods(f"{NAME}-prepare"), "the pods to be gone")


@pytest.mark.usefixtures("applied")
def test_suspending_a_run_stops_its_pod_and_resuming_starts_another(
    cluster: ControlPlane, namespace: str, kubelet: Kubelet
) -> None:
    first = kubelet.waiting_pod(f"{NAME}-prepare")
    patch = ["patch", f"--namespace={namespace}", "mtpft", NAME, "--type=merge", "-p"]
    cluster.kubectl(*patch, '{"spec": {"suspend": true}}')
    wait_for(cluster, namespace, "Suspended", "True")
    eventually(lambda: not kubelet.pods(f"{NAME}-prepare"), "the pod to be gone")
    cluster.kubectl(*patch, '{"spec": {"suspend": false}}')
    second = kubelet.waiting_pod(f"{NAME}-prepare")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


@pytest.mark.usefixtures("applied")
def test_transitions_are_told_in_events_of_the_run(cluster: ControlPlane, namespace: str, kubelet: Kubelet) -> None:
    kubelet.finish(f"{NAME}-prepare", message_of("prepare"))
    wait_for(cluster, namespace, "Prepared", "True")

    def told() -> list[Json]:
        events = cluster.api.list(EVENTS, namespace)
        return [event for event in events if event["involvedObject"]["kind"] == "MTPFineTune"]

    assert eventually(told, "an Event about the run")[0]["source"] == {"component": "mtp-operator"}


@pytest.mark.usefixtures("applied")
def test_another_look_at_an_unchanged_run_writes_nothing(
    operator: Operator, cluster: ControlPlane, namespace: str, kubelet: Kubelet
) -> None:
    pod = kubelet.waiting_pod(f"{NAME}-prepare")
    eventually(
        lambda: "has not started" in condition(run_of(cluster, namespace), "Ready")["message"], "the pod in the status"
    )
    before, looks = run_of(cluster, namespace), operator.looks("MTPFineTune")
    path = f"{PODS.format(namespace)}/{pod['metadata']['name']}"
    cluster.api.request("PATCH", path, {"metadata": {"labels": {"theirs": "1"}}}, "application/merge-patch+json")
    eventually(lambda: operator.looks("MTPFineTune") > looks, "another look")
    assert run_of(cluster, namespace)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_the_operator_counts_its_work(operator: Operator, cluster: ControlPlane, namespace: str) -> None:
    cluster.kubectl("apply", f"--namespace={namespace}", "-f", str(QUICKSTART))
    eventually(lambda: operator.looks("MTPFineTune") > 0, "a look to be counted")
    assert operator.metrics()["mtp_operator_leading"] == 1
