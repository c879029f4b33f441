"""Curves over optimiser steps, named at their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from mtp_trainer.report.charts import svg
from mtp_trainer.report.charts.scale import Scale, spread, thinned, ticks

WIDTH, PLOT, TOP, AXIS = 900.0, 270.0, 26.0, 44.0
LEFT, RIGHT = 52.0, 150.0
MOST_POINTS = 450
"""Points per line: about one per pixel and a half of a page; more can't be told apart."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    style: str
    """CSS classes: ``position-0`` to ``position-7``, or ``total``; ``thin`` for what stands behind others."""
    points: Points
    marked: bool = False
    """A marker at each point: for few points."""


def line_chart(
    identity: str,
    title: str,
    description: str,
    lines: Sequence[Line],
    between: tuple[float, float],
    written: Callable[[float], str],
    raw: Points = (),
    rule: tuple[float, str] | None = None,
) -> ET.Element:
    """Curves with names and last values at their right ends.

    Args:
        between: range of the vertical axis.
        written: how values are written.
        raw: single values behind the curves, drawn faintly.
        rule: a step that matters, and why.
    """
    bottom = TOP + PLOT
    root = svg.chart(identity, WIDTH, bottom + AXIS, title, description)
    every = [x for line in lines for x, _ in line.points] + [x for x, _ in raw]
    across = Scale(min(every), max(every), LEFT, WIDTH - RIGHT)
    up = Scale(*between, bottom, TOP)
    _axes(root, across, up, written)
    if rule is not None:
        x = across(rule[0])
        svg.add(root, "line", x1=x, x2=x, y1=TOP - 4, y2=bottom, class_="reference")
        anchor = "end" if x > LEFT + (WIDTH - LEFT - RIGHT) / 2 else "start"
        svg.add(root, "text", rule[1], x=x, y=TOP - 10, class_="tick", text_anchor=anchor)
    if raw:
        svg.add(root, "path", d=_path(envelope(raw, MOST_POINTS), across, up), class_="raw")
    for line in lines:
        _line(root, line, across, up, written)
    ends = spread([up(line.points[-1][1]) for line in lines], 18, TOP, bottom)
    for line, y in zip(lines, ends, strict=True):
        label = svg.add(root, "text", None, x=WIDTH - RIGHT + 14, y=y + 4.5, class_=f"end {line.style}")
        svg.add(label, "tspan", f"{line.name} ")
        svg.add(label, "tspan", written(line.points[-1][1]), class_="value")
    return root


def envelope(points: Points, most: int) -> list[tuple[float, float]]:
    """Fewer points that reach as far up and down: lowest and highest of each stretch, in their order."""
    if len(points) <= most:
        return list(points)
    size = -(-len(points) * 2 // most)
    kept: list[tuple[float, float]] = []
    for first in range(0, len(points), size):
        stretch = points[first : first + size]
        ends = {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
        kept.extend(sorted(ends))
    return kept


def _axes(root: ET.Element, across: Scale, up: Scale, written: Callable[[float], str]) -> None:
    for tick in ticks(up.low, up.high, about=5):
        y = up(tick)
        svg.add(root, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
        svg.add(root, "text", written(tick), x=LEFT - 8, y=y + 4, class_="tick", text_anchor="end")
    svg.add(root, "line", x1=LEFT, x2=WIDTH - RIGHT, y1=up.start, y2=up.start, class_="base")
    for tick in ticks(across.low, across.high, about=8):
        if tick == int(tick):
            svg.add(root, "text", f"{tick:,.0f}", x=across(tick), y=up.start + 18, class_="tick", text_anchor="middle")
    middle = (LEFT + WIDTH - RIGHT) / 2
    svg.add(root, "text", "optimiser step", x=middle, y=up.start + 38, class_="tick", text_anchor="middle")


def _line(root: ET.Element, line: Line, across: Scale, up: Scale, written: Callable[[float], str]) -> None:
    kept = [line.points[i] for i in thinned(len(line.points), MOST_POINTS)]
    svg.add(root, "path", d=_path(kept, across, up), class_=f"line {line.style}")
    if not line.marked:
        return
    for x, value in kept:
        dot = svg.add(root, "circle", cx=across(x), cy=up(value), r=3.5, class_=f"mark {line.style}")
        svg.add(dot, "title", f"{line.name}, step {x:g}: {written(value)}")


def _path(points: Points, across: Scale, up: Scale) -> str:
    return "M" + "L".join(f"{svg.number(across(x))} {svg.number(up(y))}" for x, y in points)
