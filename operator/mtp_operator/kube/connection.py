"""Where the API server is and who we are there: one source for our own client and for kopf."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from yaml import YAMLError

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
    where = f"KUBECONFIG={file}" if file else "the pod's service account" if in_pod else "~/.kube/config"
    try:
        if not file and in_pod:
            load_incluster_config(client_configuration=configuration)
        else:
            path = file or str(Path.home() / ".kube" / "config")
            _one_is_there(path)
            await load_kube_config(config_file=path, client_configuration=configuration, persist_config=False)
    except Exception as error:
        # A file that is YAML but no kubeconfig makes the library raise whatever it meets.
        told = isinstance(error, ConfigException | OSError | YAMLError)
        what = " ".join(str(error).split()) if told else f"this is no kubeconfig ({error!r})"
        raise NoConnection(f"no cluster to connect to: {where}: {what}; set KUBECONFIG") from error
    return configuration


def _one_is_there(path: str) -> None:
    """The library takes a list of files, and takes a missing one for an empty one."""
    if not any(Path(part).is_file() for part in path.split(os.pathsep)):
        raise FileNotFoundError("no such file")


def own_namespace(environment: Mapping[str, str]) -> str:
    """The namespace that this pod runs in; ``default`` outside a cluster."""
    given = environment.get("POD_NAMESPACE")
    file = ACCOUNT_FOLDER / "namespace"
    return given or (file.read_text(encoding="utf-8").strip() if file.is_file() else "default")
