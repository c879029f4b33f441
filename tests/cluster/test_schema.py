"""The CRDs on a real API server: what it accepts, what it refuses and in which words, what kubectl shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness.api import FINE_TUNES, SERVINGS, ApiError
from harness.control_plane import ControlPlane

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFESTS = Path(__file__).parent / "manifests"
GOOD = sorted((MANIFESTS / "good").glob("*.yaml"))
BAD = sorted((MANIFESTS / "bad").glob("*.yaml"))
EXAMPLES = sorted((REPOSITORY / "examples").glob("*/*.yaml"))
EXPECT = "# expect: "


def collection_of(text: str) -> str:
    return FINE_TUNES if "kind: MTPFineTune" in text else SERVINGS


def submit(cluster: ControlPlane, namespace: str, text: str) -> None:
    """Create the first document; the second, if there is one, as an update of it. The last is only tried."""
    documents = text.split("\n---\n")
    collection = collection_of(text)
    if len(documents) == 1:
        cluster.api.create_yaml(collection, namespace, text, dry_run=True)
        return
    created = cluster.api.create_yaml(collection, namespace, documents[0])
    version = created["metadata"]["resourceVersion"]
    try:
        cluster.api.update_yaml(collection, namespace, documents[1], version, dry_run=True)
    finally:
        cluster.api.delete(collection, namespace, created["metadata"]["name"])


@pytest.fixture(scope="module")
def shared(cluster: ControlPlane) -> str:
    """One namespace for all manifests: what they create is gone when the next comes."""
    cluster.api.request("POST", "api/v1/namespaces", {"metadata": {"name": "schema"}})
    return "schema"


@pytest.mark.parametrize("file", GOOD, ids=lambda file: file.stem)
def test_a_good_manifest_is_accepted(cluster: ControlPlane, shared: str, file: Path) -> None:
    submit(cluster, shared, file.read_text())


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_manifest_is_refused_with_the_sentence_that_says_why(
    cluster: ControlPlane, shared: str, file: Path
) -> None:
    text = file.read_text()
    expected = text.splitlines()[0].removeprefix(EXPECT)
    with pytest.raises(ApiError) as refused:
        submit(cluster, shared, text)
    assert expected in refused.value.message
    assert refused.value.status in (400, 422)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_kubectl_apply_accepts_an_example(cluster: ControlPlane, shared: str, file: Path) -> None:
    said = cluster.kubectl("apply", f"--namespace={shared}", "--dry-run=server", "-f", str(file))
    assert "created (server dry run)" in said
    assert "Warning" not in said


def test_kubectl_refuses_an_unknown_field_by_itself(cluster: ControlPlane, shared: str) -> None:
    file = MANIFESTS / "bad" / "mtpfinetune-unknown-field.yaml"
    said = cluster.kubectl("apply", f"--namespace={shared}", "-f", str(file), check=False)
    assert 'unknown field "spec.training.learning_rate"' in said
    assert cluster.api.list(FINE_TUNES, shared) == []


def test_kubectl_refuses_a_number_where_a_decimal_string_belongs(cluster: ControlPlane, shared: str) -> None:
    said = cluster.kubectl(
        "apply", f"--namespace={shared}", "-f", str(MANIFESTS / "bad" / "mtpfinetune-float.yaml"), check=False
    )
    assert "spec.training.learningRate" in said
    assert "must be of type string" in said


def test_both_kinds_are_established_with_their_short_names_and_category(cluster: ControlPlane) -> None:
    crds = json.loads(cluster.kubectl("get", "crd", "-o", "json"))["items"]
    names = {crd["spec"]["names"]["kind"]: crd["status"]["acceptedNames"] for crd in crds}
    assert names["MTPFineTune"]["shortNames"] == ["mtpft"]
    assert names["SpecDecodeServing"]["shortNames"] == ["sds"]
    assert all(accepted["categories"] == ["mtp"] for accepted in names.values())
    for crd in crds:
        conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"


def test_a_new_object_does_not_look_finished_to_tools_that_wait(cluster: ControlPlane, shared: str) -> None:
    text = (MANIFESTS / "good" / "mtpfinetune-minimal.yaml").read_text()
    created = cluster.api.create_yaml(FINE_TUNES, shared, text, dry_run=True)
    assert created["status"] == {"observedGeneration": -1}


@pytest.mark.parametrize("kind", ["mtpfinetune", "specdecodeserving"])
def test_kubectl_explain_describes_every_field_of_the_spec(cluster: ControlPlane, kind: str) -> None:
    crd = json.loads(cluster.kubectl("get", "crd", f"{kind}s.specdecode.dev", "-o", "json"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    said = cluster.kubectl("explain", f"{kind}.spec")
    assert "<no description>" not in said
    assert all(field in said for field in schema["properties"])
