"""Where the API server is and who we are there: one source for our own client and for kopf."""

from __future__ import annotations

import os
from pathlib import Path

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoConnection(Exception):
    """There is no usable configuration; says what to set."""


async def load_configuration() -> Configuration:
    """Read the configuration, anew at every call: tokens are rotated.

    ``KUBECONFIG`` wins; then the service account of the pod that this runs in; then ``~/.kube/config``.

    Raises:
        NoConnection: none of them is there or can be read.
    """
    configuration = Configuration()
    file = os.environ.get("KUBECONFIG", "")
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if not file and in_pod:
            load_incluster_config(client_configuration=configuration)
        else:
            path = file or str(Path.home() / ".kube" / "config")
            await load_kube_config(config_file=path, client_configuration=configuration, persist_config=False)
    except (ConfigException, OSError) as error:
        where = f"KUBECONFIG={file}" if file else "the pod's service account" if in_pod else "~/.kube/config"
        raise NoConnection(f"no cluster to connect to: {where}: {error}; set KUBECONFIG") from error
    return configuration


def own_namespace() -> str:
    """The namespace that this pod runs in; ``default`` outside a cluster."""
    given = os.environ.get("POD_NAMESPACE")
    file = ACCOUNT_FOLDER / "namespace"
    return given or (file.read_text(encoding="utf-8").strip() if file.is_file() else "default")
