"""The same connection in kopf's words."""

from __future__ import annotations

import kopf
import pytest
from kubernetes.aio.client import Configuration

from mtp_operator.controller.login import connection_info, register_login


def test_a_token_and_its_authority_are_handed_over() -> None:
    configuration = Configuration(host="https://there.example", api_key={"BearerToken": "Bearer secret"})
    configuration.ssl_ca_cert = "/ca.crt"
    info = connection_info(configuration)
    assert (info.server, info.ca_path, info.insecure) == ("https://there.example", "/ca.crt", False)
    assert (info.scheme, info.token) == ("Bearer", "secret")


def test_a_certificate_is_handed_over_and_no_token_is_made_up() -> None:
    configuration = Configuration(host="https://there.example")
    configuration.cert_file, configuration.key_file, configuration.verify_ssl = "/me.crt", "/me.key", False
    info = connection_info(configuration)
    assert (info.certificate_path, info.private_key_path, info.insecure) == ("/me.crt", "/me.key", True)
    assert (info.scheme, info.token) == (None, None)


async def test_a_login_that_is_not_possible_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")
    registry = kopf.OperatorRegistry()
    register_login(registry)
    (handler,) = registry._activities.get_all_handlers()
    with pytest.raises(kopf.TemporaryError, match="KUBECONFIG=/nowhere/kubeconfig"):
        await handler.fn()  # type: ignore[misc]
