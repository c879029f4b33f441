"""The models of both kinds: what they read, what they fill in, what they refuse."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from mtp_operator.api import MTPFineTune, SpecDecodeServing
from mtp_operator.api.common import parse_duration
from mtp_operator.api.validation import InvalidManifest, check_update, parse, with_defaults

QUICKSTART = Path(__file__).parents[3] / "examples" / "quickstart"


def fine_tune(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "specdecode.dev/v1alpha1",
        "kind": "MTPFineTune",
        "metadata": {"name": "run"},
        "spec": {
            "verifier": {"uri": "pvc://models/verifier"},
            "dataset": {"uri": "pvc://data/train.jsonl"},
            "evaluation": {"dataset": {"uri": "pvc://data/heldout.jsonl"}},
            "workspace": {"storage": "20Gi"},
            "output": {"path": "pvc://heads/run"},
            **spec,
        },
    }


@pytest.mark.parametrize("name", ["mtpfinetune.yaml", "specdecodeserving.yaml"])
def test_the_quickstart_survives_a_round_trip_through_the_models(name: str) -> None:
    manifest = with_defaults(yaml.safe_load((QUICKSTART / name).read_text()))
    written = parse(manifest).manifest()
    for field, value in manifest["spec"].items():
        assert _contains(written["spec"][field], value), field


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return all(key in whole and _contains(whole[key], value) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(_contains(a, b) for a, b in zip(whole, part, strict=True))
    return bool(whole == part)


def test_the_schemas_defaults_are_the_models_defaults() -> None:
    bare = fine_tune()
    assert MTPFineTune.model_validate(bare).spec == MTPFineTune.model_validate(with_defaults(bare)).spec
    serving = {"kind": "SpecDecodeServing", "metadata": {"name": "a"}, "spec": {"model": {"uri": "pvc://m"}}}
    assert (
        SpecDecodeServing.model_validate(serving).spec == SpecDecodeServing.model_validate(with_defaults(serving)).spec
    )


def test_a_new_objects_status_says_that_nothing_was_observed() -> None:
    assert with_defaults(fine_tune())["status"] == {"observedGeneration": -1}


def test_filling_in_defaults_leaves_the_manifest_as_it_was() -> None:
    manifest = fine_tune()
    with_defaults(manifest)
    assert manifest == fine_tune()


def test_every_problem_of_a_manifest_is_named_at_once() -> None:
    with pytest.raises(InvalidManifest) as caught:
        parse(fine_tune(nodes="two", colour="red", workspace={}))
    assert len(caught.value.problems) == 3


def test_a_float_where_a_decimal_string_belongs_is_refused_by_name() -> None:
    with pytest.raises(InvalidManifest, match=r"spec\.training\.learningRate.*must be of type string"):
        parse(fine_tune(training={"learningRate": 1e-4}))


def test_a_status_of_a_newer_operator_is_readable() -> None:
    manifest = fine_tune() | {"status": {"observedGeneration": 3, "mood": "good"}}
    assert MTPFineTune.model_validate(manifest).status.observed_generation == 3


def test_suspend_and_ttl_may_change_and_nothing_else() -> None:
    old = with_defaults(fine_tune())
    check_update(old, with_defaults(fine_tune(suspend=True, ttlSecondsAfterFinished=5)))
    with pytest.raises(InvalidManifest, match=r"spec\.nodes cannot change"):
        check_update(old, with_defaults(fine_tune(nodes=2)))


@pytest.mark.parametrize(("text", "seconds"), [("45s", 45), ("5m", 300), ("1h30m", 5400), ("1m30s", 90)])
def test_durations_are_read_as_seconds(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds
