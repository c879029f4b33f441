"""Values that are refused, and what helm says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helm_command import Helm, HelmFailed
from scenarios import DEFAULTS, LEAVES, SCHEMA, has

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"replica": 2}, "additional properties 'replica' not allowed"),
    "an unknown key further down": ({"image": {"tags": "v1"}}, "at '/image': additional properties 'tags' not allowed"),
    "a word for a number": ({"replicas": "two"}, "at '/replicas': got string, want integer"),
    "half a replica": ({"replicas": 1.5}, "at '/replicas': got number, want integer"),
    "a number for a tag": ({"image": {"tag": 1.1}}, "at '/image/tag': got number, want string"),
    "a word for a switch": ({"crds": {"install": "false"}}, "at '/crds/install': got string, want boolean"),
    "one namespace instead of a list": ({"watchNamespaces": "team-a"}, "at '/watchNamespaces': got string, want array"),
    "a pattern of namespaces": (
        {"watchNamespaces": ["team-*"]},
        "at '/watchNamespaces/0': 'team-*' does not match pattern",
    ),
    "the same namespace twice": ({"watchNamespaces": ["a", "a"]}, "at '/watchNamespaces': items at 0 and 1 are equal"),
    "an unknown log format": ({"logFormat": "xml"}, "at '/logFormat': value must be one of 'json', 'plain'"),
    "a tag for a digest": ({"image": {"digest": "v1"}}, "at '/image/digest': 'v1' does not match pattern"),
    "a digest in the repository": (
        {"image": {"repository": "a@sha256:0"}},
        "at '/image/repository': 'a@sha256:0' does not",
    ),
    "no time between two looks": ({"resyncSeconds": 0}, "at '/resyncSeconds': minimum: got 0, want 1"),
    "an environment without names": ({"extraEnv": [{"value": "x"}]}, "at '/extraEnv/0': missing property 'name'"),
    "a number in the environment": (
        {"extraEnv": [{"name": "A", "value": 1}]},
        "at '/extraEnv/0/value': got number, want",
    ),
    "a number in a label": ({"commonLabels": {"a": 1}}, "at '/commonLabels/a': got number, want string"),
    "secrets by bare name": ({"imagePullSecrets": ["login"]}, "at '/imagePullSecrets/0': got string, want object"),
    "a variable of the chart's": (
        {"extraEnv": [{"name": "POD_ID", "value": "x"}]},
        "extraEnv: POD_ID is set by the chart",
    ),
    "an image by variable": (
        {"extraEnv": [{"name": "MTP_ENGINE_IMAGE", "value": "x"}]},
        "extraEnv: set defaults.engineImage instead of MTP_ENGINE_IMAGE",
    ),
    "no account at all": (
        {"serviceAccount": {"create": False}},
        "serviceAccount.name is empty: name the existing account",
    ),
    "a monitor of nothing": (
        {"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}},
        "metrics.serviceMonitor.enabled needs metrics.service.enabled",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_in_the_values_is_refused_by_its_name(helm: Helm, mistake: str) -> None:
    values, message = REFUSED[mistake]
    with pytest.raises(HelmFailed, match=re.escape(message)):
        helm.template(values)


def test_what_a_parent_chart_passes_down_is_accepted(helm: Helm) -> None:
    assert helm.template({"global": {"registry": "x"}, "enabled": True}) == helm.template()


@pytest.mark.parametrize("path", LEAVES, ids=".".join)
def test_each_value_of_the_schema_stands_in_the_values_file(path: tuple[str, ...]) -> None:
    assert has(DEFAULTS, path)


def test_every_object_of_the_schema_that_names_its_keys_refuses_others() -> None:
    def check(schema: dict[str, Any], path: str) -> None:
        if "properties" in schema:
            assert schema.get("additionalProperties") is False, path
        for name, below in schema.get("properties", {}).items():
            check(below, f"{path}.{name}")
        if isinstance(schema.get("items"), dict):
            check(schema["items"], f"{path}[]")

    check(SCHEMA, "")
