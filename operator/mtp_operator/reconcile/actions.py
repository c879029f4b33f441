"""What a plan may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Create:
    """Create once; an object of that name which is ours already is as good."""

    obj: dict[str, Any]


@dataclass(frozen=True)
class Apply:
    """Server-side apply: the fields given here are ours, others stay as they are."""

    obj: dict[str, Any]


@dataclass(frozen=True)
class Delete:
    """Delete this very object (``uid``), with its dependents."""

    api_version: str
    kind: str
    name: str
    uid: str | None = None


Action = Create | Apply | Delete
