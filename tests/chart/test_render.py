"""What the chart renders."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm_command import CHART, NAMESPACE, REPOSITORY, Helm, HelmFailed, Object, documents, of_kind, only
from scenarios import LEAVES, SCENARIOS, ValuePath, has, without

from mtp_operator import __version__
from mtp_operator.controller.settings import parse

OF_THE_CHART = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
)


def identity(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


def plain(node: Any) -> Any:
    """Without what a chart adds: its labels, here and in selectors, and the note that CRDs are kept."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: plain(value) for key, value in node.items() if key not in (*OF_THE_CHART, "helm.sh/resource-policy")}
    empty = [key for key in ("labels", "annotations") if kept.get(key) == {} and node[key]]
    return {key: value for key, value in kept.items() if key not in empty}


def kustomized(binaries: Path, folder: Path) -> list[Object]:
    return documents(
        subprocess.run([binaries / "kubectl", "kustomize", folder], capture_output=True, check=True, text=True).stdout
    )


def test_helm_finds_nothing_to_say_about_the_chart(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", CHART)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_helm_finds_nothing_to_say_about_the_values(helm: Helm, scenario: str) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", CHART, values=SCENARIOS[scenario])


def test_default_values_make_the_objects_of_manifests_base(helm: Helm, binaries: Path) -> None:
    """The namespace apart: helm makes it on request, and labels it as it likes."""
    base = {identity(obj): plain(obj) for obj in kustomized(binaries, REPOSITORY / "manifests" / "base")}
    del base["Namespace", "", NAMESPACE]
    for obj in base.values():  # kustomize's objects have the one label that is left on the CRDs of the chart
        if obj["kind"] == "CustomResourceDefinition":
            obj["metadata"]["labels"] = {"app.kubernetes.io/name": "mtp-operator"}
    chart = {identity(obj): plain(obj) for obj in helm.template()}
    assert chart.keys() == base.keys()
    for key, obj in chart.items():
        assert obj == base[key], key


def test_every_object_has_the_charts_labels(helm: Helm) -> None:
    for obj in helm.template(SCENARIOS["everything"]):
        labels = obj["metadata"]["labels"]
        assert set(OF_THE_CHART) < labels.keys(), identity(obj)
        assert labels["team"] == "platform", identity(obj)
        assert labels["app.kubernetes.io/name"] == "mtp", identity(obj)


def test_selectors_match_the_pods(helm: Helm) -> None:
    objects = helm.template(SCENARIOS["everything"])
    deployment = only(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    service = only(objects, "Service")
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
    assert service["spec"]["selector"].items() <= labels
    assert only(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels
    monitored = only(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= service["metadata"]["labels"].items()


def test_a_namespaced_operator_gets_the_same_rules_in_each_namespace_and_nothing_of_the_cluster(helm: Helm) -> None:
    rules = yaml.safe_load((REPOSITORY / "manifests" / "base" / "cluster_role.yaml").read_text().split("\n---\n")[0])[
        "rules"
    ]
    objects = helm.template(SCENARIOS["namespaced"])
    assert not of_kind(objects, "ClusterRole")
    assert not of_kind(objects, "ClusterRoleBinding")
    roles = {
        obj["metadata"]["namespace"]: obj
        for obj in of_kind(objects, "Role")
        if obj["metadata"]["name"] == "mtp-operator"
    }
    assert {namespace: role["rules"] for namespace, role in roles.items()} == {"team-a": rules, "team-b": rules}
    bindings = [obj for obj in of_kind(objects, "RoleBinding") if obj["roleRef"]["name"] == "mtp-operator"]
    assert [binding["metadata"]["namespace"] for binding in bindings] == ["team-a", "team-b"]
    account = {"kind": "ServiceAccount", "name": "mtp-operator", "namespace": NAMESPACE}
    assert all(binding["subjects"] == [account] for binding in bindings)


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_each_value_changes_what_is_rendered(helm: Helm, path: ValuePath) -> None:
    values = next(values for values in SCENARIOS.values() if has(values, path))
    assert helm.template(values) != helm.template(without(values, path))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_operator_takes_the_flags_and_variables_it_is_given(helm: Helm, scenario: str) -> None:
    values = SCENARIOS[scenario]
    pod = only(helm.template(values), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    settings = parse(container["args"], {**given, "POD_NAMESPACE": NAMESPACE})
    default = parse([], {"POD_NAMESPACE": NAMESPACE})
    images = values.get("defaults", {})
    assert settings.namespaces == tuple(values.get("watchNamespaces", ()))
    assert settings.workers == values.get("workers", default.workers)
    assert settings.resync_seconds == values.get("resyncSeconds", default.resync_seconds)
    assert settings.address == values.get("listenAddress", default.address)
    assert settings.log_format == values.get("logFormat", "json")
    assert settings.defaults.trainer_image == images.get("trainerImage", default.defaults.trainer_image)
    assert settings.defaults.engine_image == images.get("engineImage", default.defaults.engine_image)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"metrics": settings.metrics_port, "probes": settings.probe_port}


def test_a_stand_by_brings_a_disruption_budget_that_one_replica_never_has(helm: Helm) -> None:
    assert not of_kind(helm.template({"replicas": 1}), "PodDisruptionBudget")
    assert only(helm.template({"replicas": 2}), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_digest_is_used_instead_of_the_tag(helm: Helm) -> None:
    digest = f"sha256:{'ab' * 32}"
    image = {"repository": "registry.example:5000/operator", "tag": "v1", "digest": digest}
    pod = only(helm.template({"image": image}), "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == f"registry.example:5000/operator@{digest}"


@pytest.mark.parametrize(
    ("release", "name"),
    [("mtp-operator", "mtp-operator"), ("team-mtp-operator", "team-mtp-operator"), ("drafts", "drafts-mtp-operator")],
)
def test_objects_are_named_by_the_release(helm: Helm, release: str, name: str) -> None:
    assert only(helm.template(release=release), "Deployment")["metadata"]["name"] == name


def test_the_chart_is_of_the_operators_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_clusters_that_are_too_old_are_refused_and_suffixes_of_hosted_ones_are_not(helm: Helm) -> None:
    with pytest.raises(HelmFailed, match=r"chart requires kubeVersion: >=1\.29"):
        helm.template(None, "--kube-version=v1.28.9")
    assert helm.template(None, "--kube-version=v1.29.3-eks-adc7111")
