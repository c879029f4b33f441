"""Colours and type of page and charts, for light and dark.

Heads and positions use colours that people with any colour vision tell apart (Okabe and Ito, Color Universal Design,
2008; darkened on white and lightened on black until lines and dots have a contrast of 3:1). The shipped head is grey:
it is the background of the comparison.
"""

from __future__ import annotations

import re
from importlib import resources

LIGHT = {
    "paper": "#ffffff",
    "edge": "#d7dde4",
    "ink": "#16202b",
    "quiet": "#55616f",
    "grid": "#e4e9ee",
    "shipped": "#8a95a2",
    "tuned": "#0072b2",
    "raw": "#b9c2cc",
    "pass": "#00694c",
    "pass-panel": "#e3f4ee",
    "fail": "#a83a00",
    "fail-panel": "#fdeee6",
    "position-0": "#0072b2",
    "position-1": "#c25100",
    "position-2": "#00805d",
    "position-3": "#a8487f",
    "position-4": "#7a6200",
    "position-5": "#8a5a3c",
    "position-6": "#6b4fa0",
    "position-7": "#55616f",
}

DARK = {
    "paper": "#0f141a",
    "edge": "#303a46",
    "ink": "#e8edf2",
    "quiet": "#a0acb9",
    "grid": "#252e38",
    "shipped": "#687481",
    "tuned": "#45a1db",
    "raw": "#485563",
    "pass": "#4fd0a5",
    "pass-panel": "#10302a",
    "fail": "#ff9a5c",
    "fail-panel": "#38210f",
    "position-0": "#56b4e9",
    "position-1": "#ff9248",
    "position-2": "#35c795",
    "position-3": "#e29bc4",
    "position-4": "#e6d441",
    "position-5": "#d9a27e",
    "position-6": "#b9a3f0",
    "position-7": "#a0acb9",
}


def page_css() -> str:
    """The whole style sheet of the page."""
    light, dark = _variables(LIGHT), _variables(DARK)
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"{_file('charts.css')}{_position_css()}{_file('page.css')}"
    )


def chart_css() -> str:
    """The style sheet of a chart that stands alone; without variables, which some viewers of SVG don't know."""
    rules = f"{_file('charts.css')}{_position_css()}"
    return f"{_coloured(rules, LIGHT)}@media (prefers-color-scheme: dark) {{\n{_coloured(rules, DARK)}}}\n"


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def _coloured(rules: str, colours: dict[str, str]) -> str:
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: colours[found[1]], rules)


def _position_css() -> str:
    return "".join(
        f".chart .line.position-{i} {{ stroke: var(--position-{i}); }}\n"
        f".chart .mark.position-{i}, .chart .end.position-{i} {{ fill: var(--position-{i}); }}\n"
        for i in range(8)
    )


def _file(name: str) -> str:
    return (resources.files("mtp_trainer.report") / "style" / name).read_text(encoding="utf-8")
