"""Where the cluster is, and what is said when that can't be known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtp_operator.kube import connection
from mtp_operator.kube.connection import NoConnection, load_configuration, own_namespace

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "https://there.example:6443"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


Write = Callable[[Any], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the file that the environment names: text as it is, anything else as JSON. Returns its path."""
    monkeypatch.setenv("KUBECONFIG", str(file := tmp_path / "kubeconfig"))

    def write(content: Any) -> str:
        if content is not None:
            file.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(file)

    return write


async def test_kubeconfig_is_read_anew_at_every_call(write: Write) -> None:
    for token in ("first", "second"):
        user = {"name": "u", "user": {"token": token}}
        write({**KUBECONFIG, "users": [user]})
        found = await load_configuration()
        assert found.host == "https://there.example:6443"
        assert found.api_key["BearerToken"] == f"Bearer {token}"


async def test_kubeconfig_wins_over_a_pods_account(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    write(KUBECONFIG)
    assert (await load_configuration()).host == "https://there.example:6443"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        ("", "no kubeconfig"),
        ("a: [", "parsing a flow node"),
        ("hello", "no kubeconfig"),
        ("[1, 2]", "no kubeconfig"),
        ({**KUBECONFIG, "current-context": "other"}, "other"),
        ({**KUBECONFIG, "clusters": 7}, "no kubeconfig"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_named_in_one_line(write: Write, content: Any, said: str) -> None:
    file = write(content)
    with pytest.raises(NoConnection) as raised:
        await load_configuration()
    assert f"KUBECONFIG={file}" in str(raised.value)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


async def test_a_pod_without_its_account_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with pytest.raises(NoConnection, match="the pod's service account"):
        await load_configuration()


async def test_without_a_kubeconfig_the_one_at_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoConnection, match=r"~/\.kube/config"):
        await load_configuration()


def test_the_namespace_is_the_one_given_then_the_accounts_then_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ACCOUNT_FOLDER", tmp_path)
    assert own_namespace({}) == "default"
    (tmp_path / "namespace").write_text("mtp-system\n")
    assert own_namespace({}) == "mtp-system"
    assert own_namespace({"POD_NAMESPACE": "other"}) == "other"
