"""Values with their intervals on one axis: a dot, a whisker, the figures in words beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from mtp_trainer.report.charts import svg
from mtp_trainer.report.charts.scale import Scale

WIDTH, ROW, TOP, AXIS = 460.0, 52.0, 24.0, 30.0
LEFT, RIGHT = 14.0, 14.0


@dataclass(frozen=True)
class Row:
    """One value."""

    name: str
    style: str
    """CSS class of the dot."""
    value: float
    low: float | None
    high: float | None
    said: str
    """The figures in words."""
    dots: tuple[float, ...] = ()
    """Single measurements behind the value."""


def interval_chart(
    identity: str,
    title: str,
    rows: Sequence[Row],
    between: tuple[float, float],
    marks: Sequence[float],
    written: Callable[[float], str],
    reference: tuple[float, str] | None = None,
) -> ET.Element:
    """Rows over an axis from ``between[0]`` to ``between[1]``.

    Args:
        marks: values that the axis names.
        written: how it writes them.
        reference: a value that others are read against, and its name.
    """
    bottom = TOP + ROW * len(rows)
    words = ". ".join(f"{row.name}: {row.said}" for row in rows)
    root = svg.chart(identity, WIDTH, bottom + AXIS, title, f"{words}.")
    scale = Scale(*between, LEFT, WIDTH - RIGHT)
    for mark in marks:
        x = scale(mark)
        svg.add(root, "line", x1=x, x2=x, y1=TOP, y2=bottom, class_="grid")
        svg.add(root, "text", written(mark), x=x, y=bottom + 18, class_="tick", text_anchor="middle")
    svg.add(root, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom, class_="base")
    if reference is not None:
        x = scale(reference[0])
        svg.add(root, "line", x1=x, x2=x, y1=TOP - 6, y2=bottom, class_="reference")
        anchor = "start" if x < WIDTH * 0.3 else "end" if x > WIDTH * 0.7 else "middle"
        svg.add(root, "text", reference[1], x=x, y=TOP - 11, class_="tick", text_anchor=anchor)
    for number, row in enumerate(rows):
        _row(root, row, TOP + ROW * (number + 0.5) + 9, scale)
    return root


def _row(root: ET.Element, row: Row, y: float, scale: Scale) -> None:
    group = svg.add(root, "g")
    svg.add(group, "title", f"{row.name}: {row.said}")
    # Above its dot, but inside the chart (a letter is about 7 units wide).
    half = 3.5 * len(f"{row.name} {row.said}")
    x = min(max(scale(row.value), LEFT + half), WIDTH - RIGHT - half)
    name = svg.add(group, "text", None, x=x, y=y - 15, class_="name halo", text_anchor="middle")
    svg.add(name, "tspan", f"{row.name} ")
    svg.add(name, "tspan", row.said, class_="said")
    if row.low is not None and row.high is not None:
        low, high = scale(row.low), scale(row.high)
        # Single measurements mark the ends themselves.
        caps = "" if row.dots else "".join(f"M{svg.number(x)} {svg.number(y - 7)}v14" for x in (low, high))
        svg.add(group, "path", d=f"M{svg.number(low)} {svg.number(y)}H{svg.number(high)}{caps}", class_="whisker")
    for dot in row.dots:
        svg.add(group, "circle", cx=scale(dot), cy=y, r=3.5, class_="single")
    svg.add(group, "circle", cx=scale(row.value), cy=y, r=5, class_=f"dot {row.style}")
