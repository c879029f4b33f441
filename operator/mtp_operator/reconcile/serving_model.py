"""Which model and head the pods load: ``uri`` as it is, ``fineTuneRef`` through the run's status."""

from __future__ import annotations

from collections.abc import Mapping

from mtp_operator.api.conditions import FineTuneCondition, ServingReason
from mtp_operator.api.serving_spec import HeadSource, ModelSource
from mtp_operator.reconcile import read
from mtp_operator.reconcile.conditions import FALSE, TRUE
from mtp_operator.reconcile.fine_tune_run import InvalidSpec
from mtp_operator.reconcile.pods import Cause
from mtp_operator.reconcile.refusals import serving_refusal
from mtp_operator.reconcile.serving_run import Serving
from mtp_operator.render.deployment import Location, ResolvedModel
from mtp_operator.render.storage import claim_mount, is_claim_uri, mounted_path

Runs = Mapping[str, read.Json | None]


def resolve(serving: Serving, runs: Runs) -> ResolvedModel | Cause:
    """What to load, or why that isn't known (yet)."""
    spec = serving.spec
    if isinstance(spec, InvalidSpec):
        return Cause(ServingReason.NOT_SUPPORTED, spec.message)
    if (refusal := serving_refusal(spec)) is not None:
        return Cause(ServingReason.NOT_SUPPORTED, refusal)
    if spec.model.fine_tune_ref is not None:
        return _model_of_run(spec.model.fine_tune_ref.name, runs)
    model = _location(spec.model)
    if spec.head is None:
        return ResolvedModel(model)
    if spec.head.fine_tune_ref is None:
        return ResolvedModel(model, _location(spec.head))
    head = _published(spec.head.fine_tune_ref.name, runs, "head")
    return head if isinstance(head, Cause) else ResolvedModel(model, head)


def named_runs(serving: Serving) -> list[str]:
    """Runs that have to be read for :func:`resolve`."""
    if isinstance(serving.spec, InvalidSpec):
        return []
    sources = (serving.spec.model, serving.spec.head)
    return [s.fine_tune_ref.name for s in sources if s is not None and s.fine_tune_ref is not None]


def _location(source: ModelSource | HeadSource) -> Location:
    return location(source.uri or "", source.revision)


def location(uri: str, revision: str | None = None, digest: str | None = None, run: str | None = None) -> Location:
    """Where a container finds what ``uri`` names."""
    if is_claim_uri(uri):
        return Location(uri, mounted_path(uri), claim_mount(uri, read_only=True), None, digest, run)
    return Location(uri, uri.removeprefix("hf://"), None, revision, digest, run)


def _model_of_run(name: str, runs: Runs) -> ResolvedModel | Cause:
    """The run's verifier with the head it published, or the whole checkpoint when it published only that."""
    head = _published(name, runs, "head")
    if not isinstance(head, Cause):
        run = runs.get(name)
        revision = read.text(run, "status", "resolved", "verifierRevision") or read.text(
            run, "spec", "verifier", "revision"
        )
        uri = read.text(run, "spec", "verifier", "uri")
        if not is_claim_uri(uri) and not uri.startswith("hf://"):
            return Cause(
                ServingReason.MODEL_NOT_FOUND, f"MTPFineTune {name} has a verifier that can't be served: {uri}"
            )
        digest = read.text(run, "status", "resolved", "verifierDigest") or None
        return ResolvedModel(location(uri, revision or None, digest, name), head)
    checkpoint = _published(name, runs, "checkpoint")
    return head if isinstance(checkpoint, Cause) else ResolvedModel(checkpoint)


def _published(name: str, runs: Runs, what: str) -> Location | Cause:
    run = runs.get(name)
    if run is None:
        return Cause(ServingReason.MODEL_NOT_FOUND, f"there is no MTPFineTune {name} in this namespace")
    succeeded = read.text(read.condition(run, FineTuneCondition.SUCCEEDED), "status")
    ready = read.condition(run, FineTuneCondition.READY)
    if succeeded == FALSE:
        message = f"MTPFineTune {name} failed: {read.text(ready, 'reason')}: {read.text(ready, 'message')}"
        return Cause(ServingReason.GATE_NOT_PASSED, message)
    if read.text(ready, "status") != TRUE:
        return Cause(ServingReason.MODEL_PENDING, f"MTPFineTune {name} has not ended")
    path = read.text(run, "status", "artifact", what, "path")
    if not is_claim_uri(path):
        return Cause(
            ServingReason.MODEL_NOT_FOUND,
            f"MTPFineTune {name} published no {what} to a claim; write Head in its output.contents",
        )
    return location(path, digest=read.text(run, "status", "artifact", what, "digest") or None, run=name)
