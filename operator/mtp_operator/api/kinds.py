"""The two kinds as whole objects."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mtp_operator.api.common import API_VERSION, Model, ObjectMeta
from mtp_operator.api.fine_tune_spec import MTPFineTuneSpec
from mtp_operator.api.fine_tune_status import MTPFineTuneStatus
from mtp_operator.api.rules import NAME_LABEL, NAME_LENGTH, Rule
from mtp_operator.api.serving_spec import SpecDecodeServingSpec
from mtp_operator.api.serving_status import SpecDecodeServingStatus

MUTABLE_FIELDS = ("suspend", "ttlSecondsAfterFinished")
"""What may change in ``MTPFineTune.spec`` after creation."""


class MTPFineTune(Model):
    """Fine-tunes a model's own multi-token-prediction head: one object is one immutable run."""

    rules: ClassVar[tuple[Rule, ...]] = (NAME_LENGTH, NAME_LABEL)

    api_version: Literal["specdecode.dev/v1alpha1"] = API_VERSION
    kind: Literal["MTPFineTune"] = "MTPFineTune"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: MTPFineTuneSpec = Field(description="One run; immutable except suspend and ttlSecondsAfterFinished.")
    status: MTPFineTuneStatus = Field(default_factory=MTPFineTuneStatus, description="Written by the operator only.")


class SpecDecodeServing(Model):
    """Serves a model that drafts with its MTP head, and measures how many drafts are accepted."""

    rules: ClassVar[tuple[Rule, ...]] = (NAME_LENGTH, NAME_LABEL)

    api_version: Literal["specdecode.dev/v1alpha1"] = API_VERSION
    kind: Literal["SpecDecodeServing"] = "SpecDecodeServing"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: SpecDecodeServingSpec = Field(description="A model served with its MTP head.")
    status: SpecDecodeServingStatus = Field(
        default_factory=SpecDecodeServingStatus, description="Written by the operator only."
    )


AnyKind = Annotated[MTPFineTune | SpecDecodeServing, Field(discriminator="kind")]
KINDS: tuple[type[MTPFineTune] | type[SpecDecodeServing], ...] = (MTPFineTune, SpecDecodeServing)


def model_of(kind: str) -> type[MTPFineTune] | type[SpecDecodeServing]:
    """The model of a kind's name.

    Raises:
        KeyError: neither of the two.
    """
    return {model.__name__: model for model in KINDS}[kind]
