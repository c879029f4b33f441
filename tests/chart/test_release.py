"""Installs, upgrades and uninstalls on a real API server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.api import FINE_TUNES, JOBS, eventually
from harness.control_plane import ControlPlane
from harness.operator import Operator
from helm_command import CHART, NAMESPACE, RELEASE, REPOSITORY, Helm, HelmFailed, Object, Values, documents
from scenarios import SCENARIOS

CRDS = ("mtpfinetunes.specdecode.dev", "specdecodeservings.specdecode.dev")
FINE_TUNE = (REPOSITORY / "tests" / "cluster" / "manifests" / "good" / "mtpfinetune-minimal.yaml").read_text()


class Release:
    """The chart on a cluster, packaged as users get it."""

    def __init__(self, helm: Helm, chart: Path) -> None:
        self._helm = helm
        self.chart = chart

    def install(self, *flags: str, values: Values | None = None) -> str:
        return self._helm.run("install", RELEASE, self.chart, f"--namespace={NAMESPACE}", *flags, values=values)

    def upgrade(self, chart: Path) -> str:
        return self._helm.run("upgrade", RELEASE, chart, f"--namespace={NAMESPACE}")

    def uninstall(self) -> str:
        return self._helm.run("uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found")

    def manifest(self) -> list[Object]:
        return documents(self._helm.run("get", "manifest", RELEASE, f"--namespace={NAMESPACE}"))


@pytest.fixture(scope="module")
def package(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    helm.run("package", CHART, f"--destination={folder}")
    (file,) = folder.glob("*.tgz")
    return file


@pytest.fixture
def release(helm: Helm, package: Path, plane: ControlPlane) -> Iterator[Release]:
    """A cluster without our CRDs before and after."""
    release = Release(Helm(helm.program, helm.home, plane.kubeconfig), package)
    yield release
    release.uninstall()
    plane.kubectl("delete", "crd", *CRDS, "--ignore-not-found", "--timeout=60s")


def established(plane: ControlPlane) -> None:
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in CRDS))


def fields(plane: ControlPlane) -> set[str]:
    """Of a fine-tune's spec, as the cluster knows them."""
    crd: dict[str, Any] = plane.api.request("GET", f"apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRDS[0]}")
    return set(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def test_an_install_makes_every_object_and_says_what_to_do_next(release: Release, plane: ControlPlane) -> None:
    said = release.install()
    for obj in release.manifest():
        found = plane.kubectl("get", obj["kind"], obj["metadata"]["name"], f"--namespace={NAMESPACE}", "-o", "name")
        assert found.strip().endswith(obj["metadata"]["name"])
    assert f"kubectl --namespace {NAMESPACE} rollout status deployment/mtp-operator" in said
    assert "looks after the whole cluster" in said
    assert "`helm uninstall` keeps the CRDs" in said


def test_the_notes_say_what_a_release_leaves_to_others(release: Release, plane: ControlPlane) -> None:
    said = release.install(values=SCENARIOS["namespaced"] | {"rbac": {"create": False}})
    assert "looks after the namespaces team-a, team-b" in said
    assert "kubectl apply --namespace team-a -f mtpfinetune.yaml" in said
    assert "kubectl get crd mtpfinetunes.specdecode.dev specdecodeservings.specdecode.dev" in said
    assert "grant them to the account mtp-operator" in said
    assert "helm uninstall" not in said


def test_an_upgrade_brings_new_fields_of_the_crds(release: Release, plane: ControlPlane, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(CHART, older)
    file = older / "files" / "crds" / "mtpfinetunes.yaml"
    file.write_text(file.read_text().replace("              suspend:\n", "              paused:\n", 1))
    new = release.chart
    release.chart = older
    release.install()
    assert {"paused", "suspend"} & fields(plane) == {"paused"}
    release.upgrade(new)
    assert {"paused", "suspend"} & fields(plane) == {"suspend"}


def test_an_uninstall_keeps_the_crds_and_everybodys_objects_and_a_later_install_takes_them_over(
    release: Release, plane: ControlPlane
) -> None:
    release.install()
    established(plane)
    plane.api.create_yaml(FINE_TUNES, "team-a", FINE_TUNE)
    said = release.uninstall()
    assert all(f"[CustomResourceDefinition] {name}" in said for name in CRDS)
    left = plane.kubectl(
        "get",
        "deployment,role,rolebinding,serviceaccount,service",
        f"--namespace={NAMESPACE}",
        "-l",
        "app.kubernetes.io/instance=mtp-operator",
        "-o",
        "name",
    )
    assert "mtp-operator" not in left
    kept = plane.api.get(FINE_TUNES, "team-a", "run")
    assert kept is not None
    release.install()
    after = plane.api.get(FINE_TUNES, "team-a", "run")
    assert after is not None
    assert after["metadata"]["uid"] == kept["metadata"]["uid"]


def test_an_uninstall_that_was_asked_to_takes_the_crds_too(release: Release, plane: ControlPlane) -> None:
    said = release.install(values={"crds": {"keep": False}})
    assert "DELETES the CRDs" in said
    release.uninstall()
    eventually(lambda: plane.kubectl("get", "crd", "-o", "name", CRDS[0], check=False).startswith("Error"), "no CRDs")


def test_crds_that_kubectl_installed_are_taken_over_on_request_alone(release: Release, plane: ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "-k", str(REPOSITORY / "crds"))
    with pytest.raises(HelmFailed, match="CustomResourceDefinition"):
        release.install()
    release.install("--take-ownership")
    assert "Helm" in plane.kubectl("get", "crd", CRDS[0], "-o", "jsonpath={.metadata.labels}")


def test_a_namespaced_operator_works_with_the_charts_rights_alone(
    release: Release, plane: ControlPlane, tmp_path: Path
) -> None:
    release.install(values={"watchNamespaces": ["team-a"]})
    established(plane)
    for namespace in ("team-a", "team-b"):
        plane.api.create_yaml(FINE_TUNES, namespace, FINE_TUNE)
    deployment = plane.api.get("apis/apps/v1/namespaces/{}/deployments", NAMESPACE, "mtp-operator")
    assert deployment is not None
    operator = Operator(plane, tmp_path)
    try:
        operator.start(*deployment["spec"]["template"]["spec"]["containers"][0]["args"])
        eventually(lambda: plane.api.get(JOBS, "team-a", "run-prepare"), "the first Job")
        eventually(lambda: operator.looks("MTPFineTune"), "a look that ended well")
    finally:
        operator.process.stop()
    assert plane.api.list(JOBS, "team-b") == []
    forbidden = plane.kubectl(
        "auth",
        "can-i",
        "list",
        "mtpfinetunes",
        "--namespace=team-b",
        f"--as=system:serviceaccount:{NAMESPACE}:mtp-operator",
        check=False,
    )
    assert forbidden.strip().splitlines()[-1] == "no"
