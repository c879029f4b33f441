"""Validation rules in two forms: CEL for the API server, Python for local mode and tests.

Each :class:`Rule` keeps both beside the one message that a person gets, and says in it what to write instead.
``tests/cluster/manifests`` holds manifests that every rule accepts and refuses: the unit tier feeds them to the Python
form, the cluster tier to a real API server, so the two can't drift apart.

Regular expressions stay within what RE2, Rust's and Python's engines read alike, and are written without anchors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_NAME = 52
"""Longest object name: stage Jobs add up to 9 characters, and a Job's name ends up in a label of at most 63."""


@dataclass(frozen=True)
class Rule:
    """One invariant of a model.

    Attributes:
        cel: expression over ``self``, the object that carries the rule.
        message: what a person reads when it doesn't hold, with what to write instead.
        holds: the same over the model; optional fields that the user left out are ``None`` there.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]

    def as_schema(self) -> dict[str, str]:
        """The entry of ``x-kubernetes-validations``."""
        return {"rule": self.cel, "message": self.message}


def pattern_rule(pattern: str, message: str) -> Rule:
    """A rule for a string field: the whole value matches ``pattern``."""
    compiled = re.compile(pattern)
    return Rule(f"self.matches(r'^(?:{pattern})$')", message, lambda value: compiled.fullmatch(value) is not None)


def exactly_one(fields: tuple[str, ...], message: str) -> Rule:
    """Exactly one of these fields (camelCase) is set."""
    attributes = tuple(snake(field) for field in fields)
    return Rule(
        f"[{', '.join(f'has(self.{field})' for field in fields)}].filter(x, x).size() == 1",
        message,
        lambda model: sum(getattr(model, attribute) is not None for attribute in attributes) == 1,
    )


def snake(name: str) -> str:
    """``claimName`` to ``claim_name``: a model's attribute for a manifest's field."""
    return re.sub(r"(?<!^)([A-Z])", lambda match: "_" + match[1].lower(), name)


NAME_LENGTH = Rule(
    f"size(self.metadata.name) <= {MAX_NAME}",
    f"metadata.name is longer than {MAX_NAME} characters, which leaves no room for the names of its Jobs; shorten it",
    lambda obj: len(obj.metadata.name) <= MAX_NAME,
)
NAME_LABEL = Rule(
    "self.metadata.name.matches(r'^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name becomes the name of a Service: begin with a lower-case letter and use only lower-case letters, "
    "digits and '-'",
    lambda obj: re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", obj.metadata.name) is not None,
)

_HUB = r"hf://[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*"
_CLAIM = r"pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[^/]+)*"
_BUCKET = r"s3://[a-z0-9][-a-z0-9.]+[a-z0-9](/[^/]+)*"
_REPOSITORY = r"oci://[a-z0-9][-a-z0-9.:]*(/[a-z0-9][-a-z0-9._]*)+@sha256:[0-9a-f]{64}"

CHECKPOINT_URI = pattern_rule(
    f"{_HUB}|{_CLAIM}|{_BUCKET}|{_REPOSITORY}",
    "write hf://ORGANISATION/MODEL, pvc://CLAIM/PATH, s3://BUCKET/PREFIX or oci://REPOSITORY@sha256:DIGEST",
)
DATASET_URI = pattern_rule(
    f"{_HUB}|{_CLAIM}|{_BUCKET}", "write hf://ORGANISATION/DATASET, pvc://CLAIM/PATH or s3://BUCKET/PREFIX"
)
HEAD_URI = pattern_rule(
    f"{_CLAIM}|{_BUCKET}|{_HUB}|{_REPOSITORY}",
    "write pvc://CLAIM/PATH, hf://ORGANISATION/HEAD, s3://BUCKET/PREFIX or oci://REPOSITORY@sha256:DIGEST",
)
OUTPUT_PATH = pattern_rule(_CLAIM, "write pvc://CLAIM/PATH; to publish to a registry, use output.image")
NO_PARENT_FOLDER = Rule(
    "!self.contains('/..')",
    "a path may not climb out of its volume with '..'; write the folder itself",
    lambda value: "/.." not in value,
)
PLAIN_IMAGE = pattern_rule(
    r"[a-zA-Z0-9][-a-zA-Z0-9.]*(:[0-9]+)?(/[a-z0-9][-a-z0-9._]*)*(:[A-Za-z0-9_][-A-Za-z0-9._]*)?(@sha256:[0-9a-f]{64})?",
    "write a plain image reference such as registry.example/heads/model:r7@sha256:DIGEST, without oci:// before it",
)
REPOSITORY_ONLY = pattern_rule(
    r"[a-zA-Z0-9][-a-zA-Z0-9.]*(:[0-9]+)?(/[a-z0-9][-a-z0-9._]*)+",
    "write a repository such as registry.example/heads/model; tags go to output.tags, the digest is the run's",
)
REVISION_ONLY_FOR_HUB = Rule(
    "!has(self.revision) || (has(self.uri) && self.uri.startsWith('hf://'))",
    "revision is only for hf:// sources; leave it out, the content of other sources is pinned by its digest",
    lambda source: source.revision is None or (source.uri or "").startswith("hf://"),
)

ONE_WORKSPACE = exactly_one(
    ("claimName", "storage"),
    "workspace: set exactly one of claimName (an existing claim) and storage (the size of a new one)",
)
CLASS_NEEDS_STORAGE = Rule(
    "!has(self.storageClassName) || has(self.storage)",
    "workspace.storageClassName is only for a new claim; set workspace.storage, or leave it out",
    lambda workspace: workspace.storage_class_name is None or workspace.storage is not None,
)
SOME_OUTPUT = Rule(
    "has(self.path) || has(self.image)",
    "output: set path (pvc://CLAIM/PATH), image (an OCI repository), or both",
    lambda output: output.path is not None or output.image is not None,
)
PUSH_SECRET_NEEDS_IMAGE = Rule(
    "!has(self.pushSecretRef) || has(self.image)",
    "output.pushSecretRef is used for pushing only; set output.image, or leave it out",
    lambda output: output.push_secret_ref is None or output.image is not None,
)
VERIFIER_GPUS = Rule(
    "self.verifierGpus <= self.gpus",
    "pods.verifierGpus is larger than pods.gpus; raise gpus, which counts all GPUs of a pod",
    lambda pods: pods.verifier_gpus <= pods.gpus,
)
STAGE_VERIFIER_GPUS = Rule(
    "!has(self.verifierGpus) || !has(self.gpus) || self.verifierGpus <= self.gpus",
    "pods.stages: verifierGpus is larger than gpus of the same stage; raise gpus, which counts all GPUs of a pod",
    lambda pods: pods.verifier_gpus is None or pods.gpus is None or pods.verifier_gpus <= pods.gpus,
)
ENV_ONE_VALUE = Rule(
    "!(has(self.value) && has(self.valueFrom))",
    "env: set value or valueFrom, not both",
    lambda env: env.value is None or env.value_from is None,
)


def unchangeable(fields: tuple[str, ...]) -> list[dict[str, str]]:
    """Transition rules of a spec, one per field, that also see an optional field appear or disappear.

    CEL doesn't see into fields that the schema leaves open (``affinity``, ``valueFrom``): a change there passes, and
    reaches no Job that exists, since Jobs are created once.
    """
    return [
        {
            "rule": f"has(self.{field}) == has(oldSelf.{field})"
            f" && (!has(self.{field}) || self.{field} == oldSelf.{field})",
            "message": unchangeable_message(field),
        }
        for field in fields
    ]


def unchangeable_message(field: str) -> str:
    """What the API server and local mode say when this field of a fine-tune's spec is edited."""
    return f"spec.{field} cannot change once the run exists; create another MTPFineTune under a new name"
