"""CustomResourceDefinitions from the models.

pydantic's JSON schema is turned into the structural schema that Kubernetes wants: no references, no null, no
``additionalProperties: false`` (unknown fields are pruned, or refused by ``kubectl``'s strict mode), and defaults only
where they never change. An object that has a default for each of its fields gets ``default: {}``, so that the defaults
within it apply when it is left out.
"""

from __future__ import annotations

from typing import Any

from mtp_operator.api.columns import COLUMNS
from mtp_operator.api.common import GROUP, VERSION
from mtp_operator.api.kinds import MUTABLE_FIELDS, MTPFineTune, SpecDecodeServing
from mtp_operator.api.rules import unchangeable

Schema = dict[str, Any]

NAMES: dict[str, dict[str, Any]] = {
    "MTPFineTune": {"plural": "mtpfinetunes", "singular": "mtpfinetune", "shortNames": ["mtpft"]},
    "SpecDecodeServing": {"plural": "specdecodeservings", "singular": "specdecodeserving", "shortNames": ["sds"]},
}

_DROPPED = ("title", "$defs", "discriminator")


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """One schema, and all within it, as Kubernetes wants them."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rsplit("/", 1)[1]]
        return structural({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:
        (kept,) = (option for option in schema["anyOf"] if option != {"type": "null"})
        around = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return structural({**kept, **around}, definitions)
    result = {key: value for key, value in schema.items() if key not in _DROPPED}
    if result.get("additionalProperties") is False or (
        result.get("additionalProperties") is True and "x-kubernetes-preserve-unknown-fields" in result
    ):
        del result["additionalProperties"]
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if result.get("default") in ([], {}, ""):
        del result["default"]
    if isinstance(result.get("items"), dict):
        result["items"] = structural(result["items"], definitions)
    if isinstance(result.get("additionalProperties"), dict):
        result["additionalProperties"] = structural(result["additionalProperties"], definitions)
    if "properties" in result:
        required = result.get("required", [])
        result["properties"] = {
            name: _property(name, field, required, definitions) for name, field in result["properties"].items()
        }
    return result


def _property(name: str, field: Schema, required: list[str], definitions: dict[str, Schema]) -> Schema:
    result = structural(field, definitions)
    optional = {"type": "null"} in field.get("anyOf", [])
    if result.get("type") == "object" and "properties" in result and name not in required and not optional:
        result["default"] = _defaults(result) if "x-kubernetes-validations" in result else {}
    return result


def _defaults(schema: Schema) -> dict[str, Any]:
    """Defaults of an object's fields: its rules are also evaluated on the bare default, before those are filled in."""
    return {name: field["default"] for name, field in schema["properties"].items() if "default" in field}


def open_api_schema(model: type[MTPFineTune] | type[SpecDecodeServing]) -> Schema:
    """``openAPIV3Schema`` of a kind."""
    raw = model.model_json_schema(by_alias=True)
    definitions = raw.get("$defs", {})
    schema = structural(raw, definitions)
    properties = schema["properties"]
    spec, status = properties["spec"], properties["status"]
    status["default"] = {"observedGeneration": -1}
    if model is MTPFineTune:
        fixed = tuple(field for field in spec["properties"] if field not in MUTABLE_FIELDS)
        spec["x-kubernetes-validations"] = [*spec.get("x-kubernetes-validations", []), *unchangeable(fixed)]
    return {
        "description": schema["description"],
        "type": "object",
        "required": ["spec"],
        "x-kubernetes-validations": schema["x-kubernetes-validations"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"{model.__name__}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def definition(model: type[MTPFineTune] | type[SpecDecodeServing]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    kind = model.__name__
    names = NAMES[kind]
    subresources: dict[str, Any] = {"status": {}}
    if model is SpecDecodeServing:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", **names, "categories": ["mtp"]},
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": subresources,
                    "additionalPrinterColumns": [column.as_schema() for column in COLUMNS[kind]],
                    "schema": {"openAPIV3Schema": open_api_schema(model)},
                }
            ],
        },
    }
