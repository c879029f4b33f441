"""Curves and interval rows: ends, ranges, and what is said in words."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from mtp_trainer.report.charts import intervals, lines
from mtp_trainer.report.charts.intervals import Row, interval_chart
from mtp_trainer.report.charts.lines import Line, envelope, line_chart
from mtp_trainer.report.charts.scale import Scale
from mtp_trainer.report.charts.svg import markup

BOTTOM = lines.TOP + lines.PLOT


def written(value: float) -> str:
    return f"<{value:.2f}>"


def draw_lines(*drawn: Line, **more: object) -> ET.Element:
    return ET.fromstring(markup(line_chart("l", "Title", "Words", drawn, (0.0, 2.0), written, **more)))  # type: ignore[arg-type]


def points_of(path: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path.get("d", ""))]


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [e for e in root.iter() if name in e.get("class", "").split()]


def test_a_line_goes_through_its_points() -> None:
    root = draw_lines(Line("one", "position-0", [(0, 0.0), (50, 1.0), (100, 2.0)], marked=True))
    (path,) = of_class(root, "line")
    middle = (lines.LEFT + lines.WIDTH - lines.RIGHT) / 2
    expected = [(lines.LEFT, BOTTOM), (middle, BOTTOM - lines.PLOT / 2), (lines.WIDTH - lines.RIGHT, lines.TOP)]
    assert points_of(path) == [pytest.approx(place) for place in expected]
    assert [(float(m.get("cx", "")), float(m.get("cy", ""))) for m in of_class(root, "mark")] == points_of(path)


def test_lines_are_named_with_their_last_value() -> None:
    root = draw_lines(
        Line("one", "position-0", [(0, 0.0), (10, 1.0)]), Line("two", "position-1", [(0, 2.0), (10, 1.01)])
    )
    ends = of_class(root, "end")
    assert ["".join(end.itertext()) for end in ends] == ["one <1.00>", "two <1.01>"]
    first, second = (float(end.get("y", "")) for end in ends)
    assert first - second >= 17.9


def test_a_rule_stands_at_its_step() -> None:
    root = draw_lines(Line("one", "total", [(0, 0.0), (100, 1.0)]), rule=(25.0, "kept"))
    (rule,) = of_class(root, "reference")
    quarter = lines.LEFT + (lines.WIDTH - lines.RIGHT - lines.LEFT) / 4
    assert float(rule.get("x1", "")) == pytest.approx(quarter, abs=0.01)
    assert "kept" in list(root.itertext())


def test_a_long_run_keeps_its_extremes_in_few_points() -> None:
    values = [(float(i), 1.0 + 0.001 * (i % 7)) for i in range(20_000)]
    values[12_345], values[777] = (12_345.0, 9.0), (777.0, -3.0)
    kept = envelope(values, 450)
    assert len(kept) <= 450
    assert kept == sorted(kept)
    assert (12_345.0, 9.0) in kept
    assert (777.0, -3.0) in kept


def test_a_short_run_is_drawn_whole() -> None:
    values = [(float(i), float(i % 3)) for i in range(100)]
    assert envelope(values, 450) == values


@pytest.fixture
def rows() -> ET.Element:
    chart = interval_chart(
        "i",
        "Title",
        [
            Row("shipped", "shipped", 2.0, 1.5, 2.5, "2.0 (1.5 to 2.5)"),
            Row("tuned", "tuned", 3.0, None, None, "3.0", dots=(2.75, 3.25)),
        ],
        (1.0, 4.0),
        (1, 2, 3, 4),
        written,
        (1.25, "reference"),
    )
    return ET.fromstring(markup(chart))


AXIS = Scale(1.0, 4.0, intervals.LEFT, intervals.WIDTH - intervals.RIGHT)


def test_dots_whiskers_and_reference_stand_at_their_values(rows: ET.Element) -> None:
    assert [float(dot.get("cx", "")) for dot in of_class(rows, "dot")] == pytest.approx(
        [AXIS(2.0), AXIS(3.0)], abs=0.01
    )
    assert [float(dot.get("cx", "")) for dot in of_class(rows, "single")] == pytest.approx(
        [AXIS(2.75), AXIS(3.25)], abs=0.01
    )
    (whisker,) = of_class(rows, "whisker")
    found = re.match(r"M([\d.]+) [\d.]+H([\d.]+)", whisker.get("d", ""))
    assert found is not None
    assert [float(x) for x in found.groups()] == pytest.approx([AXIS(1.5), AXIS(2.5)], abs=0.01)
    (reference,) = of_class(rows, "reference")
    assert float(reference.get("x1", "")) == pytest.approx(AXIS(1.25), abs=0.01)


def test_the_axis_names_its_marks(rows: ET.Element) -> None:
    named = [(tick.text, float(tick.get("x", ""))) for tick in of_class(rows, "tick") if "<" in (tick.text or "")]
    assert named == [(written(mark), pytest.approx(AXIS(mark), abs=0.01)) for mark in (1, 2, 3, 4)]


def test_rows_are_said_in_words(rows: ET.Element) -> None:
    assert rows.findtext("desc") == "shipped: 2.0 (1.5 to 2.5). tuned: 3.0."
    assert ["".join(name.itertext()) for name in of_class(rows, "name")] == ["shipped 2.0 (1.5 to 2.5)", "tuned 3.0"]
