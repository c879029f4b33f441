"""What a serving needs done."""

from __future__ import annotations

from mtp_operator.reconcile.actions import Action, Apply
from mtp_operator.reconcile.fine_tune_run import InvalidSpec
from mtp_operator.reconcile.observed import DeploymentView
from mtp_operator.reconcile.pods import Cause
from mtp_operator.reconcile.serving_model import resolve
from mtp_operator.reconcile.serving_run import Serving, ServingObserved
from mtp_operator.render.defaults import Defaults
from mtp_operator.render.deployment import (
    ResolvedModel,
    Template,
    inputs_hash,
    kept_template,
    serving_deployment,
    serving_template,
)
from mtp_operator.render.service import serving_service


def plan(serving: Serving, observed: ServingObserved, defaults: Defaults) -> list[Action]:
    """Deployment and Service as they should be.

    Without a resolved model nothing is touched: pods go on with what they loaded, even when the run that made it is
    gone.
    """
    resolved = resolve(serving, observed.runs)
    if isinstance(resolved, Cause) or isinstance(serving.spec, InvalidSpec):
        return []
    template = template_of(serving, observed.deployment, resolved, defaults)
    return [
        Apply(serving_deployment(serving.owner, serving.spec, template)),
        Apply(serving_service(serving.owner, serving.spec)),
    ]


def template_of(
    serving: Serving, deployment: DeploymentView | None, resolved: ResolvedModel, defaults: Defaults
) -> Template:
    """The template that the Deployment carries while the user asks for the same; else a new one.

    Raises:
        ValueError: the spec can't be read; :func:`resolve` says so first.
    """
    if isinstance(serving.spec, InvalidSpec):
        raise ValueError(serving.spec.message)
    kept = None
    if deployment is not None:
        kept = kept_template(deployment.annotations, inputs_hash(serving.spec, resolved))
    return kept or serving_template(serving.owner, serving.spec, resolved, defaults)
