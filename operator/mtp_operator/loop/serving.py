"""One look at a SpecDecodeServing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from mtp_operator.api.common import parse_duration
from mtp_operator.kube.verbs import DEPLOYMENT, FINE_TUNE, POD, SERVING, NotFound, Object, Verbs
from mtp_operator.loop.act import SOON_SECONDS, Fetch, act, has_conditions, is_owned, write_status
from mtp_operator.measure.counters import parse_counters
from mtp_operator.measure.store import AcceptanceStore
from mtp_operator.measure.window import Sample, count_window
from mtp_operator.reconcile import read
from mtp_operator.reconcile.fine_tune_run import InvalidSpec
from mtp_operator.reconcile.observed import DeploymentView, PodView, deployment_view, pod_view
from mtp_operator.reconcile.pods import Cause
from mtp_operator.reconcile.serving_model import named_runs, resolve
from mtp_operator.reconcile.serving_plan import plan
from mtp_operator.reconcile.serving_run import Serving, ServingObserved, serving_of
from mtp_operator.reconcile.serving_status import first_status, status
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.deployment import CONTAINER, HTTP_PORT
from mtp_operator.render.labels import TEMPLATE_HASH, serving_selector

_DEFAULTS = Defaults()
WAITING_SECONDS = 30.0
"""How often a run that isn't ready, or an obstacle, is looked at again."""


async def reconcile_serving(
    verbs: Verbs,
    namespace: str,
    name: str,
    now: datetime,
    fetch: Fetch,
    samples: AcceptanceStore,
    defaults: Defaults = _DEFAULTS,
) -> float | None:
    """Look at a serving, make its Deployment and Service, read its counters, and write its status.

    Args:
        verbs: the cluster.
        namespace: of the object.
        name: of the object.
        now: the time, with a time zone.
        fetch: reads a URL; used for the counters of ready pods.
        samples: readings of earlier looks; the same store for all of them.
        defaults: images and version of this operator.

    Returns:
        Seconds until the next look; ``None`` when only an event can change anything.

    Raises:
        KubeError: the API server did not do what was asked; look again later.
    """
    obj = await verbs.get(SERVING, namespace, name)
    if obj is None or read.text(obj, "metadata", "deletionTimestamp"):
        samples.forget(f"{namespace}/{name}")
        return None
    serving = serving_of(obj)
    if not has_conditions(obj):
        touched = await write_status(verbs, serving.owner, obj, first_status(serving, now), now)
        if touched is None:
            return SOON_SECONDS
        obj, serving = touched, serving_of(touched)
    observed = await observe(verbs, serving)
    actions = plan(serving, observed, defaults)
    if actions:
        problem = await act(verbs, serving.owner, actions)
        observed = replace(await observe(verbs, serving), problem=problem)
    observed = await _measure(serving, observed, now, fetch, samples)
    try:
        written = await write_status(verbs, serving.owner, obj, status(serving, observed, now, defaults), now)
    except NotFound:
        return None
    return SOON_SECONDS if written is None else next_look(serving, observed, now, samples)


async def observe(verbs: Verbs, serving: Serving) -> ServingObserved:
    """The serving's Deployment, its pods of the newest template, and the runs that it names."""
    namespace, name = serving.owner.namespace, serving.owner.name
    runs: dict[str, Object | None] = {run: await verbs.get(FINE_TUNE, namespace, run) for run in named_runs(serving)}
    found = await verbs.get(DEPLOYMENT, namespace, name)
    if found is None or not is_owned(found, serving.owner.uid):
        return ServingObserved(runs=runs)
    deployment = deployment_view(found)
    pods = [pod_view(pod, CONTAINER) for pod in await verbs.list(POD, namespace, serving_selector(name))]
    newest = deployment.annotations.get(TEMPLATE_HASH)
    return ServingObserved(deployment, tuple(pod for pod in pods if pod.template_hash == newest), runs)


def next_look(serving: Serving, observed: ServingObserved, now: datetime, samples: AcceptanceStore) -> float | None:
    """When counters are due; a wait for something that sends no event is looked at again."""
    if isinstance(serving.spec, InvalidSpec):
        return None
    if observed.problem is not None or isinstance(resolve(serving, observed.runs), Cause):
        return WAITING_SECONDS
    if not any(pod.ready for pod in observed.pods):
        return None
    read_at = samples.read_at(_key(serving))
    interval = parse_duration(serving.spec.acceptance.interval)
    return max(SOON_SECONDS, interval - (now - read_at).total_seconds()) if read_at is not None else SOON_SECONDS


async def _measure(
    serving: Serving, observed: ServingObserved, now: datetime, fetch: Fetch, samples: AcceptanceStore
) -> ServingObserved:
    """Read the counters when they are due, and count the window."""
    if isinstance(serving.spec, InvalidSpec) or observed.deployment is None:
        return observed
    key, since = _key(serving), now - timedelta(seconds=parse_duration(serving.spec.acceptance.window))
    samples.begin(key, _epoch(serving, observed.deployment))
    read_at = samples.read_at(key)
    ready = [pod for pod in observed.pods if pod.ready and pod.ip and not pod.deleting]
    if ready and (read_at is None or (now - read_at).total_seconds() >= _interval(serving.spec.acceptance.interval)):
        readings = await asyncio.gather(*(_read(pod, now, fetch) for pod in ready))
        failure = next((reading for reading in readings if isinstance(reading, str)), None)
        samples.add(key, now, [reading for reading in readings if isinstance(reading, Sample)], since, failure)
    window = count_window(samples.samples(key), since)
    return replace(observed, window=window, scrape_failure=samples.failure(key) if ready else None)


async def _read(pod: PodView, now: datetime, fetch: Fetch) -> Sample | str:
    """One pod's counters, or why they can't be read."""
    try:
        engines = parse_counters(await fetch(f"http://{pod.ip}:{HTTP_PORT}/metrics"))
    except Exception as error:  # whatever the client raises, the pod's counters can't be read
        return f"pod {pod.name}: /metrics can't be read ({type(error).__name__})"
    if not engines:
        return f"pod {pod.name}: /metrics has no counters of speculative decoding; does engine.image run vLLM?"
    return Sample(now, pod.uid, engines)


def _interval(text: str) -> float:
    """A look may come a little early; counting it as on time keeps the rhythm."""
    return parse_duration(text) - 0.5


def _epoch(serving: Serving, deployment: DeploymentView) -> str:
    return f"{serving.owner.uid}/{deployment.annotations.get(TEMPLATE_HASH, '')}"


def _key(serving: Serving) -> str:
    return f"{serving.owner.namespace}/{serving.owner.name}"
