"""The main chart: acceptance at each position, shipped against tuned, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from mtp_trainer.measurements import Interval
from mtp_trainer.report.charts import svg
from mtp_trainer.report.charts.scale import Scale
from mtp_trainer.report.numbers import points, share, share_range

WIDTH, GROUP = 880.0, 112.0
"""Usual width, and the least that a position needs: the labels of two bars side by side."""

WIDEST_BAR, GAP = 76.0, 6.0

LEFT, RIGHT, PLOT, LEGEND, BELOW = 46.0, 2.0, 270.0, 56.0, 50.0
DIAMOND, LABEL = 5.0, 12.0
"""Half the width of a marker, and the height of a label."""


@dataclass(frozen=True)
class Bars:
    """One head."""

    name: str
    style: str
    """CSS class: ``shipped`` or ``tuned``."""
    rates: tuple[Interval, ...]
    predicted: tuple[float, ...] = ()
    """What training predicted offline; small markers, left out where it has none."""


def acceptance_chart(identity: str, title: str, shipped: Bars, tuned: Bars, heading: Sequence[str] = ()) -> ET.Element:
    """Two bars per position with whiskers, labelled with their values.

    Args:
        identity: prefix of ids in the page.
        title: for screen readers.
        heading: visible lines above the chart, the first in bold, for a chart that stands alone.
    """
    depth = max(len(shipped.rates), len(tuned.rates))
    head = 25.0 * len(heading) + (18 if heading else 0)
    width = max(WIDTH, LEFT + GROUP * depth + RIGHT)
    bottom = head + LEGEND + PLOT
    root = svg.chart(identity, width, bottom + BELOW, title, description(shipped, tuned))
    for number, line in enumerate(heading):
        svg.add(root, "text", line, x=0, y=20 + 25 * number, class_="heading" if number == 0 else "subheading")
    scale = Scale(0.0, 1.0, bottom, bottom - PLOT)
    _legend(root, head + 14, shipped, tuned)
    for percent in range(0, 101, 20):
        y = scale(percent / 100)
        svg.add(root, "line", x1=LEFT, x2=width - RIGHT, y1=y, y2=y, class_="grid" if percent else "base")
        svg.add(root, "text", f"{percent}%", x=LEFT - 8, y=y + 4, class_="tick", text_anchor="end")
    step = (width - LEFT - RIGHT) / max(1, depth)
    thick = min(WIDEST_BAR, (step * 0.72 - GAP) / 2)
    for position in range(depth):
        middle = LEFT + step * (position + 0.5)
        for bars, left in ((shipped, middle - GAP / 2 - thick), (tuned, middle + GAP / 2)):
            if position < len(bars.rates):
                _bar(root, bars, position, left, thick, scale)
        svg.add(root, "text", f"position {position}", x=middle, y=bottom + 21, class_="name", text_anchor="middle")
        if position < min(len(shipped.rates), len(tuned.rates)):
            difference = tuned.rates[position].value - shipped.rates[position].value
            svg.add(
                root, "text", f"{points(difference)} pts", x=middle, y=bottom + 40, class_="tick", text_anchor="middle"
            )
    return root


def description(shipped: Bars, tuned: Bars) -> str:
    """The chart in words, with every figure."""
    sentences = []
    for bars in (shipped, tuned):
        said = [
            f"position {i}: {share(rate.value)} (95% interval {share_range(rate)})" for i, rate in enumerate(bars.rates)
        ]
        sentences.append(f"{bars.name}: {'; '.join(said) or 'nothing measured'}.")
        if bars.predicted:
            sentences.append(f"Predicted offline: {', '.join(share(rate) for rate in bars.predicted)}.")
    return " ".join(sentences)


def _bar(root: ET.Element, bars: Bars, position: int, left: float, thick: float, scale: Scale) -> None:
    rate, middle = bars.rates[position], left + thick / 2
    group = svg.add(root, "g")
    said = f"{bars.name}, position {position}: {share(rate.value)}, 95% interval {share_range(rate)}"
    predicted = bars.predicted[position] if position < len(bars.predicted) else None
    svg.add(group, "title", said if predicted is None else f"{said}; predicted offline: {share(predicted)}")
    top = scale(rate.value)
    svg.add(group, "rect", x=left, y=top, width=thick, height=scale(0) - top, class_=f"bar {bars.style}")
    low, high = scale(rate.low), scale(rate.high)
    whisker = f"M{svg.number(middle)} {svg.number(low)}V{svg.number(high)}"
    caps = "".join(f"M{svg.number(middle - 5)} {svg.number(y)}h10" for y in (low, high))
    svg.add(group, "path", d=whisker + caps, class_="whisker")
    label = min(high, top) - 7
    if predicted is not None:
        place = scale(predicted)
        # Beside the whisker; a label that would lie on the marker moves above it.
        diamond(group, left + thick - 9, place)
        if place - DIAMOND < label + 4 and place + DIAMOND > label - LABEL:
            label = place - DIAMOND - 4
    svg.add(group, "text", share(rate.value), x=middle, y=label, class_="value", text_anchor="middle")


def diamond(parent: ET.Element, x: float, y: float) -> None:
    """The marker of a prediction."""
    svg.add(
        parent,
        "path",
        d=f"M{svg.number(x)} {svg.number(y - DIAMOND)}l{DIAMOND:g} {DIAMOND:g}l-{DIAMOND:g} {DIAMOND:g}"
        f"l-{DIAMOND:g} -{DIAMOND:g}z",
        class_="predicted",
    )


def _legend(root: ET.Element, y: float, shipped: Bars, tuned: Bars) -> None:
    x = LEFT
    for bars in (shipped, tuned):
        svg.add(root, "rect", x=x, y=y - 11, width=13, height=13, class_=f"bar {bars.style}")
        x = _entry(root, x + 20, y, bars.name)
    svg.add(
        root,
        "path",
        d=f"M{svg.number(x + 6)} {svg.number(y - 12)}v15m-5 0h10m-10 -15h10",
        class_="whisker",
    )
    x = _entry(root, x + 18, y, "95% interval")
    if shipped.predicted or tuned.predicted:
        diamond(root, x + 6, y - 4.5)
        _entry(root, x + 18, y, "predicted offline")


def _entry(root: ET.Element, x: float, y: float, text: str) -> float:
    """Write a legend's word; returns where the next entry begins (about 7 units a letter)."""
    svg.add(root, "text", text, x=x, y=y, class_="legend")
    return x + 7.0 * len(text) + 22
