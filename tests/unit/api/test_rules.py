"""Every rule in its Python form, on the same manifests that the cluster tier gives to a real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mtp_operator.api.crd import open_api_schema
from mtp_operator.api.engine import option_name
from mtp_operator.api.kinds import KINDS
from mtp_operator.api.validation import InvalidManifest, check_update, parse, with_defaults

MANIFESTS = Path(__file__).parents[2] / "cluster" / "manifests"
GOOD = sorted((MANIFESTS / "good").glob("*.yaml"))
BAD = sorted((MANIFESTS / "bad").glob("*.yaml"))


def apply_all(path: Path) -> None:
    """Store each document over the one before, as a person's repeated ``kubectl apply`` does."""
    old = None
    for manifest in yaml.safe_load_all(path.read_text()):
        new = with_defaults(manifest)
        parse(new)
        if old is not None:
            check_update(old, new)
        old = new


def expectation(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("# expect: ")


def messages(schema: dict[str, Any]) -> Iterator[str]:
    yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", []))
    for field in schema.get("properties", {}).values():
        yield from messages(field)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from messages(schema[key])


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_manifest_is_accepted(path: Path) -> None:
    apply_all(path)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_manifest_is_refused_with_its_message(path: Path) -> None:
    with pytest.raises(InvalidManifest) as caught:
        apply_all(path)
    assert expectation(path) in str(caught.value)


def test_every_rule_has_a_bad_manifest() -> None:
    expected = [expectation(path) for path in BAD]
    for model in KINDS:
        for message in messages(open_api_schema(model)):
            assert any(text in message for text in expected), message


def test_every_message_says_what_to_write_instead() -> None:
    remedies = ("write", "set", "leave", "shorten", "use", "raise", "make", "order", "create", "begin", "add", "goes")
    for model in KINDS:
        for message in messages(open_api_schema(model)):
            assert any(word in message for word in remedies), message


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("--port=1", "--port"),
        ("--max_model_len", "--max-model-len"),
        ("--speculative-config.method=mtp", "--speculative-config"),
        ("-tp", "-tp"),
        ("value", "value"),
    ],
)
def test_an_argument_is_named_as_vllm_reads_it(argument: str, name: str) -> None:
    assert option_name(argument) == name
