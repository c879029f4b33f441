"""SVG by ElementTree: well formed and escaped by construction."""

from __future__ import annotations

from xml.etree import ElementTree as ET

NAMESPACE = "http://www.w3.org/2000/svg"


def chart(identity: str, width: float, height: float, title: str, description: str) -> ET.Element:
    """An empty chart that a screen reader announces as one picture.

    Args:
        identity: unique in the page; ids of title and description begin with it.
        width, height: of the drawing's own units; the chart scales to its place.
    """
    root = ET.Element(
        "svg",
        {
            "viewBox": f"0 0 {number(width)} {number(height)}",
            "role": "img",
            "aria-labelledby": f"{identity}-title {identity}-description",
            "class": "chart",
        },
    )
    add(root, "title", title, id=f"{identity}-title")
    add(root, "desc", description, id=f"{identity}-description")
    return root


def add(parent: ET.Element, tag: str, text: str | None = None, **attributes: str | float) -> ET.Element:
    """Append an element; ``class_`` is class, ``text_anchor`` is text-anchor, floats are shortened."""
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    child = ET.SubElement(
        parent, tag, {name: value if isinstance(value, str) else number(value) for name, value in names.items()}
    )
    child.text = text
    return child


def markup(root: ET.Element) -> str:
    """The chart as text, to stand in a page."""
    return ET.tostring(root, encoding="unicode")


def number(value: float) -> str:
    """A hundredth of a unit is less than can be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
