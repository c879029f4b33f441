"""Golden files, and Kubernetes' own types to hold what is rendered against.

``UPDATE_GOLDEN=1`` writes the golden files anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import models

GOLDEN = Path(__file__).parent / "golden"


class _Dumper(yaml.SafeDumper):
    """Configuration files inside a manifest stay readable."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


@pytest.fixture
def golden() -> Callable[[str, Any], None]:
    """Compare with a golden file."""

    def compare(name: str, value: Any) -> None:
        file = GOLDEN / f"{name}.yaml"
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120), encoding="utf-8")
        assert value == yaml.safe_load(file.read_text(encoding="utf-8"))

    return compare


@pytest.fixture
def kubernetes_knows() -> Callable[[dict[str, Any]], None]:
    """Fails on a field that Kubernetes' API doesn't have, or whose value is of another type."""
    return lambda obj: _check(obj, f"V1{obj['kind']}", obj["kind"])


def _check(value: Any, kind: str, path: str) -> None:
    if listed := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        assert isinstance(value, list), path
        for index, item in enumerate(value):
            _check(item, listed[1], f"{path}[{index}]")
    elif mapped := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind):
        assert isinstance(value, dict), path
        for key, item in value.items():
            _check(item, mapped[1], f"{path}.{key}")
    elif kind in ("str", "int", "bool"):
        assert type(value).__name__ == kind, f"{path} is {value!r}, not {kind}"
    elif kind != "object":
        model = getattr(models, kind)
        types = {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
        assert set(value) <= set(types), f"{path}: unknown {set(value) - set(types)}"
        for key, item in value.items():
            _check(item, types[key], f"{path}.{key}")
