"""What an API server does with an object, for local mode: defaults, strict validation, transition rules.

Sentences follow the API server's wording, so that a person who moves from one to the other knows them.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mtp_operator.api.crd import Schema, open_api_schema
from mtp_operator.api.kinds import MUTABLE_FIELDS, MTPFineTune, SpecDecodeServing, model_of
from mtp_operator.api.rules import unchangeable_message

Manifest = dict[str, Any]

_JSON_TYPES = {float: "number", int: "integer", bool: "boolean", str: "string", list: "array", dict: "object"}
_EXPECTED = {
    "string_type": "string",
    "int_type": "integer",
    "int_from_float": "integer",
    "bool_type": "boolean",
    "list_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
}


class InvalidManifest(ValueError):
    """A manifest that an API server would refuse.

    Attributes:
        problems: one sentence each, with the field's path.
    """

    def __init__(self, kind: str, name: str, problems: list[str]) -> None:
        self.problems = problems
        super().__init__(f'The {kind} "{name}" is invalid: ' + "; ".join(problems))


@cache
def _schema(kind: str) -> Schema:
    return open_api_schema(model_of(kind))


def with_defaults(manifest: Manifest) -> Manifest:
    """A copy with the schema's defaults filled in, as an API server stores it."""
    result = copy.deepcopy(manifest)
    _fill(result, _schema(manifest["kind"]))
    return result


def _fill(value: Any, schema: Schema) -> None:
    if isinstance(value, dict):
        for name, field in schema.get("properties", {}).items():
            if name not in value and "default" in field:
                value[name] = copy.deepcopy(field["default"])
            if name in value:
                _fill(value[name], field)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            _fill(item, schema["items"])


def parse(manifest: Manifest) -> MTPFineTune | SpecDecodeServing:
    """Check a manifest and read it.

    Raises:
        InvalidManifest: with every problem, not only the first.
    """
    kind, name = manifest["kind"], str(manifest.get("metadata", {}).get("name", ""))
    try:
        return model_of(kind).model_validate(manifest)
    except ValidationError as error:
        problems = list(dict.fromkeys(_sentence(detail) for detail in error.errors()))
        raise InvalidManifest(kind, name, problems) from error


def check_update(old: Manifest, new: Manifest) -> None:
    """Transition rules. Both manifests have their defaults filled in.

    Raises:
        InvalidManifest: a field of a fine-tune changed that may not.
    """
    if new["kind"] != "MTPFineTune":
        return
    before, after = old["spec"], new["spec"]
    changed = [
        field
        for field in sorted({*before, *after})
        if field not in MUTABLE_FIELDS and before.get(field) != after.get(field)
    ]
    if changed:
        problems = [f"spec: Invalid value: {unchangeable_message(field)}" for field in changed]
        raise InvalidManifest(new["kind"], new["metadata"]["name"], problems)


def _sentence(detail: ErrorDetails) -> str:
    path = _path(detail["loc"])
    kind, given, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return f'unknown field "{path}"'
    if kind == "missing":
        return f"{path}: Required value"
    if kind in _EXPECTED:
        found = _JSON_TYPES.get(type(given), "null")
        return f'{path}: Invalid value: "{found}": must be of type {_EXPECTED[kind]}: "{found}"'
    if kind == "literal_error":
        return f"{path}: Unsupported value: {given!r}: supported values: {context['expected']}"
    if kind == "greater_than_equal":
        return f"{path}: Invalid value: {given}: should be greater than or equal to {context['ge']}"
    if kind == "less_than_equal":
        return f"{path}: Invalid value: {given}: should be less than or equal to {context['le']}"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{path}: Invalid value: {message}" if path else message


def _path(location: tuple[int | str, ...]) -> str:
    """``spec.env[0].name``; the markers that pydantic adds for the branch of a union are left out."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in ("int", "str") and not part.startswith("function-"):
            path += f".{part}" if path else part
    return path
