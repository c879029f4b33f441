"""``SpecDecodeServing.status`` from what was observed."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

from mtp_operator.api.conditions import FineTuneReason, ServingCondition, ServingReason
from mtp_operator.api.serving_spec import SpecDecodeServingSpec
from mtp_operator.reconcile import read
from mtp_operator.reconcile.conditions import FALSE, TRUE, UNKNOWN, Wanted, conditions_of
from mtp_operator.reconcile.fine_tune_run import InvalidSpec
from mtp_operator.reconcile.observed import DeploymentView, PodView
from mtp_operator.reconcile.pods import Cause, newest_first, why_waiting
from mtp_operator.reconcile.results import excerpt
from mtp_operator.reconcile.serving_acceptance import Acceptance, acceptance
from mtp_operator.reconcile.serving_model import resolve
from mtp_operator.reconcile.serving_plan import template_of
from mtp_operator.reconcile.serving_run import Serving, ServingObserved
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.deployment import Location, ResolvedModel, Template
from mtp_operator.render.labels import serving_selector
from mtp_operator.render.service import service_url

_POD_REASONS: dict[str, str] = {
    FineTuneReason.PENDING: ServingReason.PROGRESSING,
    FineTuneReason.UNSCHEDULABLE: ServingReason.UNSCHEDULABLE,
    FineTuneReason.IMAGE_PULL_FAILED: ServingReason.IMAGE_PULL_FAILED,
    FineTuneReason.VOLUME_MISSING: ServingReason.VOLUME_MISSING,
    FineTuneReason.SECRET_MISSING: ServingReason.SECRET_MISSING,
}


def status(serving: Serving, observed: ServingObserved, now: datetime, defaults: Defaults) -> dict[str, Any]:
    """The whole status. It equals the previous one when nothing changed, and then needs no write."""
    new: dict[str, Any] = copy.deepcopy(dict(serving.previous))
    new["observedGeneration"] = serving.generation
    resolved = resolve(serving, observed.runs)
    measured: Acceptance | None = None
    if not isinstance(serving.spec, InvalidSpec) and not isinstance(resolved, Cause):
        template = template_of(serving, observed.deployment, resolved, defaults)
        _say_what_was_resolved(new, serving.spec, resolved, template, defaults)
        measured = acceptance(serving, observed, _same_template(serving, template), now)
        new.pop("acceptance", None)
        if measured.figures is not None:
            new["acceptance"] = measured.figures
    if not isinstance(serving.spec, InvalidSpec):
        _count_pods(new, serving, serving.spec, observed.deployment)
    new["conditions"] = conditions_of(
        read.objects(serving.previous, "conditions"),
        _conditions(serving, observed, resolved, measured),
        serving.generation,
        now,
    )
    return new


def first_status(serving: Serving, now: datetime) -> dict[str, Any]:
    """What is written before anything is created."""
    reason, message = ServingReason.ACCEPTED, "the operator has seen the object"
    wanted = [
        Wanted(ServingCondition.READY, UNKNOWN, reason, message),
        Wanted(ServingCondition.RECONCILING, TRUE, reason, message),
    ]
    return {
        "observedGeneration": serving.generation,
        "selector": serving_selector(serving.owner.name),
        "conditions": conditions_of([], wanted, serving.generation, now),
    }


def _same_template(serving: Serving, template: Template) -> bool:
    return read.text(serving.previous, "resolved", "templateHash") == template.hash


def _say_what_was_resolved(
    new: dict[str, Any], spec: SpecDecodeServingSpec, resolved: ResolvedModel, template: Template, defaults: Defaults
) -> None:
    """The template may be older than this operator, so what it says counts, not what would be rendered today."""
    known = read.mapping(new, "resolved")
    same = read.text(known, "templateHash") == template.hash
    depth = spec.speculative.num_speculative_tokens
    new["resolved"] = {
        "model": _shown(resolved.model),
        **({} if resolved.head is None else {"head": _shown(resolved.head)}),
        "engineImage": template.image,
        "args": template.args,
        "templateHash": template.hash,
        **({"numSpeculativeTokens": depth} if isinstance(depth, int) else {}),
        "operatorVersion": (read.text(known, "operatorVersion") if same else "") or defaults.operator_version,
    }


def _shown(location: Location) -> dict[str, Any]:
    shown = {"uri": location.uri, "digest": location.digest, "fineTune": location.fine_tune}
    return {name: value for name, value in shown.items() if value is not None}


def _count_pods(
    new: dict[str, Any], serving: Serving, spec: SpecDecodeServingSpec, deployment: DeploymentView | None
) -> None:
    new["selector"] = serving_selector(serving.owner.name)
    seen = deployment or DeploymentView()
    new.update(replicas=seen.replicas, readyReplicas=seen.ready, updatedReplicas=seen.updated)
    if deployment is not None:
        new["url"] = service_url(serving.owner, spec)


def _conditions(
    serving: Serving, observed: ServingObserved, resolved: ResolvedModel | Cause, measured: Acceptance | None
) -> list[Wanted]:
    rollout = _rollout(serving, observed, resolved)
    ready = rollout
    counts = not isinstance(serving.spec, InvalidSpec) and serving.spec.acceptance.on_degraded == "NotReady"
    if counts and measured is not None and measured.healthy.status == FALSE and rollout.status == TRUE:
        ready = Wanted(rollout.type, FALSE, measured.healthy.reason, measured.healthy.message)
    if ready.status == TRUE and ready.reason != ServingReason.SCALED_TO_ZERO:
        ready = Wanted(ready.type, TRUE, ServingReason.SERVING, "the newest pods serve the model")
    wanted = [
        Wanted(ServingCondition.READY, ready.status, ready.reason, ready.message),
        _model_condition(resolved, observed),
        rollout,
    ]
    if measured is not None:
        wanted += [measured.measured, measured.healthy]
    stalled = _stalled(observed, resolved, rollout)
    if stalled is not None:
        wanted.append(Wanted(ServingCondition.STALLED, TRUE, stalled.reason, stalled.message))
    elif rollout.status != TRUE:
        wanted.append(Wanted(ServingCondition.RECONCILING, TRUE, rollout.reason, rollout.message))
    return wanted


def _model_condition(resolved: ResolvedModel | Cause, observed: ServingObserved) -> Wanted:
    if isinstance(resolved, Cause):
        kept = "; the pods go on with what they loaded" if observed.deployment is not None else ""
        return Wanted(ServingCondition.MODEL_RESOLVED, FALSE, resolved.reason, resolved.message + kept)
    head = f" with the head {resolved.head.uri}" if resolved.head is not None else " with its own head"
    return Wanted(ServingCondition.MODEL_RESOLVED, TRUE, ServingReason.RESOLVED, resolved.model.uri + head)


def _stalled(observed: ServingObserved, resolved: ResolvedModel | Cause, rollout: Wanted) -> Cause | None:
    """Waiting for a run isn't: it will end. A run that failed for good is."""
    for_good = (ServingReason.NOT_SUPPORTED, ServingReason.MODEL_NOT_FOUND, ServingReason.GATE_NOT_PASSED)
    if isinstance(resolved, Cause) and resolved.reason in for_good and observed.deployment is None:
        return resolved
    if isinstance(resolved, Cause) and resolved.reason == ServingReason.NOT_SUPPORTED:
        return resolved
    if observed.problem is not None and observed.problem.reason == ServingReason.NAME_CONFLICT:
        return Cause(observed.problem.reason, observed.problem.message)
    if rollout.reason == ServingReason.PROGRESS_DEADLINE_EXCEEDED:
        return Cause(rollout.reason, rollout.message)
    return None


def _rollout(serving: Serving, observed: ServingObserved, resolved: ResolvedModel | Cause) -> Wanted:
    """The Available condition: whether all pods are of the newest template and take requests."""
    kind = ServingCondition.AVAILABLE
    if observed.problem is not None:
        return Wanted(kind, FALSE, observed.problem.reason, observed.problem.message)
    deployment = observed.deployment
    if deployment is None:
        cause = resolved if isinstance(resolved, Cause) else Cause(ServingReason.PROGRESSING, "no pod exists yet")
        return Wanted(kind, FALSE, cause.reason, cause.message)
    replicas = deployment.wanted_replicas
    if not isinstance(serving.spec, InvalidSpec) and not isinstance(resolved, Cause):
        replicas = serving.spec.replicas
    seen = deployment.observed_generation >= deployment.generation and deployment.wanted_replicas == replicas
    complete = seen and deployment.updated == replicas == deployment.replicas and deployment.available >= replicas
    if complete and replicas == 0:
        return Wanted(kind, TRUE, ServingReason.SCALED_TO_ZERO, "replicas is 0: there is no pod to take a request")
    if complete:
        message = f"{deployment.available} of {replicas} pods take requests"
        return Wanted(kind, TRUE, ServingReason.MINIMUM_REPLICAS_AVAILABLE, message)
    cause = _why_not_complete(deployment, observed.pods, replicas)
    return Wanted(kind, FALSE, cause.reason, cause.message)


def _why_not_complete(deployment: DeploymentView, pods: tuple[PodView, ...], replicas: int) -> Cause:
    if deployment.replica_failure is not None:
        return Cause(ServingReason.CHILD_CREATE_FAILED, deployment.replica_failure)
    cause = next((c for pod in newest_first(pods) if (c := why_not_ready(pod)) is not None), None)
    if deployment.deadline_exceeded is not None:
        detail = f"{cause.reason}: {cause.message}" if cause is not None else deployment.deadline_exceeded
        return Cause(ServingReason.PROGRESS_DEADLINE_EXCEEDED, detail)
    message = f"{deployment.updated} of {replicas} pods are of the newest template"
    return cause or Cause(ServingReason.PROGRESSING, message)


def why_not_ready(pod: PodView) -> Cause | None:
    """Why a pod takes no requests; ``None`` when it does, or is on its way out."""
    if pod.ready or pod.deleting:
        return None
    if "OOMKilled" in (pod.terminated_reason, pod.last_reason):
        message = f"pod {pod.name} was killed for its memory; raise engine.resources.limits.memory"
        return Cause(ServingReason.OUT_OF_MEMORY, message)
    code = pod.exit_code if pod.exit_code is not None else pod.last_exit_code
    if code is not None and code != 0:
        detail = excerpt(pod.termination_message or pod.last_message) or "it left no message; see its log"
        return Cause(ServingReason.ENGINE_CRASHED, f"vLLM in pod {pod.name} ended with exit code {code}: {detail}")
    waiting = why_waiting(pod)
    if waiting is not None:
        return Cause(_POD_REASONS.get(waiting.reason, ServingReason.PROGRESSING), waiting.message)
    return Cause(ServingReason.ENGINE_STARTING, f"vLLM in pod {pod.name} is loading the model")
