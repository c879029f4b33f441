"""The report's files: page, configuration, and the chart that stands alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mtp_trainer.contract import ExitCode, Workspace
from mtp_trainer.report import write_report
from mtp_trainer.report.__main__ import main
from mtp_trainer.report.charts.svg import NAMESPACE
from mtp_trainer.report.theme import DARK, LIGHT, chart_css

Finished = Callable[..., Workspace]
SVG = f"{{{NAMESPACE}}}"


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_command_writes_page_and_chart(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace, chart = finished(), tmp_path / "docs" / "chart.svg"
    assert main(["--workspace", str(workspace.root), "--chart", str(chart)]) == ExitCode.DONE
    assert capsys.readouterr().out.splitlines() == [str(workspace.report), str(chart)]
    assert workspace.report.read_text().startswith("<!DOCTYPE html>")
    assert ET.parse(chart).getroot().tag == f"{SVG}svg"


def test_the_command_writes_the_same_page_again(finished: Finished) -> None:
    workspace = finished()
    write_report(workspace, {"verifier": {"uri": "pvc://models/qwen"}, "seed": 7})
    page = workspace.report.read_text()
    workspace.report.unlink()
    assert main(["--workspace", str(workspace.root)]) == ExitCode.DONE
    assert workspace.report.read_text() == page


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_a_configuration_that_cannot_be_read_is_left_out(finished: Finished, content: str) -> None:
    workspace = finished()
    workspace.report.with_name("configuration.json").write_text(content)
    assert main(["--workspace", str(workspace.root)]) == ExitCode.DONE
    assert 'id="configuration"' not in workspace.report.read_text()


def test_the_command_names_missing_measurements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workspace", str(tmp_path), "--chart", str(tmp_path / "c.svg")]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert f"ConfigInvalid: {tmp_path}/evaluate/measurements.json: not there; run the evaluate stage first" in said
    assert list(tmp_path.rglob("*")) == []


def test_the_configuration_lies_beside_the_page(finished: Finished) -> None:
    workspace = finished()
    write_report(workspace, {"seed": 7})
    assert json.loads((workspace.report.parent / "configuration.json").read_text()) == {"seed": 7}


def test_the_chart_alone_has_its_own_background_and_needs_nothing(finished: Finished, tmp_path: Path) -> None:
    main(["--workspace", str(finished().root), "--chart", str(tmp_path / "chart.svg")])
    text = (tmp_path / "chart.svg").read_text()
    root = ET.fromstring(text)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    card = next(root.iter(f"{SVG}rect"))
    assert card.get("class") == "card"
    assert (float(card.get("width", "")), float(card.get("height", ""))) == (width - 1, height - 1)
    style = next(root.iter(f"{SVG}style")).text or ""
    assert f".chart .card {{ fill: {LIGHT['paper']};" in style
    assert "var(" not in text
    assert re.findall(r"https?://[^\"]+", text) == [NAMESPACE]
    said = " ".join(root.itertext())
    for figure in ("Mean acceptance length 2.557 → 3.133", "78.3%", "59.2%", "+29.7 pts", "128 held-out prompts"):
        assert figure in said
    named = {e.get("id"): e.text for e in root}
    assert all(named[identity] for identity in root.get("aria-labelledby", "").split())


def test_the_chart_alone_follows_a_dark_screen() -> None:
    light, dark = chart_css().split("@media (prefers-color-scheme: dark)")
    assert LIGHT["tuned"] in light
    assert DARK["tuned"] not in light
    assert DARK["tuned"] in dark
    assert LIGHT["paper"] not in dark


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_marks_can_be_told_from_their_background(colours: dict[str, str]) -> None:
    for text in ("ink", "quiet", "tuned", "pass", "fail", *(f"position-{i}" for i in range(8))):
        assert contrast(colours[text], colours["paper"]) >= 4.5, text
    assert contrast(colours["pass"], colours["pass-panel"]) >= 4.5
    assert contrast(colours["fail"], colours["fail-panel"]) >= 4.5
    # Bars lie beside each other: grey against blue must differ in more than hue.
    assert contrast(colours["shipped"], colours["tuned"]) >= 1.5
    assert min(contrast(colours[head], colours["paper"]) for head in ("shipped", "tuned")) >= 3


def test_both_schemes_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
