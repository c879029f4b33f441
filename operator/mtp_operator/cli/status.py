"""``mtp status``: an object's state for a person, from a cluster or from local mode.

``kubectl get mtpft run -o yaml | mtp status`` and ``mtp local get mtpft run -o yaml | mtp status``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtp_operator.cli.manifests import UnreadableManifest, read_manifests
from mtp_operator.kube.verbs import Object


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``status``."""
    status = commands.add_parser(
        "status",
        help="say where objects stand",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    status.add_argument(
        "-f", "--file", action="append", type=Path, dest="files", metavar="FILE", help="default: standard input"
    )
    status.set_defaults(command=_status)


def _status(options: argparse.Namespace) -> int:
    try:
        objects = read_manifests(options.files or [Path("-")])
    except UnreadableManifest as error:
        print(error, file=sys.stderr)
        return 2
    flat = [item for obj in objects for item in (obj.get("items", []) if obj.get("kind") == "List" else [obj])]
    print("\n\n".join("\n".join(describe(obj)) for obj in flat))
    return 0


def describe(obj: Object) -> Iterator[str]:
    """Lines about one object: conditions, then acceptance by position."""
    status = obj.get("status", {})
    yield f"{obj.get('kind')} {obj.get('metadata', {}).get('name')}"
    for condition in status.get("conditions", []):
        message = f"  {condition['message']}" if condition.get("message") else ""
        yield f"  {condition['type']:<20} {condition['status']:<8} {condition['reason']}{message}"
    evaluation = status.get("evaluation") or {}
    rows = {name: evaluation[name] for name in ("shipped", "tuned") if name in evaluation}
    if status.get("acceptance"):
        rows["serving"] = status["acceptance"]
    if rows:
        yield from _acceptance(rows)


def _acceptance(rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    depth = max(len(row.get("positions", [])) for row in rows.values())
    yield "  " + " ".join([f"{'acceptance':<12}", *(f"{f'pos {i}':>7}" for i in range(depth)), " length", " drafts"])
    for name, row in rows.items():
        rates = [str(position["rate"]) for position in row.get("positions", [])]
        cells = [f"{rate:>7}" for rate in [*rates, *[""] * (depth - len(rates))]]
        yield "  " + " ".join(
            [f"{name:<12}", *cells, f"{row.get('meanAcceptanceLength', ''):>7}", f"{row['drafts']:>7}"]
        )
