"""Objects as ``kubectl get`` shows them, by the CRD's own printer columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from mtp_operator.api.columns import COLUMNS, Column
from mtp_operator.kube.verbs import Object

_STEP = re.compile(r'\.(\w+)|\[\?\(@\.(\w+)=="([^"]*)"\)\]')


def value_at(obj: Any, path: str) -> Any:
    """The value at a JSONPath of the kind that printer columns use; ``None`` when it isn't there."""
    for field, key, wanted in _STEP.findall(path):
        if field:
            obj = obj.get(field) if isinstance(obj, dict) else None
        else:
            obj = next((item for item in obj or [] if item.get(key) == wanted), None)
    return obj


def table(kind: str, objects: Sequence[Object], now: datetime, *, wide: bool = False) -> str:
    """Rows of one kind under a header, columns aligned and three spaces apart."""
    columns = [column for column in COLUMNS[kind] if wide or not column.priority]
    rows = [["NAME", *(column.name for column in columns)]]
    rows += [[obj["metadata"]["name"], *(_cell(obj, column, now) for column in columns)] for obj in objects]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cell(obj: Object, column: Column, now: datetime) -> str:
    value = value_at(obj, column.path)
    if column.type == "date":
        return age(datetime.fromisoformat(value.replace("Z", "+00:00")), now) if value else "<unknown>"
    return "" if value is None else str(value)


def age(since: datetime, now: datetime) -> str:
    """As ``kubectl`` says it: 45s, 5m12s, 3h, 2d."""
    seconds = max(0, int((now.astimezone(UTC) - since.astimezone(UTC)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{days}d"
