"""kopf's part: watch, and say which object to look at. Nothing is decided here.

Only ``on.event`` and ``index``, which write nothing to the user's objects (``on.create`` and timers write annotations
and finalizers). Handlers are coroutines, since kopf's threads run out; they return nothing, since kopf writes what
they return into the status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import kopf

from mtp_operator.controller.queue import Key
from mtp_operator.kube.verbs import DEPLOYMENT, FINE_TUNE, JOB, POD, SERVING, Kind
from mtp_operator.reconcile.serving_model import named_runs
from mtp_operator.reconcile.serving_run import serving_of
from mtp_operator.render import labels

CHILDREN = (JOB, POD, DEPLOYMENT)
CHILD_SELECTOR = f"{labels.MANAGED_BY}={labels.OPERATOR}"
"""What the API server sends us of :data:`CHILDREN`; without it, a cluster-wide operator receives every pod there is."""

Add = Callable[[Key], None]


def handlers(add: Add) -> kopf.OperatorRegistry:
    """A registry whose handlers call ``add`` with what has to be looked at."""
    registry = kopf.OperatorRegistry()

    async def by_run(body: kopf.Body, namespace: str, name: str, **_: Any) -> dict[tuple[str, str], str]:
        # An empty dictionary clears what was known of this serving; None would keep it.
        return {(namespace, run): name for run in named_runs(serving_of(dict(body)))}

    async def fine_tune(
        namespace: str, name: str, servings_of_run: Mapping[tuple[str, str], Iterable[str]], **_: Any
    ) -> None:
        add(Key(FINE_TUNE, namespace, name))
        for serving in servings_of_run.get((namespace, name), ()):
            add(Key(SERVING, namespace, serving))

    async def serving(namespace: str, name: str, **_: Any) -> None:
        add(Key(SERVING, namespace, name))

    async def child(namespace: str, labels: Mapping[str, str], **_: Any) -> None:
        key = key_of_child(namespace, labels)
        if key is not None:
            add(key)

    kopf.index(*selector(SERVING), id="servings_of_run", registry=registry)(by_run)
    kopf.on.event(*selector(FINE_TUNE), id="fine_tune", registry=registry)(fine_tune)
    kopf.on.event(*selector(SERVING), id="serving", registry=registry)(serving)
    for kind in CHILDREN:
        kopf.on.event(*selector(kind), id=f"child_{kind.plural}", registry=registry)(child)
    return registry


def key_of_child(namespace: str, child_labels: Mapping[str, str]) -> Key | None:
    """The object that a child belongs to, by its label; that it really does is checked when the object is looked at."""
    for kind, label in ((FINE_TUNE, labels.RUN), (SERVING, labels.SERVING)):
        name = child_labels.get(label)
        if name:
            return Key(kind, namespace, name)
    return None


def selector(kind: Kind) -> tuple[str, str, str]:
    """Group, version and plural, as kopf wants them."""
    group, _, version = kind.api_version.rpartition("/")
    return group, version, kind.plural
