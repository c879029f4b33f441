"""One look at an MTPFineTune."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mtp_operator.kube.verbs import CLAIM, CONFIG_MAP, FINE_TUNE, JOB, POD, NotFound, Verbs
from mtp_operator.loop.act import SOON_SECONDS, Fetch, act, has_conditions, is_owned, write_status
from mtp_operator.reconcile import read
from mtp_operator.reconcile.fine_tune_plan import next_look, plan
from mtp_operator.reconcile.fine_tune_run import FineTuneRun, fine_tune_run
from mtp_operator.reconcile.fine_tune_status import first_status, status
from mtp_operator.reconcile.observed import FineTuneObserved, PodView, job_view, pod_view
from mtp_operator.render.config_map import stage_child_name
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.job import CONTAINER
from mtp_operator.render.labels import run_selector
from mtp_operator.render.stage_config import PROGRESS_PORT
from mtp_trainer.contract import Progress, Stage

_DEFAULTS = Defaults()


async def reconcile_fine_tune(
    verbs: Verbs, namespace: str, name: str, now: datetime, fetch: Fetch, defaults: Defaults = _DEFAULTS
) -> float | None:
    """Look at a run, do what it needs next, and write its status.

    Args:
        verbs: the cluster.
        namespace: of the object.
        name: of the object.
        now: the time, with a time zone.
        fetch: reads a URL; used for the progress of a running Train stage.
        defaults: images and version of this operator.

    Returns:
        Seconds until the next look; ``None`` when only an event can change anything.

    Raises:
        KubeError: the API server did not do what was asked; look again later.
    """
    obj = await verbs.get(FINE_TUNE, namespace, name)
    if obj is None or read.text(obj, "metadata", "deletionTimestamp"):
        return None
    run = fine_tune_run(obj)
    if not has_conditions(obj):
        touched = await write_status(verbs, run.owner, obj, first_status(run, now), now)
        if touched is None:
            return SOON_SECONDS
        obj, run = touched, fine_tune_run(touched)
    observed = await observe(verbs, run)
    actions = plan(run, observed, now, defaults)
    if actions:
        problem = await act(verbs, run.owner, actions)
        observed = replace(await observe(verbs, run), problem=problem)
    observed = replace(observed, progress=await _progress(run, observed, fetch))
    try:
        written = await write_status(verbs, run.owner, obj, status(run, observed, now, defaults), now)
    except NotFound:
        return None
    return SOON_SECONDS if written is None else next_look(fine_tune_run(written), observed, now)


async def observe(verbs: Verbs, run: FineTuneRun) -> FineTuneObserved:
    """The run's children: of its label, and owned by it."""
    namespace, selector, uid = run.owner.namespace, run_selector(run.owner.name), run.owner.uid
    jobs = {
        read.text(job, "metadata", "name"): job
        for job in await verbs.list(JOB, namespace, selector)
        if is_owned(job, uid) and not read.text(job, "metadata", "deletionTimestamp")
    }
    pods = await verbs.list(POD, namespace, selector)
    config_maps = await verbs.list(CONFIG_MAP, namespace, selector)
    claims = await verbs.list(CLAIM, namespace, selector)
    by_stage = {stage: jobs.get(stage_child_name(run.owner.name, stage)) for stage in Stage}
    views = {stage: job_view(job) for stage, job in by_stage.items() if job is not None}
    return FineTuneObserved(
        jobs=views,
        pods={
            stage: tuple(pod_view(pod, CONTAINER) for pod in pods if is_owned(pod, job.uid))
            for stage, job in views.items()
        },
        config_maps=frozenset(read.text(c, "metadata", "name") for c in config_maps if is_owned(c, uid)),
        workspace_claim=any(is_owned(claim, uid) for claim in claims),
    )


async def _progress(run: FineTuneRun, observed: FineTuneObserved, fetch: Fetch) -> Progress | None:
    """What a running Train stage says of itself. Not knowing it is no failure."""
    pod = _training_pod(observed)
    if run.ended or pod is None:
        return None
    try:
        return Progress.model_validate_json(await fetch(f"http://{pod.ip}:{PROGRESS_PORT}/progress"))
    except Exception:  # whatever the client raises, or the answer isn't progress
        return None


def _training_pod(observed: FineTuneObserved) -> PodView | None:
    return next((pod for pod in observed.pods.get(Stage.TRAIN, ()) if pod.running and pod.ip), None)
