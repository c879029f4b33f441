"""What both kinds are made of: the base model, decimal strings, references, conditions.

There are no floats in the API (they don't survive a round trip through every client the same): rates, learning rates
and thresholds are decimal strings, next to integer counts.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from mtp_operator.api.rules import Rule, pattern_rule

GROUP: Final = "specdecode.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "specdecode.dev/v1alpha1"

T = TypeVar("T")


class Model(BaseModel):
    """Base of everything a user writes: camelCase in manifests, no unknown fields, no silent type conversion.

    ``rules`` are checked after the fields, and written to the CRD as CEL.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obey_rules(self) -> Model:
        broken = [rule.message for rule in self.rules if not rule.holds(self)]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.rules:
            schema["x-kubernetes-validations"] = [rule.as_schema() for rule in cls.rules]
        return schema

    def manifest(self) -> dict[str, Any]:
        """As plain JSON with camelCase keys; fields that aren't set are left out."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


class StatusModel(Model):
    """Base of what the operator writes. Unknown fields are ignored: an older operator reads a newer one's status."""

    model_config = ConfigDict(extra="ignore")


def obeying(*rules: Rule, **schema: Any) -> Any:
    """Annotation of a scalar field: these rules in both forms, and more keywords for its schema."""

    def check(value: T) -> T:
        for rule in rules:
            if not rule.holds(value):
                raise ValueError(rule.message)
        return value

    extra = {"x-kubernetes-validations": [rule.as_schema() for rule in rules], **schema}
    return AfterValidator(check), Field(json_schema_extra=extra)


def _decimal(pattern: str, message: str) -> tuple[Any, Any]:
    check, field = obeying(pattern_rule(pattern, message), maxLength=16, pattern=f"^(?:{pattern})$")
    return check, field


_fraction = _decimal(r"0\.[0-9]*[1-9][0-9]*", 'write a decimal string between 0 and 1, such as "0.05"')
_weight = _decimal(r"0\.[0-9]*[1-9][0-9]*|1(\.0+)?", 'write a decimal string above 0 and at most 1, such as "0.6"')
_temperature = _decimal(r"[01](\.[0-9]+)?|2(\.0+)?", 'write a decimal string from 0 to 2, such as "1.0"')
_length = _decimal(r"[1-8](\.[0-9]+)?|9(\.0+)?", 'write a decimal string from 1 to 9 tokens per step, such as "2.8"')
_difference = _decimal(r"-?[0-8](\.[0-9]+)?", 'write a decimal string between -9 and 9, such as "0.05" or "-0.01"')
_not_negative = _decimal(r"(0|[1-9][0-9]*)(\.[0-9]+)?", 'write a decimal string that is not negative, such as "0.05"')
_rate = _decimal(
    r"(0|[1-9][0-9]*)\.?[0-9]*([eE]-?[0-9]{1,3})?", 'write a positive decimal string such as "1e-4" or "0.0001"'
)
_below_one = _decimal(r"0(\.[0-9]+)?", 'write a decimal string from 0 to below 1, such as "0.05"')

Fraction = Annotated[str, *_fraction]
"""Decimal string in the open interval from 0 to 1."""
Weight = Annotated[str, *_weight]
"""Decimal string above 0 and at most 1."""
Temperature = Annotated[str, *_temperature]
"""Decimal string from 0 (greedy) to 2."""
Length = Annotated[str, *_length]
"""Mean acceptance length: decimal string from 1 to 9 tokens per verifier step."""
Difference = Annotated[str, *_difference]
"""Change of an acceptance figure: signed decimal string."""
NotNegative = Annotated[str, *_not_negative]
"""Decimal string of 0 or more."""
LearningRate = Annotated[str, *_rate]
"""Decimal string, exponent allowed."""
BelowOne = Annotated[str, *_below_one]
"""Decimal string from 0 to below 1."""
Decimal = Annotated[str, Field(max_length=24)]
"""A figure in a status, already rounded for people."""
Time = Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
"""RFC 3339 in UTC, such as ``2026-11-30T12:00:00Z``."""
Name = Annotated[str, Field(min_length=1, max_length=253)]
"""Name of another object in the same namespace."""


class NameRef(Model):
    """An object of the same namespace, by name."""

    name: Name = Field(description="Name of the object, in this object's own namespace.")


class SecretRef(NameRef):
    """A Secret of the same namespace. The operator passes the name on and never reads the value."""


class FineTuneRef(NameRef):
    """An MTPFineTune of the same namespace."""


class ObjectMeta(Model):
    """The part of an object's metadata that the operator reads."""

    model_config = ConfigDict(extra="ignore")

    name: str = ""
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Condition(StatusModel):
    """One condition, in the shape that Kubernetes uses everywhere."""

    type: str = Field(max_length=64, description="Name of the condition; docs list all of them.")
    status: str = Field(
        description="True, False, or Unknown.", json_schema_extra={"enum": ["True", "False", "Unknown"]}
    )
    reason: str = Field(max_length=64, description="One word for programs; the docs list all of them.")
    message: str = Field(default="", max_length=4096, description="A sentence for people.")
    observed_generation: int = Field(default=0, description="metadata.generation that this was said about.")
    last_transition_time: Time = Field(description="When status last changed.")


class PositionAcceptance(StatusModel):
    """Acceptance at one draft position."""

    position: int = Field(description="Draft position, counted from 0.")
    rate: Decimal = Field(description="Accepted at this position, over all drafts.")
    conditional: Decimal | None = Field(
        default=None, description="Accepted at this position, over the drafts accepted at the one before."
    )
    accepted: int = Field(description="Count behind the rate.")


def map_list(key: str, max_items: int | None = None, description: str = "") -> Any:
    """Field of a list that server-side apply merges by ``key``."""
    extra: dict[str, Any] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
    return Field(default=[], max_length=max_items, description=description, json_schema_extra=extra)


def parse_duration(text: str) -> int:
    """Seconds of a duration such as ``90s``, ``5m`` or ``1h30m``; the field's rule has checked its form."""
    seconds, number = 0, ""
    for char in text:
        if char.isdigit():
            number += char
        else:
            seconds += int(number) * {"h": 3600, "m": 60, "s": 1}[char]
            number = ""
    return seconds


_duration = obeying(
    pattern_rule(
        r"[1-9][0-9]{0,4}h([0-9]{1,2}m)?([0-9]{1,2}s)?|[1-9][0-9]{0,4}m([0-9]{1,2}s)?|[1-9][0-9]{0,5}s",
        'write a duration such as "60s", "5m" or "1h30m"',
    ),
    maxLength=16,
)
Duration = Annotated[str, *_duration]
"""Hours, minutes and seconds: ``60s``, ``5m``, ``1h30m``."""
