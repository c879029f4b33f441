"""From a workspace to the report's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtp_trainer.contract import Workspace
from mtp_trainer.report.figures import read_figures
from mtp_trainer.report.page import render_page
from mtp_trainer.report.pictures import standalone_picture
from mtp_trainer.storage import write_file


def write_report(workspace: Workspace, configuration: Mapping[str, Any]) -> Path:
    """Write the page, and the configuration beside it, so that the page can be written again.

    Args:
        configuration: what the evaluate stage was asked to do, as JSON values.

    Raises:
        StageError: ``ConfigInvalid`` without measurements; ``DiskFull`` or ``OutputNotWritable``.
    """
    page = render_page(read_figures(workspace, configuration))
    write_file(_configuration(workspace), json.dumps(configuration, indent=1, default=str) + "\n")
    write_file(workspace.report, page)
    return workspace.report


def write_chart(workspace: Workspace, path: Path) -> None:
    """Write the main chart alone, as SVG.

    Raises:
        StageError: as :func:`write_report`.
    """
    write_file(path, standalone_picture(read_figures(workspace, {}).measurements))


def known_configuration(workspace: Workspace) -> dict[str, Any]:
    """What the last :func:`write_report` was given; empty where that isn't known."""
    try:
        known = json.loads(_configuration(workspace).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _configuration(workspace: Workspace) -> Path:
    return workspace.report.with_name("configuration.json")
