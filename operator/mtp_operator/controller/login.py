"""kopf logs in as our own client does, and does so again when the API server refuses what it has."""

from __future__ import annotations

from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from mtp_operator.kube.connection import NoConnection, load_configuration

RETRY_SECONDS = 5.0


def register_login(registry: kopf.OperatorRegistry) -> None:
    """Add the login handler. Tokens of service accounts are rotated, so it reads them anew each time."""

    async def login(**_: Any) -> kopf.ConnectionInfo:
        try:
            return connection_info(await load_configuration())
        except NoConnection as error:
            raise kopf.TemporaryError(str(error), delay=RETRY_SECONDS) from error

    kopf.on.login(registry=registry)(login)


def connection_info(configuration: Configuration) -> kopf.ConnectionInfo:
    """The same connection in kopf's words."""
    scheme, _, token = str(configuration.api_key.get("BearerToken") or "").strip().rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        scheme=scheme.capitalize() or None,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        proxy_url=configuration.proxy,
    )
