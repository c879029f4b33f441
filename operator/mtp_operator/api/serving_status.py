"""``SpecDecodeServing.status``: where it is reached, what runs, and how many drafts are accepted."""

from __future__ import annotations

from pydantic import Field

from mtp_operator.api.common import Condition, Decimal, PositionAcceptance, StatusModel, Time, map_list


class ResolvedModel(StatusModel):
    """The model or head that the pods load."""

    uri: str = Field(description="Where it is.")
    digest: str | None = Field(default=None, description="Digest of its content, when known.")
    fine_tune: str | None = Field(default=None, description="MTPFineTune that it came from.")


class ResolvedServing(StatusModel):
    """What names and defaults stand for in the running pods."""

    model: ResolvedModel | None = Field(default=None, description="The served model.")
    head: ResolvedModel | None = Field(default=None, description="The head beside it.")
    engine_image: str | None = Field(default=None, description="Image of the pods.")
    args: list[str] = Field(default=[], description="vLLM's arguments, complete.")
    template_hash: str | None = Field(default=None, description="Hash of the rendered pod template.")
    num_speculative_tokens: int | None = Field(default=None, description="Draft depth in force.")
    operator_version: str | None = Field(default=None, description="Operator that rendered the template.")


class AcceptanceStatus(StatusModel):
    """Drafts accepted in the window, over all pods and engines. Written on meaningful change only."""

    window: str = Field(description="Span that the counts cover.")
    pods: int = Field(default=0, description="Pods that were read.")
    engines: int = Field(default=0, description="Engines in them.")
    drafts: int = Field(default=0, description="Drafts verified.")
    draft_tokens: int = Field(default=0, description="Tokens drafted.")
    accepted_tokens: int = Field(default=0, description="Drafted tokens that were accepted.")
    draft_acceptance_rate: Decimal | None = Field(default=None, description="Accepted over drafted tokens.")
    mean_acceptance_length: Decimal | None = Field(
        default=None, description="Tokens per verifier step: 1 + the sum of the rates."
    )
    positions: list[PositionAcceptance] = map_list("position", 8, "Acceptance by draft position.")
    summary: str = Field(default="", description="The rates in one line, such as 0.911/0.774/0.612.")
    last_update_time: Time | None = Field(default=None, description="When this was measured.")


class SpecDecodeServingStatus(StatusModel):
    """Written by the operator only."""

    observed_generation: int = Field(default=-1, description="metadata.generation that the status is about; -1 before.")
    conditions: list[Condition] = map_list("type", 32, "Ready and what it rests on; the docs list all of them.")
    url: str | None = Field(default=None, description="Where clients reach the model, without /v1.")
    replicas: int | None = Field(default=None, description="Pods that exist.")
    ready_replicas: int | None = Field(default=None, description="Pods that take requests.")
    updated_replicas: int | None = Field(default=None, description="Pods of the newest template.")
    selector: str | None = Field(default=None, description="Label selector of the pods, for autoscalers.")
    resolved: ResolvedServing | None = Field(default=None, description="What names and defaults stand for.")
    acceptance: AcceptanceStatus | None = Field(default=None, description="Newest measurement.")
