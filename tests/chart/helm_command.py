"""The real helm, without the settings, plugins and repositories of whoever runs the tests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
Values = Mapping[str, Any]

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "mtp-operator"
RELEASE = "mtp-operator"
NAMESPACE = "mtp-system"


class HelmFailed(Exception):
    """helm ended with another status than 0; the text is what it said."""


@dataclass(frozen=True)
class Helm:
    """One installed helm.

    Attributes:
        program: the executable.
        home: folder for its own files.
        kubeconfig: of the cluster it talks to; a missing file where it has none.
    """

    program: Path
    home: Path
    kubeconfig: Path

    def run(self, *arguments: str | Path, values: Values | None = None) -> str:
        """What it says on standard output.

        Raises:
            HelmFailed: with both streams.
        """
        given = () if values is None else ("--values", "-")
        ended = subprocess.run(
            [self.program, *arguments, *given],
            input=None if values is None else json.dumps(values),
            capture_output=True,
            text=True,
            check=False,
            env=self._environment(),
        )
        if ended.returncode != 0:
            raise HelmFailed(ended.stdout + ended.stderr)
        return ended.stdout

    def template(
        self, values: Values | None = None, *flags: str, release: str = RELEASE, chart: Path = CHART
    ) -> list[Object]:
        """Objects that an install would make."""
        return documents(self.template_text(values, *flags, release=release, chart=chart))

    def template_text(
        self, values: Values | None = None, *flags: str, release: str = RELEASE, chart: Path = CHART
    ) -> str:
        """The same as YAML."""
        return self.run("template", release, chart, f"--namespace={NAMESPACE}", *flags, values=values)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "XDG_", "KUBE"))}
        folders = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return {**kept, **folders, "KUBECONFIG": str(self.kubeconfig)}


def documents(text: str) -> list[Object]:
    """Objects of a YAML stream; comments alone make none. libyaml's loader, since the CRDs are long."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """Objects of one kind, in their order."""
    return [obj for obj in objects if obj["kind"] == kind]


def only(objects: Sequence[Object], kind: str) -> Object:
    """The one object of a kind."""
    (found,) = of_kind(objects, kind)
    return found
