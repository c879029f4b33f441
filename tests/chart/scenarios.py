"""The values that are rendered and validated, and where each value of the chart stands in them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from helm_command import CHART

ValuePath = tuple[str, ...]

FILES = sorted((Path(__file__).parent / "values").glob("*.yaml"))
SCENARIOS: dict[str, dict[str, Any]] = {file.stem: yaml.safe_load(file.read_text()) for file in FILES}
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
# Accepted for a parent chart, and without effect.
OF_A_PARENT = {("global",), ("enabled",)}


def leaves(schema: dict[str, Any], path: ValuePath = ()) -> Iterator[ValuePath]:
    """Each value that the schema knows, down to those whose content is Kubernetes' or the user's."""
    for name, below in schema.get("properties", {}).items():
        if "properties" in below:
            yield from leaves(below, (*path, name))
        else:
            yield (*path, name)


LEAVES = [path for path in leaves(SCHEMA) if path not in OF_A_PARENT]


def has(values: dict[str, Any], path: ValuePath) -> bool:
    """Whether something stands there."""
    for name in path:
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def without(values: dict[str, Any], path: ValuePath) -> dict[str, Any]:
    """The same values, with the default there."""
    rest = copy.deepcopy(values)
    parent = rest
    for name in path[:-1]:
        parent = parent[name]
    del parent[path[-1]]
    return rest
