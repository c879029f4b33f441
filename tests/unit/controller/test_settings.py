"""Flags and environment: what they mean, and that a wrong one is named."""

from __future__ import annotations

import kopf
import pytest

from mtp_operator.controller.settings import kopf_settings, parse
from mtp_operator.render.defaults import Defaults


def test_without_flags_the_whole_cluster_is_watched_with_the_images_of_this_release() -> None:
    settings = parse([], {})
    assert settings.namespaces == ()
    assert (settings.metrics_port, settings.probe_port, settings.workers) == (8080, 8081, 8)
    assert settings.defaults == Defaults()
    assert settings.identity


def test_a_deployment_tells_who_and_where_the_pod_is_and_which_images_to_use() -> None:
    environment = {
        "POD_NAME": "mtp-operator-7f",
        "POD_NAMESPACE": "mtp-system",
        "MTP_TRAINER_IMAGE": "registry.example/trainer:1",
        "MTP_ENGINE_IMAGE": "registry.example/vllm:2",
    }
    settings = parse(["--namespace=team-a", "--namespace=team-b"], environment)
    assert (settings.identity, settings.lease_namespace) == ("mtp-operator-7f", "mtp-system")
    assert settings.namespaces == ("team-a", "team-b")
    assert settings.defaults.trainer_image == "registry.example/trainer:1"
    assert settings.defaults.engine_image == "registry.example/vllm:2"


def test_an_empty_variable_is_an_unset_one() -> None:
    """As a Deployment with an optional value renders it."""
    settings = parse([], {"MTP_TRAINER_IMAGE": "", "POD_NAME": "", "POD_NAMESPACE": ""})
    assert settings.defaults == Defaults()
    assert settings.identity


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--workers=0"], "--workers: '0'"),
        (["--workers=many"], "--workers: 'many'"),
        (["--resync=0"], "--resync: '0'"),
        (["--resync=nan"], "--resync: 'nan'"),
        (["--resync=inf"], "--resync: 'inf'"),
        (["--metrics-port=0"], "--metrics-port: '0'"),
        (["--probe-port=65536"], "--probe-port: '65536'"),
        (["--metrics-port=9000", "--probe-port=9000"], "--metrics-port and --probe-port are both 9000"),
        (["--namespace=team-*"], "--namespace: 'team-*'"),
        (["--namespace="], "--namespace: ''"),
        (["--namespace=" + "a" * 64], "not the name of a namespace"),
        (["--log-format=xml"], "--log-format"),
        (["--resyn=5"], "--resyn"),
        (["surplus"], "surplus"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments, {})
    assert ended.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["MTP_TRAINER_IMAGE", "MTP_ENGINE_IMAGE"])
def test_a_wrong_variable_is_named(variable: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([], {variable: "registry.example/trainer:1 # comment"})
    assert f"environment variable {variable}" in capsys.readouterr().err


def test_help_names_every_variable_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"], {})
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for word in ("KUBECONFIG", "POD_NAME", "POD_NAMESPACE", "MTP_TRAINER_IMAGE", "MTP_ENGINE_IMAGE", "(8080)", "(300)"):
        assert word in said


def test_kopf_writes_nothing_looks_for_nothing_and_gets_only_children_of_ours() -> None:
    settings = kopf_settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.watching.client_timeout is not None
    assert settings.watching.server_timeout is not None
    assert settings.watching.client_timeout > settings.watching.server_timeout
    kinds = {kind.any_name for kind in settings.watching.label_selectors}
    assert kinds == {"jobs", "pods", "deployments"}
    assert isinstance(settings, kopf.OperatorSettings)
