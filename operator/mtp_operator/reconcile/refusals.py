"""What this version can't do. Said before anything is created, with the field and what to write instead."""

from __future__ import annotations

from mtp_operator.api.fine_tune_spec import DatasetSource, MTPFineTuneSpec
from mtp_operator.api.serving_spec import SpecDecodeServingSpec
from mtp_operator.render.storage import split_claim_uri

_COPY_TO_CLAIM = "copy it into a claim and write pvc://CLAIM/PATH"


def fine_tune_refusal(name: str, spec: MTPFineTuneSpec) -> str | None:
    """The first field of a run that asks for too much."""
    general = spec.evaluation.gate.general
    datasets: dict[str, DatasetSource] = {
        "spec.dataset": spec.dataset,
        "spec.evaluation.dataset": spec.evaluation.dataset,
        **({"spec.evaluation.gate.general.dataset": general.dataset} if general else {}),
    }
    uris = {"spec.verifier.uri": spec.verifier.uri, **{f"{field}.uri": d.uri for field, d in datasets.items()}}
    for field, uri in uris.items():
        if (refusal := _remote(field, uri)) is not None:
            return refusal
    if spec.training.hidden_states == "VLLM":
        return "spec.training.hiddenStates VLLM is not supported by this version; write Transformers"
    if spec.nodes > 1:
        return f"spec.nodes {spec.nodes} is not supported by this version; write 1 and raise spec.pods.gpus"
    if spec.output.image is not None:
        return "spec.output.image is not supported by this version; write spec.output.path: pvc://CLAIM/PATH"
    references = {"spec.verifier": spec.verifier.secret_ref, **{field: d.secret_ref for field, d in datasets.items()}}
    secrets = {field: reference.name for field, reference in references.items() if reference is not None}
    if len(set(secrets.values())) > 1:
        named = " and ".join(f"{field}.secretRef" for field in secrets)
        return f"{named} name different Secrets, and one token is used for all downloads; name the same Secret"
    if spec.output.path is not None and spec.workspace.claim_name is None:
        claim, _ = split_claim_uri(spec.output.path)
        if claim == f"{name}-workspace":
            return (
                f"spec.output.path is in claim {claim}, which is deleted with the run; "
                "write another claim, or name this one in spec.workspace.claimName"
            )
    return None


def serving_refusal(spec: SpecDecodeServingSpec) -> str | None:
    """The first field of a serving that asks for too much."""
    if (refusal := _serving_source(spec)) is not None:
        return refusal
    if isinstance(spec.speculative.num_speculative_tokens, str):
        return 'spec.speculative.numSpeculativeTokens "Auto" is not supported by this version; write a depth such as 3'
    if spec.head_update == "Live":
        return "spec.headUpdate Live is not supported by this version; write Restart"
    if spec.router.http_route is not None:
        return "spec.router.httpRoute is not supported by this version; leave it out and route to the Service"
    if spec.router.inference_pool is not None:
        return "spec.router.inferencePool is not supported by this version; leave it out and route to the Service"
    if spec.monitoring.pod_monitor == "Enabled":
        return (
            "spec.monitoring.podMonitor Enabled is not supported by this version; "
            "write Disabled and scrape port http of the pods"
        )
    if spec.acceptance.on_degraded == "Retune":
        return "spec.acceptance.onDegraded Retune is not supported by this version; write Report"
    return None


def _serving_source(spec: SpecDecodeServingSpec) -> str | None:
    for field, source in {"spec.model": spec.model, "spec.head": spec.head}.items():
        if source is None:
            continue
        if source.image is not None:
            return f"{field}.image is not supported by this version; {_COPY_TO_CLAIM} in {field}.uri"
        if source.uri is not None and (refusal := _remote(f"{field}.uri", source.uri)) is not None:
            return refusal
    model, head = spec.model.secret_ref, spec.head.secret_ref if spec.head is not None else None
    if model is not None and head is not None and model != head:
        return "spec.model.secretRef and spec.head.secretRef name different Secrets; name the same Secret in both"
    return None


def _remote(field: str, uri: str) -> str | None:
    scheme = uri.split("://", 1)[0]
    if scheme in ("s3", "oci"):
        return f"{field}: {scheme}:// is not supported by this version; {_COPY_TO_CLAIM}"
    return None
