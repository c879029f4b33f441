"""The operator's own client against a real API server: each verb, and each refusal by its type."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from harness.control_plane import ControlPlane
from kubernetes.aio.client import Configuration

from mtp_operator.kube import client as client_module
from mtp_operator.kube.client import KubeClient
from mtp_operator.kube.connection import load_configuration
from mtp_operator.kube.verbs import (
    CONFIG_MAP,
    FINE_TUNE,
    AlreadyExists,
    Conflict,
    Kind,
    KubeError,
    NotFound,
    Object,
    Refused,
)

RUN = Path(__file__).parent / "manifests" / "good" / "mtpfinetune-minimal.yaml"
COLLECTION = "apis/specdecode.dev/v1alpha1/namespaces/{}/mtpfinetunes"


@pytest.fixture
async def client(cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KubeClient]:
    """As the administrator."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    async with KubeClient(load_configuration) as found:
        yield found


@pytest.fixture
async def run(cluster: ControlPlane, namespace: str, client: KubeClient) -> Object:
    """A run that the operator, if there is one, doesn't work on: its spec is suspended."""
    text = RUN.read_text().replace("spec:\n", "spec:\n  suspend: true\n", 1)
    cluster.api.create_yaml(COLLECTION, namespace, text)
    found = await client.get(FINE_TUNE, namespace, "run")
    assert found is not None
    return found


def config_map(namespace: str, name: str, **data: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "tests"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_what_is_not_there_is_none(client: KubeClient, namespace: str) -> None:
    assert await client.get(CONFIG_MAP, namespace, "nothing") is None


async def test_a_second_create_of_a_name_is_already_exists(client: KubeClient, namespace: str) -> None:
    await client.create(config_map(namespace, "one"))
    with pytest.raises(AlreadyExists):
        await client.create(config_map(namespace, "one"))


async def test_an_invalid_object_is_refused_with_the_servers_sentence(client: KubeClient, namespace: str) -> None:
    with pytest.raises(Refused, match="RFC 1123"):
        await client.create(config_map(namespace, "Not_A_Name"))


async def test_apply_creates_then_changes_and_leaves_what_others_own(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, "one", ours="1"))
    other = await client.get(CONFIG_MAP, namespace, "one")
    assert other is not None
    await client.replace({**other, "data": {**other["data"], "theirs": "1"}})
    applied = await client.apply(config_map(namespace, "one", ours="2"))
    assert applied["data"] == {"ours": "2", "theirs": "1"}


async def test_apply_takes_over_a_field_that_somebody_else_changed(client: KubeClient, namespace: str) -> None:
    await client.apply(config_map(namespace, "one", ours="1"))
    other = await client.get(CONFIG_MAP, namespace, "one")
    assert other is not None
    await client.replace({**other, "data": {"ours": "theirs"}})
    applied = await client.apply(config_map(namespace, "one", ours="1"))
    assert applied["data"] == {"ours": "1"}


async def test_a_list_has_all_pages_and_its_items_say_what_they_are(
    client: KubeClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PAGE_SIZE", 2)
    for number in range(5):
        await client.create(config_map(namespace, f"n{number}"))
    found = await client.list(CONFIG_MAP, namespace, "app=tests")
    assert [item["metadata"]["name"] for item in found] == [f"n{number}" for number in range(5)]
    assert all((item["apiVersion"], item["kind"]) == ("v1", "ConfigMap") for item in found)
    everywhere = await client.list(CONFIG_MAP, None, "app=tests")
    assert {item["metadata"]["namespace"] for item in everywhere} >= {namespace}


async def test_a_status_is_replaced_not_merged(client: KubeClient, run: Object) -> None:
    first = await client.patch_status(run, {"observedGeneration": 1, "stage": "Train"})
    second = await client.patch_status(first, {"observedGeneration": 1})
    assert second["status"] == {"observedGeneration": 1}
    assert second["spec"] == run["spec"]


async def test_a_status_of_an_object_that_changed_meanwhile_is_a_conflict(client: KubeClient, run: Object) -> None:
    await client.patch_status(run, {"observedGeneration": 1})
    with pytest.raises(Conflict):
        await client.patch_status(run, {"observedGeneration": 1, "stage": "Train"})


async def test_a_status_of_an_object_that_is_gone_is_not_found(client: KubeClient, namespace: str, run: Object) -> None:
    await client.delete(FINE_TUNE, namespace, "run")
    with pytest.raises(NotFound):
        await client.patch_status(run, {"observedGeneration": 1})


async def test_deleting_what_is_gone_is_no_error(client: KubeClient, namespace: str) -> None:
    await client.delete(CONFIG_MAP, namespace, "nothing")


async def test_another_object_of_the_same_name_is_not_deleted(client: KubeClient, namespace: str) -> None:
    await client.create(config_map(namespace, "one"))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAP, namespace, "one", uid="00000000-0000-0000-0000-000000000000")
    assert await client.get(CONFIG_MAP, namespace, "one") is not None


async def test_kinds_that_are_not_installed_are_told_from_those_that_are(client: KubeClient) -> None:
    assert await client.serves(FINE_TUNE)
    assert await client.serves(CONFIG_MAP)
    assert not await client.serves(Kind("specdecode.dev/v1alpha1", "Nothing", "nothings"))
    assert not await client.serves(Kind("nobody.example/v1", "Nothing", "nothings"))


async def test_a_rotated_token_is_read_anew(cluster: ControlPlane, namespace: str) -> None:
    handed_out: list[str] = []

    async def configuration() -> Configuration:
        handed_out.append(cluster.api.token if handed_out else "stale")
        return await with_token(cluster, handed_out[-1])()

    async with KubeClient(configuration) as client:
        assert await client.get(CONFIG_MAP, namespace, "nothing") is None
    assert handed_out == ["stale", cluster.api.token]


async def test_a_token_that_is_refused_for_good_is_an_error(cluster: ControlPlane, namespace: str) -> None:
    async with KubeClient(with_token(cluster, "wrong")) as client:
        with pytest.raises(KubeError) as refused:
            await client.list(CONFIG_MAP, namespace)
    assert refused.value.status == 401


async def test_a_missing_right_is_refused(cluster: ControlPlane, namespace: str) -> None:
    token = cluster.kubectl("create", "token", "default", f"--namespace={namespace}").strip()
    async with KubeClient(with_token(cluster, token)) as client:
        with pytest.raises(Refused, match="configmaps is forbidden"):
            await client.list(CONFIG_MAP, namespace)


def with_token(cluster: ControlPlane, token: str) -> Callable[[], Awaitable[Configuration]]:
    async def configuration() -> Configuration:
        found = Configuration(host=cluster.api.server, api_key={"BearerToken": f"Bearer {token}"})
        found.ssl_ca_cert = str(cluster.kubeconfig.parent / "ca.crt")
        return found

    return configuration
