"""From an API server's answer to the error that says what can be done about it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from mtp_operator.kube.verbs import AlreadyExists, Conflict, KubeError, NotFound, Refused

NO_ANSWER = 0


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> KubeError:
    """The error for an answer of 400 or more.

    409 has two meanings: ``AlreadyExists`` of a create, and ``Conflict`` of everything that names a version or a uid.
    A body that isn't a ``Status`` comes from something in between, such as a load balancer.
    """
    reason, message = _reason_and_message(body)
    retry_after = _seconds(headers.get("Retry-After"))
    match status:
        case 404:
            kind: type[KubeError] = NotFound
        case 409:
            kind = AlreadyExists if reason == "AlreadyExists" else Conflict
        case 400 | 403 | 422:
            kind = Refused
        case _:
            kind = KubeError
    return kind(status, reason or "Unknown", message, retry_after)


def no_answer(error: BaseException) -> KubeError:
    """The error for a request that got no answer at all."""
    return KubeError(NO_ANSWER, "NoAnswer", f"{type(error).__name__}: {error}".rstrip(": "))


def _reason_and_message(body: bytes) -> tuple[str, str]:
    try:
        status = json.loads(body)
        return str(status.get("reason") or ""), str(status.get("message") or "")
    except (ValueError, AttributeError):
        return "", body[:200].decode(errors="replace")


def _seconds(header: str | None) -> float | None:
    """Whole seconds, as Kubernetes writes them. A date, the header's other form, is left to the caller's own back-off,
    and so is what would be longer than a day."""
    whole = header is not None and header.isdecimal() and len(header) <= 5
    return float(header) if header is not None and whole else None
