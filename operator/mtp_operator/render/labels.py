"""Every label and annotation that the operator writes, and the few that it copies.

Labels of the user's object are not copied to children, except those in :data:`COPIED_TO_JOBS`: Argo CD prunes what
carries its tracking label, and Kueue queues every pod that carries its queue's name.
"""

from __future__ import annotations

from collections.abc import Mapping

MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "mtp-operator"
RUN = "specdecode.dev/run"
"""Name of the MTPFineTune; on its Jobs, ConfigMaps, claim and pods."""
STAGE = "specdecode.dev/stage"
"""Stage in lower case; on Jobs, ConfigMaps and pods."""
SERVING = "specdecode.dev/serving"
"""Name of the SpecDecodeServing; on its Deployment, Service and pods. The only label in their selectors."""

POD_TEMPLATE = "specdecode.dev/pod-template"
"""Annotation of a Deployment: the pod template as it was rendered, in JSON."""
TEMPLATE_HASH = "specdecode.dev/template-hash"
"""Annotation of a Deployment and of its pods: hash of :data:`POD_TEMPLATE`."""
INPUTS_HASH = "specdecode.dev/inputs-hash"
"""Annotation of a Deployment: hash of what the user asked for when the template was rendered."""

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_PRIORITY = "kueue.x-k8s.io/priority-class"
COPIED_TO_JOBS = (KUEUE_QUEUE, KUEUE_PRIORITY)
"""Copied from an MTPFineTune to its Jobs, never to pods."""


def run_selector(name: str) -> str:
    """Selector of everything that a run made."""
    return f"{RUN}={name}"


def serving_selector(name: str) -> str:
    """Selector of everything that a serving made."""
    return f"{SERVING}={name}"


def for_run(name: str, stage: str | None = None) -> dict[str, str]:
    """Labels of a run's children and pods."""
    labels = {MANAGED_BY: OPERATOR, RUN: name}
    return labels if stage is None else {**labels, STAGE: stage.lower()}


def for_serving(name: str) -> dict[str, str]:
    """Labels of a serving's children and pods."""
    return {MANAGED_BY: OPERATOR, SERVING: name}


def queueing(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that a Job takes over from its run."""
    return {key: labels[key] for key in COPIED_TO_JOBS if key in labels}
