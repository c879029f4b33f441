"""The generated files, and the shape that Kubernetes wants of a schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mtp_operator.api.conditions import FineTuneReason
from mtp_operator.api.crd import definition, open_api_schema
from mtp_operator.api.docs import reference
from mtp_operator.api.generate import main, stale
from mtp_operator.api.kinds import KINDS, MTPFineTune, SpecDecodeServing
from mtp_trainer.contract import Reason

ROOT = Path(__file__).parents[3]


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from walk(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from walk(schema[key], f"{path}[]")


def test_generated_files_are_fresh() -> None:
    assert stale(ROOT) == []


def test_a_stale_file_fails_the_check_and_names_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path)]) == 0
    (tmp_path / "docs" / "api.md").write_text("old")
    assert main(["--root", str(tmp_path), "--check"]) == 1
    assert "docs/api.md is stale" in capsys.readouterr().err


@pytest.mark.parametrize("model", KINDS)
def test_schemas_are_structural(model: type[MTPFineTune] | type[SpecDecodeServing]) -> None:
    for path, schema in walk(open_api_schema(model)):
        assert "$ref" not in schema, path
        assert schema.get("additionalProperties") is not False, path
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path
        assert schema.get("type") != "number", f"{path}: no floats in the API"
        assert schema.get("default", 0) is not None, path


@pytest.mark.parametrize("model", KINDS)
def test_every_field_has_a_description(model: type[MTPFineTune] | type[SpecDecodeServing]) -> None:
    for path, schema in walk(open_api_schema(model)):
        if "[]" not in path.rsplit(".", 1)[-1] and path not in ("", ".metadata"):
            assert schema.get("description"), path


def test_each_reason_of_the_trainer_is_a_reason_of_the_fine_tune() -> None:
    assert {reason.value for reason in Reason} <= {reason.value for reason in FineTuneReason}


def test_a_serving_can_be_scaled() -> None:
    version = definition(SpecDecodeServing)["spec"]["versions"][0]
    assert version["subresources"]["scale"]["labelSelectorPath"] == ".status.selector"


def test_the_reference_names_every_reason() -> None:
    page = reference()
    assert all(f"`{reason}`" in page for reason in FineTuneReason)
