"""The store keeps an API server's promises."""

from pathlib import Path
from typing import Any

import pytest

from mtp_operator.kube.verbs import (
    CONFIG_MAP,
    FINE_TUNE,
    JOB,
    POD,
    AlreadyExists,
    Conflict,
    NotFound,
    Object,
    Refused,
)
from mtp_operator.local.store import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def config_map(name: str, owner: Object | None = None, **labels: str) -> Object:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": labels}
    if owner is not None:
        metadata["ownerReferences"] = [{"uid": owner["metadata"]["uid"], "name": owner["metadata"]["name"]}]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


def pod(name: str, owner: Object) -> Object:
    return config_map(name, owner) | {"kind": "Pod", "spec": {}}


def fine_tune(**spec: Any) -> Object:
    return {
        "apiVersion": "specdecode.dev/v1alpha1",
        "kind": "MTPFineTune",
        "metadata": {"name": "run"},
        "spec": {
            "verifier": {"uri": "pvc://models/verifier"},
            "dataset": {"uri": "pvc://data/train.jsonl"},
            "evaluation": {"dataset": {"uri": "pvc://data/heldout.jsonl"}},
            "workspace": {"storage": "1Gi"},
            "output": {"path": "pvc://heads/run"},
            **spec,
        },
    }


async def test_a_created_object_has_identity_and_defaults(store: LocalStore) -> None:
    made = await store.create(fine_tune())
    assert made["metadata"]["uid"]
    assert made["metadata"]["generation"] == 1
    assert made["spec"]["training"]["learningRate"] == "1e-4"
    assert made["status"] == {"observedGeneration": -1}


async def test_creating_a_name_twice_is_refused(store: LocalStore) -> None:
    await store.create(config_map("a"))
    with pytest.raises(AlreadyExists):
        await store.create(config_map("a"))


async def test_an_invalid_object_is_refused_and_nothing_is_stored(store: LocalStore, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="unknown field"):
        await store.create(fine_tune(colour="red"))
    assert await store.get(FINE_TUNE, "default", "run") is None
    assert LocalStore(tmp_path).version == 0


async def test_objects_are_there_after_a_restart(store: LocalStore, tmp_path: Path) -> None:
    made = await store.create(fine_tune())
    assert await LocalStore(tmp_path).get(FINE_TUNE, "default", "run") == made


async def test_a_status_written_from_an_old_read_conflicts(store: LocalStore) -> None:
    read = await store.create(fine_tune())
    await store.patch_status(read, {"observedGeneration": 1})
    with pytest.raises(Conflict):
        await store.patch_status(read, {"observedGeneration": 2})


async def test_a_status_of_a_deleted_object_is_not_found(store: LocalStore) -> None:
    read = await store.create(fine_tune())
    await store.delete(FINE_TUNE, "default", "run")
    with pytest.raises(NotFound):
        await store.patch_status(read, {})


async def test_writing_the_same_status_is_no_write(store: LocalStore) -> None:
    read = await store.create(fine_tune())
    written = await store.patch_status(read, {"observedGeneration": 1})
    again = await store.patch_status(written, {"observedGeneration": 1})
    assert again["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]


async def test_a_status_leaves_the_generation_and_a_new_spec_raises_it(store: LocalStore) -> None:
    made = await store.create(config_map("a") | {"spec": {"x": 1, "y": 1}})
    assert (await store.patch_status(made, {"z": 1}))["metadata"]["generation"] == 1
    applied = await store.apply(config_map("a") | {"spec": {"x": 2}})
    assert applied["metadata"]["generation"] == 2
    assert applied["spec"] == {"x": 2, "y": 1}
    assert applied["status"] == {"z": 1}


async def test_applying_the_same_again_is_no_write(store: LocalStore) -> None:
    first = await store.apply(config_map("a", spec="x"))
    assert await store.apply(config_map("a", spec="x")) == first


async def test_deleting_an_owner_deletes_what_it_owns_and_what_that_owns(store: LocalStore) -> None:
    run = await store.create(fine_tune())
    middle = await store.create(config_map("middle", run))
    await store.create(config_map("leaf", middle))
    await store.create(config_map("other"))
    await store.delete(FINE_TUNE, "default", "run")
    assert [o["metadata"]["name"] for o in await store.list(CONFIG_MAP, None)] == ["other"]


async def test_a_deleted_pod_stays_until_its_processes_are_gone(store: LocalStore) -> None:
    run = await store.create(fine_tune())
    await store.create(pod("p", run))
    await store.delete(FINE_TUNE, "default", "run")
    (left,) = await store.list(POD, "default")
    assert left["metadata"]["deletionTimestamp"]


async def test_a_uid_guards_a_delete(store: LocalStore) -> None:
    await store.create(config_map("a"))
    with pytest.raises(Conflict):
        await store.delete(CONFIG_MAP, "default", "a", uid="another")


async def test_deleting_what_is_gone_is_no_error(store: LocalStore) -> None:
    await store.delete(JOB, "default", "never")


async def test_labels_select(store: LocalStore) -> None:
    await store.create(config_map("a", run="x", stage="train"))
    await store.create(config_map("b", run="x", stage="prepare"))
    found = await store.list(CONFIG_MAP, "default", "run=x,stage=train")
    assert [o["metadata"]["name"] for o in found] == ["a"]


async def test_changing_what_was_read_changes_nothing_that_is_stored(store: LocalStore) -> None:
    await store.create(config_map("a"))
    read = await store.get(CONFIG_MAP, "default", "a")
    assert read is not None
    read["data"]["a"] = "2"
    assert (await store.get(CONFIG_MAP, "default", "a"))["data"] == {"a": "1"}  # type: ignore[index]
