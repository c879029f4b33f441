"""A real API server takes what is rendered, strictly, and Pod Security "restricted" has nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.control_plane import ControlPlane
from helm_command import Helm
from scenarios import SCENARIOS, without

MONITORS = Path(__file__).parent / "service_monitor_crd.yaml"
DRY_RUN = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")


@pytest.fixture(scope="module", autouse=True)
def monitors(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "-f", str(MONITORS))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_api_server_takes_every_object(helm: Helm, plane: ControlPlane, scenario: str) -> None:
    said = plane.kubectl(*DRY_RUN, text=helm.template_text(SCENARIOS[scenario])).splitlines()
    assert len(said) == len(helm.template(SCENARIOS[scenario]))
    assert all(line.endswith(" serverside-applied (server dry run)") for line in said), said


@pytest.mark.parametrize("release", ["r" * 53, "2026"])
def test_the_name_of_a_release_may_be_long_or_a_number(helm: Helm, plane: ControlPlane, release: str) -> None:
    values = without(SCENARIOS["everything"], ("fullnameOverride",))
    said = plane.kubectl(*DRY_RUN, text=helm.template_text(values, release=release))
    assert f"deployment.apps/{release}" in said


def test_a_pod_with_more_rights_would_have_been_told_of(helm: Helm, plane: ControlPlane) -> None:
    said = plane.kubectl(*DRY_RUN, text=helm.template_text({"containerSecurityContext": {"capabilities": None}}))
    assert 'Warning: would violate PodSecurity "restricted' in said
