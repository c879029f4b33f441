"""What can be set, by flag or by the environment of the operator's Deployment, and kopf's own settings."""

from __future__ import annotations

import argparse
import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import kopf

from mtp_operator import __version__
from mtp_operator.controller.handlers import CHILD_SELECTOR, CHILDREN, selector
from mtp_operator.kube.connection import own_namespace
from mtp_operator.render.defaults import Defaults

ENVIRONMENT = """\
environment:
  KUBECONFIG          the cluster to connect to; in a pod, its service account when unset
  POD_NAME            who holds the leader's Lease (the host's name)
  POD_NAMESPACE       where that Lease is (the service account's namespace)
  MTP_TRAINER_IMAGE   image of a run's pods whose manifest names none
  MTP_ENGINE_IMAGE    image of a serving's pods whose manifest names none
"""


@dataclass(frozen=True)
class Settings:
    """How this process runs.

    Attributes:
        namespaces: that are watched; empty for the whole cluster.
        lease_namespace: where the leader's Lease is.
        identity: of this process in the Lease; the pod's name.
        metrics_port: of ``/metrics``.
        probe_port: of ``/healthz`` and ``/readyz``.
        address: that both listen on.
        workers: objects looked at at once.
        resync_seconds: between two looks at everything.
        log_format: ``plain`` or ``json``.
        defaults: images of the pods that the operator makes.
    """

    namespaces: tuple[str, ...]
    lease_namespace: str
    identity: str
    metrics_port: int
    probe_port: int
    address: str
    workers: int
    resync_seconds: float
    log_format: str
    defaults: Defaults


def parse(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the command line, and what only a Deployment knows from its environment."""
    parser = argparse.ArgumentParser(
        prog="mtp-operator",
        description="Fine-tunes MTP heads and serves them: the controller of MTPFineTune and SpecDecodeServing.",
        epilog=ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        type=_namespace,
        metavar="NAME",
        help="watch this namespace only; may be repeated (default: the whole cluster)",
    )
    parser.add_argument("--metrics-port", type=_port, default=8080, metavar="PORT", help="of /metrics (8080)")
    parser.add_argument("--probe-port", type=_port, default=8081, metavar="PORT", help="of /healthz and /readyz (8081)")
    parser.add_argument("--address", default="0.0.0.0", help="that both listen on (0.0.0.0)")  # noqa: S104 -- in a pod
    parser.add_argument("--workers", type=_count, default=8, metavar="N", help="objects looked at at the same time (8)")
    parser.add_argument(
        "--resync", type=_seconds, default=300.0, metavar="SECONDS", help="between two looks at every object (300)"
    )
    parser.add_argument(
        "--log-format", choices=("plain", "json"), default="plain", help="json is one object a line (plain)"
    )
    given = parser.parse_args(arguments)
    if given.metrics_port == given.probe_port:
        parser.error(f"--metrics-port and --probe-port are both {given.probe_port}: choose two ports")
    shipped = Defaults()

    def image(variable: str, default: str) -> str:
        named = environment.get(variable) or default
        if re.search(r"\s", named):
            parser.error(f"environment variable {variable}: {named!r} is not the name of an image")
        return named

    return Settings(
        namespaces=tuple(given.namespace),
        lease_namespace=own_namespace(environment),
        identity=environment.get("POD_NAME") or socket.gethostname(),
        metrics_port=given.metrics_port,
        probe_port=given.probe_port,
        address=given.address,
        workers=given.workers,
        resync_seconds=given.resync,
        log_format=given.log_format,
        defaults=Defaults(
            trainer_image=image("MTP_TRAINER_IMAGE", shipped.trainer_image),
            engine_image=image("MTP_ENGINE_IMAGE", shipped.engine_image),
        ),
    )


def _namespace(text: str) -> str:
    """A name, since kopf would take a pattern such as ``team-*``, and a list of objects would not."""
    if len(text) > 63 or re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a namespace")
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: write a port from 1 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: write a number of seconds above 0")
    return seconds


def kopf_settings() -> kopf.OperatorSettings:
    """kopf's settings. ``queueing.worker_limit`` stays unset: with an index, a limit deadlocks the start."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # events about transitions are written with the status
    settings.scanning.disabled = True  # both kinds were found before; no right to list CRDs or namespaces is needed
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    # A stream can go silent behind a load balancer: the server ends each after five minutes, the client soon after.
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 30
    settings.watching.chunk_size = 500
    for kind in CHILDREN:
        settings.watching.label_selectors[selector(kind)] = CHILD_SELECTOR
    # Never used, since no handler keeps progress; our name, should one ever be added by mistake.
    settings.persistence.finalizer = "specdecode.dev/operator"
    return settings
