"""``SpecDecodeServing.spec``: which model to serve, with which head, how deep to draft, and what to watch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from mtp_operator.api.common import Duration, FineTuneRef, Length, Model, Name, SecretRef, obeying, parse_duration
from mtp_operator.api.engine import ServingEngine
from mtp_operator.api.fine_tune_spec import CheckpointUri, Revision
from mtp_operator.api.pods import Image, Opaque, Scheduling
from mtp_operator.api.rules import (
    HEAD_URI,
    NO_PARENT_FOLDER,
    PLAIN_IMAGE,
    REVISION_ONLY_FOR_HUB,
    Rule,
    exactly_one,
)

HeadUri = Annotated[str, *obeying(HEAD_URI, NO_PARENT_FOLDER, maxLength=1024)]
PlainImage = Annotated[Image, *obeying(PLAIN_IMAGE)]

ONE_MODEL = exactly_one(
    ("uri", "image", "fineTuneRef"),
    "model: set exactly one of uri (a checkpoint), image (an OCI image reference) and fineTuneRef (a finished run)",
)
ONE_HEAD = exactly_one(
    ("uri", "image", "fineTuneRef"),
    "head: set exactly one of uri (a head's folder), image (an OCI image reference) and fineTuneRef (a finished run)",
)
HEAD_BESIDE_BASE = Rule(
    "!(has(self.head) && has(self.model.fineTuneRef))",
    "model.fineTuneRef brings the run's head already; leave out head, or name the base model by model.uri",
    lambda spec: spec.head is None or spec.model.fine_tune_ref is None,
)

_depth = Rule(
    "type(self) == int ? (self >= 1 && self <= 8) : self == 'Auto'",
    'numSpeculativeTokens: write a depth from 1 to 8, or "Auto"',
    lambda value: value == "Auto" if isinstance(value, str) else 1 <= value <= 8,
)


def _check(rule: Rule) -> AfterValidator:
    def check(value: int | str) -> int | str:
        if not rule.holds(value):
            raise ValueError(rule.message)
        return value

    return AfterValidator(check)


def _int_or_string(rule: Rule) -> Any:
    return WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 8,
            "x-kubernetes-validations": [rule.as_schema()],
        }
    )


def _is_percent(value: str) -> bool:
    return value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit() and int(value[:-1]) <= 100


_count_or_percent = Rule(
    "type(self) == int ? self >= 0 : self.matches(r'^([0-9]|[1-9][0-9]|100)%$')",
    'rollout: write a number of pods, or a share such as "25%"',
    lambda value: _is_percent(value) if isinstance(value, str) else value >= 0,
)

Depth = Annotated[int | str, _check(_depth), _int_or_string(_depth)]
CountOrPercent = Annotated[int | str, _check(_count_or_percent), _int_or_string(_count_or_percent)]


class ModelSource(Model):
    """The model to serve: a base checkpoint, a stitched one, or the result of a run."""

    rules: ClassVar[tuple[Rule, ...]] = (ONE_MODEL, REVISION_ONLY_FOR_HUB)

    uri: CheckpointUri | None = Field(
        default=None,
        description="A checkpoint: hf://ORGANISATION/MODEL, pvc://CLAIM/PATH, s3://BUCKET/PREFIX or "
        "oci://REPOSITORY@sha256:DIGEST.",
    )
    image: PlainImage | None = Field(
        default=None,
        description="A checkpoint as a plain OCI image reference, so that GitOps image updaters can write it.",
    )
    fine_tune_ref: FineTuneRef | None = Field(
        default=None, description="A run: its verifier with its tuned head, once the gate passed."
    )
    revision: Revision | None = Field(default=None, description="Commit, branch or tag; hf:// only. Default: newest.")
    secret_ref: SecretRef | None = Field(default=None, description="Secret with the credentials. Default: none.")


class HeadSource(Model):
    """A tuned head beside the base model. Many heads can share one base."""

    rules: ClassVar[tuple[Rule, ...]] = (ONE_HEAD, REVISION_ONLY_FOR_HUB)

    uri: HeadUri | None = Field(
        default=None, description="A head's folder: pvc://CLAIM/PATH, hf://, s3:// or oci:// as for model.uri."
    )
    image: PlainImage | None = Field(default=None, description="A head as a plain OCI image reference.")
    fine_tune_ref: FineTuneRef | None = Field(
        default=None, description="The head that a run published, once the gate passed."
    )
    revision: Revision | None = Field(default=None, description="Commit, branch or tag; hf:// only. Default: newest.")
    secret_ref: SecretRef | None = Field(default=None, description="Secret with the credentials. Default: none.")


class BatchDepth(Model):
    """Draft depth up to a batch size."""

    up_to: int = Field(ge=1, le=65536, description="Largest number of running requests that this depth is for.")
    tokens: int = Field(ge=0, le=8, description="Tokens to draft then; 0 drafts nothing.")


class Speculative(Model):
    """Drafting."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.perBatchSize) || self.perBatchSize.map(entry, entry.upTo).isSorted()",
            "speculative.perBatchSize: order the entries by upTo, smallest first",
            lambda spec: [e.up_to for e in spec.per_batch_size] == sorted(e.up_to for e in spec.per_batch_size),
        ),
        Rule(
            "!has(self.perBatchSize) || type(self.numSpeculativeTokens) != int"
            " || self.perBatchSize.all(entry, entry.tokens <= int(self.numSpeculativeTokens))",
            "speculative.perBatchSize: tokens above numSpeculativeTokens; raise that, the largest depth",
            lambda spec: (
                isinstance(spec.num_speculative_tokens, str)
                or all(e.tokens <= spec.num_speculative_tokens for e in spec.per_batch_size)
            ),
        ),
    )

    method: Literal["mtp"] = Field(default="mtp", description="mtp, the only method: the model's own head.")
    num_speculative_tokens: Depth = Field(
        default=3,
        description='Draft depth, 1 to 8. Default 3. "Auto": chosen from measured acceptance and step times. '
        "It must be a multiple of the number of MTP layers that the model has.",
    )
    draft_sampling: Literal["Greedy", "Probabilistic"] = Field(
        default="Greedy", description="How drafts are sampled. Default Greedy; a head is tuned for one of them."
    )
    per_batch_size: list[BatchDepth] = Field(
        default=[],
        max_length=16,
        description="Depth by number of running requests. Default: always numSpeculativeTokens.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["upTo"]},
    )


class Rollout(Model):
    """How pods are replaced."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",
            "rollout: maxSurge and maxUnavailable are both 0, so no pod could ever be replaced; raise one of them",
            lambda rollout: not (str(rollout.max_surge) in ("0", "0%") and str(rollout.max_unavailable) in ("0", "0%")),
        ),
    )

    max_surge: CountOrPercent = Field(
        default=0, description="Pods above replicas. Default 0: a surge pod would wait for the GPU of an old one."
    )
    max_unavailable: CountOrPercent = Field(default=1, description="Pods missing meanwhile. Default 1.")
    progress_deadline_seconds: int = Field(
        default=3600, ge=1, le=86400, description="No progress for so long is reported as stuck. Default 3600."
    )


class ServiceSpec(Model):
    """The Service in front of the pods."""

    port: int = Field(default=8000, ge=1, le=65535, description="Port for clients. Default 8000.")


class ParentRef(Model):
    """A Gateway."""

    name: Name = Field(description="Name of the Gateway.")
    namespace: Name | None = Field(default=None, description="Its namespace. Default: this object's.")
    section_name: Name | None = Field(default=None, description="Its listener. Default: all that fit.")


class HttpRoute(Model):
    """An HTTPRoute to the Service."""

    parent_refs: list[ParentRef] = Field(min_length=1, max_length=8, description="Gateways that take the route.")
    hostnames: list[Name] = Field(default=[], max_length=16, description="Host names. Default: the listener's.")


class InferencePool(Model):
    """An InferencePool over the pods, for gateways that choose a pod by load."""

    endpoint_picker_ref: Opaque = Field(description="The pool's endpointPickerRef, as in its API.")


class Router(Model):
    """How clients reach the pods."""

    service: ServiceSpec = Field(default_factory=ServiceSpec, description="The Service, which always exists.")
    http_route: HttpRoute | None = Field(default=None, description="An HTTPRoute to it. Default: none.")
    inference_pool: InferencePool | None = Field(default=None, description="An InferencePool. Default: none.")


class Monitoring(Model):
    """Prometheus."""

    pod_monitor: Literal["Auto", "Enabled", "Disabled"] = Field(
        default="Auto", description="Auto (default): a PodMonitor where the cluster has that kind. Or always, or never."
    )


class DegradedBelow(Model):
    """When acceptance counts as degraded."""

    mean_acceptance_length: Length = Field(description="Below so many tokens per verifier step.")


class Acceptance(Model):
    """Measuring drafts accepted by position, from vLLM's counters, over all pods and engines."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "duration(self.window) >= duration(self.interval)",
            "acceptance.window is shorter than acceptance.interval; make the window the longer one",
            lambda acceptance: parse_duration(acceptance.window) >= parse_duration(acceptance.interval),
        ),
    )

    interval: Duration = Field(default="60s", description='How often counters are read. Default "60s".')
    window: Duration = Field(default="5m", description='Span that a measurement covers. Default "5m".')
    min_drafts: int = Field(default=500, ge=1, description="Fewer drafts in the window give no verdict. Default 500.")
    degraded_below: DegradedBelow | None = Field(
        default=None, description="When acceptance counts as degraded. Default: only when drafts are hardly accepted."
    )
    on_degraded: Literal["Report", "NotReady", "Retune"] = Field(
        default="Report",
        description="Report (default): condition AcceptanceHealthy only. NotReady: Ready becomes False as well. "
        "Retune: ask for a new fine-tune.",
    )


class SpecDecodeServingSpec(Model):
    """A model served with its MTP head."""

    rules: ClassVar[tuple[Rule, ...]] = (HEAD_BESIDE_BASE,)

    model: ModelSource = Field(description="The model to serve.")
    head: HeadSource | None = Field(
        default=None, description="A tuned head beside the model. Default: the head in the model's own checkpoint."
    )
    served_model_name: str | None = Field(
        default=None, min_length=1, max_length=253, description="Model name in requests. Default: the object's name."
    )
    speculative: Speculative = Field(default_factory=Speculative, description="Drafting.")
    engine: ServingEngine = Field(default_factory=ServingEngine, description="The vLLM of each pod.")
    replicas: int = Field(
        default=1, ge=0, le=1000, description="Pods. Default 1; autoscalers set it through the scale subresource."
    )
    rollout: Rollout = Field(default_factory=Rollout, description="How pods are replaced.")
    head_update: Literal["Restart", "Live"] = Field(
        default="Restart",
        description="Restart (default): a new head means new pods. Live: when only the head changed, swap it inside "
        "the running servers.",
    )
    router: Router = Field(default_factory=Router, description="How clients reach the pods.")
    monitoring: Monitoring = Field(default_factory=Monitoring, description="Prometheus.")
    acceptance: Acceptance = Field(default_factory=Acceptance, description="Measuring accepted drafts.")
    pods: Scheduling = Field(default_factory=Scheduling, description="Where the pods run.")
