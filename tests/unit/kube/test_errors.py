"""What an API server's refusals become."""

from __future__ import annotations

import json

import pytest

from mtp_operator.kube.errors import error_of, no_answer
from mtp_operator.kube.verbs import AlreadyExists, Conflict, KubeError, NotFound, Refused


def status(reason: str, message: str = "in words") -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", Refused),
        (401, "Unauthorized", KubeError),
        (403, "Forbidden", Refused),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", KubeError),
        (422, "Invalid", Refused),
        (429, "TooManyRequests", KubeError),
        (500, "InternalError", KubeError),
        (503, "ServiceUnavailable", KubeError),
    ],
)
def test_a_code_and_its_reason_become_the_error_that_says_what_to_do(
    code: int, reason: str, kind: type[KubeError]
) -> None:
    error = error_of(code, status(reason), {})
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, reason, "in words")
    assert str(error) == f"{code} {reason}: in words"


@pytest.mark.parametrize("body", [b"", b"[]", b"no JSON", b'{"reason": null}', b"\xff\xfe", b"null"])
def test_a_body_that_is_no_status_still_becomes_an_error(body: bytes) -> None:
    assert error_of(502, body, {}).reason == "Unknown"


def test_of_a_long_page_the_beginning_is_kept() -> None:
    assert error_of(502, b"<" * 5000, {}).message == "<" * 200


@pytest.mark.parametrize(
    ("header", "seconds"), [("1", 1.0), (None, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("soon", None)]
)
def test_retry_after_is_read_when_it_is_in_seconds(header: str | None, seconds: float | None) -> None:
    headers = {} if header is None else {"Retry-After": header}
    assert error_of(429, status("TooManyRequests"), headers).retry_after_seconds == seconds


@pytest.mark.parametrize("header", ["nan", "inf", "-1", "1e300", "9" * 400])
def test_a_retry_after_that_nobody_can_wait_for_is_ignored(header: str) -> None:
    assert error_of(429, status("TooManyRequests"), {"Retry-After": header}).retry_after_seconds is None


def test_no_answer_names_what_happened() -> None:
    assert str(no_answer(TimeoutError())) == "0 NoAnswer: TimeoutError"
    assert no_answer(ConnectionResetError("peer")).message == "ConnectionResetError: peer"
