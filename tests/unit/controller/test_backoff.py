"""How long a failed key waits."""

from __future__ import annotations

from mtp_operator.controller.backoff import FIRST_SECONDS, LONGEST_SECONDS, Backoff


def longest() -> Backoff:
    """Without jitter: always the upper bound."""
    return Backoff(uniform=lambda low, high: high)


def test_the_wait_doubles_and_has_an_end() -> None:
    backoff = longest()
    waits = [backoff.failed("a") for _ in range(12)]
    assert waits[:4] == [FIRST_SECONDS * 2**n for n in range(4)]
    assert waits[-1] == LONGEST_SECONDS
    assert waits == sorted(waits)


def test_an_outage_of_any_length_is_counted() -> None:
    backoff = longest()
    assert {backoff.failed("a") for _ in range(2000)} <= {LONGEST_SECONDS, *(FIRST_SECONDS * 2**n for n in range(9))}


def test_a_success_forgets_what_was_before_and_other_keys_have_their_own_count() -> None:
    backoff = longest()
    for _ in range(5):
        backoff.failed("a")
    assert backoff.failed("b") == FIRST_SECONDS
    backoff.succeeded("a")
    backoff.succeeded("never failed")
    assert backoff.failed("a") == FIRST_SECONDS


def test_jitter_only_shortens_and_by_no_more_than_half() -> None:
    backoff = Backoff()
    waits = [backoff.failed(key) for key in range(200)]
    assert all(FIRST_SECONDS / 2 <= wait <= FIRST_SECONDS for wait in waits)
    assert len(set(waits)) > 100


def test_what_the_server_asks_for_is_the_least() -> None:
    backoff = longest()
    assert backoff.failed("a", at_least_seconds=30) == 30
    assert backoff.failed("a", at_least_seconds=0.1) == FIRST_SECONDS * 2
