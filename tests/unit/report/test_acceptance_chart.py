"""Bars, whiskers and markers stand where the values are."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree as ET

import pytest

from mtp_trainer.measurements import Interval
from mtp_trainer.report.charts.acceptance import DIAMOND, Bars, acceptance_chart
from mtp_trainer.report.charts.svg import markup


def rate(value: float, reach: float = 0.03) -> Interval:
    return Interval(value=value, low=value - reach, high=value + reach)


SHIPPED = Bars("shipped head", "shipped", (rate(0.8), rate(0.5, 0.01), rate(0.25)), (0.82, 0.4))
TUNED = Bars("tuned head", "tuned", (rate(0.85), rate(0.7), rate(0.0, 0.0)))


def draw(shipped: Bars = SHIPPED, tuned: Bars = TUNED, **more: tuple[str, ...]) -> ET.Element:
    """As a reader of the page gets it: through text."""
    return ET.fromstring(markup(acceptance_chart("a", "Acceptance", shipped, tuned, **more)))


def styled(root: ET.Element, tag: str, *classes: str) -> list[ET.Element]:
    return [e for e in root.iter(tag) if set(classes) <= set(e.get("class", "").split())]


def ends_of_scale(root: ET.Element) -> tuple[float, float]:
    """Places of 0% and 100%, from the lines that say so."""
    (base,) = styled(root, "line", "base")
    return float(base.get("y1", "")), min(float(line.get("y1", "")) for line in styled(root, "line", "grid"))


def share_at(root: ET.Element, y: float) -> float:
    zero, one = ends_of_scale(root)
    return (zero - y) / (zero - one)


def groups(root: ET.Element, name: str) -> list[ET.Element]:
    return [g for g in root.iter("g") if (g.findtext("title") or "").startswith(name)]


@pytest.mark.parametrize("bars", [SHIPPED, TUNED], ids=["shipped", "tuned"])
def test_a_bar_is_as_high_as_its_value(bars: Bars) -> None:
    root = draw()
    drawn = groups(root, bars.name)
    assert len(drawn) == len(bars.rates)
    for group, expected in zip(drawn, bars.rates, strict=True):
        (bar,) = styled(group, "rect", "bar", bars.style)
        top, height = float(bar.get("y", "")), float(bar.get("height", ""))
        assert top + height == pytest.approx(ends_of_scale(root)[0], abs=0.02)
        assert share_at(root, top) == pytest.approx(expected.value, abs=1e-4)


@pytest.mark.parametrize("bars", [SHIPPED, TUNED], ids=["shipped", "tuned"])
def test_a_whisker_reaches_from_the_low_end_to_the_high_end(bars: Bars) -> None:
    root = draw()
    for group, expected in zip(groups(root, bars.name), bars.rates, strict=True):
        (whisker,) = styled(group, "path", "whisker")
        found = re.match(r"M([\d.]+) ([\d.]+)V([\d.]+)", whisker.get("d", ""))
        assert found is not None
        middle, low, high = map(float, found.groups())
        assert share_at(root, low) == pytest.approx(expected.low, abs=1e-4)
        assert share_at(root, high) == pytest.approx(expected.high, abs=1e-4)
        (bar,) = styled(group, "rect", "bar")
        assert middle == pytest.approx(float(bar.get("x", "")) + float(bar.get("width", "")) / 2, abs=0.02)


def test_predictions_are_marked_where_there_are_some() -> None:
    root = draw()
    marked = [styled(group, "path", "predicted") for group in groups(root, "shipped head")]
    assert [len(found) for found in marked] == [1, 1, 0]
    for (marker,), expected in zip(marked[:2], SHIPPED.predicted, strict=True):
        top = float(marker.get("d", "").split("l")[0].split()[1])
        assert share_at(root, top + DIAMOND) == pytest.approx(expected, abs=1e-4)
    assert not any(styled(group, "path", "predicted") for group in groups(root, "tuned head"))


def test_the_legend_speaks_of_predictions_only_with_some() -> None:
    assert "predicted offline" in "".join(draw().itertext())
    without = Bars(SHIPPED.name, SHIPPED.style, SHIPPED.rates)
    assert "predicted offline" not in "".join(draw(without).itertext())


@pytest.mark.parametrize("predicted", [0.2, 0.5, 0.53, 0.56, 0.58, 0.62, 0.9])
def test_a_label_never_lies_on_a_marker(predicted: float) -> None:
    root = draw(Bars("shipped head", "shipped", (rate(0.5),), (predicted,)))
    (group,) = groups(root, "shipped head")
    (label,), (marker,) = styled(group, "text", "value"), styled(group, "path", "predicted")
    top = float(marker.get("d", "").split("l")[0].split()[1])
    baseline = float(label.get("y", ""))
    assert baseline <= top or baseline - 10 >= top + 2 * DIAMOND


def test_every_value_is_written_at_its_bar_and_in_the_description() -> None:
    root = draw()
    labels = [text.text for text in styled(root, "text", "value")]
    assert sorted(filter(None, labels)) == sorted(["80.0%", "85.0%", "50.0%", "70.0%", "25.0%", "0.0%"])
    said = root.findtext("desc") or ""
    for figure in ("80.0%", "77.0% to 83.0%", "82.0%", "40.0%", "67.0% to 73.0%", "0.0% to 0.0%"):
        assert figure in said


def test_differences_stand_below_the_positions() -> None:
    text = list(draw().itertext())
    assert "+5.0 pts" in text
    assert "+20.0 pts" in text
    assert "−25.0 pts" in text


def test_a_screen_reader_finds_title_and_description() -> None:
    root = draw()
    named = {e.get("id"): e.text for e in root}
    assert root.get("role") == "img"
    for identity in root.get("aria-labelledby", "").split():
        assert named[identity]


@pytest.mark.parametrize("depth", range(1, 9))
def test_all_bars_are_inside_and_apart_at_every_depth(depth: int) -> None:
    bars = [Bars(name, name, (rate(0.5),) * depth) for name in ("shipped", "tuned")]
    root = draw(*bars)
    width = float(root.get("viewBox", "").split()[2])
    places = sorted(
        (float(bar.get("x", "")), float(bar.get("x", "")) + float(bar.get("width", "")))
        for group in root.iter("g")
        for bar in styled(group, "rect", "bar")
    )
    assert len(places) == 2 * depth
    assert places[0][0] > 0
    assert places[-1][1] < width
    assert all(right <= left for (_, right), (left, _) in itertools.pairwise(places))
    # A label of five digits and signs, centred on its bar, is about 38 wide.
    middles = [(left + right) / 2 for left, right in places]
    assert all(b - a >= 38 for a, b in itertools.pairwise(middles))


def test_heads_of_different_depth_are_drawn_side_by_side() -> None:
    root = draw(Bars("shipped head", "shipped", (rate(0.8),)), TUNED)
    assert len(groups(root, "shipped head")) == 1
    assert len(groups(root, "tuned head")) == 3
    assert [text for text in root.itertext() if text.endswith("pts")] == ["+5.0 pts"]


def test_a_head_that_drafted_nothing_says_so() -> None:
    root = draw(Bars("shipped head", "shipped", ()), Bars("tuned head", "tuned", ()))
    assert root.findtext("desc") == "shipped head: nothing measured. tuned head: nothing measured."


def test_a_heading_moves_the_plot_down() -> None:
    plain, headed = draw(), draw(heading=("First & <b>", "second"))
    assert [t.text for t in styled(headed, "text", "heading")] == ["First & <b>"]
    assert ends_of_scale(headed)[1] > ends_of_scale(plain)[1] + 40
    assert share_at(headed, ends_of_scale(headed)[1]) == 1
