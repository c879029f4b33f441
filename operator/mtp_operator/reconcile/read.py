"""Reading JSON that somebody else wrote. None of these raises: what isn't there or has another type is empty."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Json = Mapping[str, Any]


def at(obj: Any, *keys: str) -> Any:
    """The value below ``keys``, or ``None``."""
    for key in keys:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(key)
    return obj


def mapping(obj: Any, *keys: str) -> Json:
    """The object below ``keys``."""
    value = at(obj, *keys)
    return value if isinstance(value, Mapping) else {}


def objects(obj: Any, *keys: str) -> list[Json]:
    """The objects of the list below ``keys``."""
    value = at(obj, *keys)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(obj: Any, *keys: str) -> str:
    """The string below ``keys``."""
    value = at(obj, *keys)
    return value if isinstance(value, str) else ""


def texts(obj: Any, *keys: str) -> dict[str, str]:
    """The object of strings below ``keys``: labels, annotations."""
    return {k: v for k, v in mapping(obj, *keys).items() if isinstance(k, str) and isinstance(v, str)}


def integer(obj: Any, *keys: str) -> int:
    """The integer below ``keys``; 0 without one."""
    value = at(obj, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def flag(obj: Any, *keys: str) -> bool:
    """Whether there is a ``true`` below ``keys``."""
    return at(obj, *keys) is True


def time(obj: Any, *keys: str) -> datetime | None:
    """The RFC 3339 time below ``keys``."""
    value = text(obj, *keys)
    try:
        parsed = datetime.fromisoformat(value)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def condition(obj: Any, kind: str, *keys: str) -> Json:
    """The condition of type ``kind`` in ``status.conditions`` (or the list below ``keys``)."""
    found = (c for c in objects(obj, *(keys or ("status", "conditions"))) if text(c, "type") == kind)
    return next(found, {})


def format_time(moment: datetime) -> str:
    """As Kubernetes writes times: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
