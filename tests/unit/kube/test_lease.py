"""Who leads, with a clock that the tests turn."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from mtp_operator.kube.lease import LeaderLease, LeaseLost, LeaseTimes
from mtp_operator.kube.verbs import AlreadyExists, Conflict, Kind, KubeError, Object

TIMES = LeaseTimes(duration=15, renew_within=10, retry=2)


class Cluster:
    """One Lease with versions, as an API server keeps it, and a clock.

    Attributes:
        now: seconds; a pause of a candidate moves it.
        broken: raised by every verb while set.
        lease: what is stored.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.broken: KubeError | None = None
        self.lease: Object | None = None
        self.at_pause: Callable[[], None] = lambda: None
        self._version = 0

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        self._answer()
        return copy.deepcopy(self.lease)

    async def create(self, obj: Object) -> Object:
        self._answer()
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        return self.store(obj)

    async def replace(self, obj: Object) -> Object:
        self._answer()
        if self.lease is None or obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "")
        return self.store(obj)

    def store(self, obj: Object) -> Object:
        self._version += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return copy.deepcopy(self.lease)

    def change(self, **spec: Any) -> None:
        """Somebody else writes the lease."""
        assert self.lease is not None
        self.store({**self.lease, "spec": {**self.lease["spec"], **spec}})

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)
        self.at_pause()

    def candidate(self, identity: str) -> LeaderLease:
        return LeaderLease(self, "mtp-system", "mtp-operator", identity, TIMES, lambda: self.now, self.pause)

    @property
    def spec(self) -> Any:
        assert self.lease is not None
        return self.lease["spec"]

    def _answer(self) -> None:
        if self.broken is not None:
            raise self.broken


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


NO_ANSWER = KubeError(0, "NoAnswer", "connection refused")


async def test_the_first_takes_a_lease_that_nobody_made_yet(cluster: Cluster) -> None:
    await cluster.candidate("a").acquire()
    assert cluster.now == 0
    assert cluster.lease is not None
    assert cluster.lease["metadata"]["name"] == "mtp-operator"
    assert (cluster.spec["holderIdentity"], cluster.spec["leaseTransitions"]) == ("a", 0)
    assert cluster.spec["leaseDurationSeconds"] == 15


async def test_another_takes_over_only_after_it_saw_no_renewal_for_the_leases_own_duration(cluster: Cluster) -> None:
    await cluster.candidate("a").acquire()
    cluster.change(leaseDurationSeconds=40)
    await cluster.candidate("b").acquire()
    assert cluster.now > 40
    assert (cluster.spec["holderIdentity"], cluster.spec["leaseTransitions"]) == ("b", 1)


async def test_a_holder_that_renews_keeps_the_lease_however_wrong_its_clock_is(cluster: Cluster) -> None:
    await cluster.candidate("a").acquire()

    def renew() -> None:
        if cluster.now > 200:
            raise TimeoutError
        cluster.change(renewTime="1999-01-01T00:00:00.000000Z")

    cluster.at_pause = renew
    with pytest.raises(TimeoutError):
        await cluster.candidate("b").acquire()
    assert cluster.spec["holderIdentity"] == "a"


async def test_of_two_that_see_a_free_lease_one_gets_it(cluster: Cluster) -> None:
    cluster.at_pause = lambda: cluster.change(renewTime="now")  # the winner renews
    waiting = [asyncio.create_task(cluster.candidate(name).acquire()) for name in ("a", "b")]
    done, late = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    for task in late:
        task.cancel()


async def test_a_restarted_holder_goes_on_at_once(cluster: Cluster) -> None:
    await cluster.candidate("a").acquire()
    acquired = cluster.spec["acquireTime"]
    await cluster.candidate("a").acquire()
    assert cluster.now == 0
    assert (cluster.spec["acquireTime"], cluster.spec["leaseTransitions"]) == (acquired, 0)


async def test_a_released_lease_is_taken_at_once(cluster: Cluster) -> None:
    first = cluster.candidate("a")
    await first.acquire()
    await first.release()
    await cluster.candidate("b").acquire()
    assert cluster.now == 0
    assert (cluster.spec["holderIdentity"], cluster.spec["leaseTransitions"]) == ("b", 1)


async def test_releasing_what_another_holds_by_now_leaves_it_alone(cluster: Cluster) -> None:
    first = cluster.candidate("a")
    await first.acquire()
    await cluster.candidate("b").acquire()
    await first.release()
    assert cluster.spec["holderIdentity"] == "b"


async def test_a_lease_that_was_never_held_is_not_released(cluster: Cluster) -> None:
    await cluster.candidate("a").acquire()
    await cluster.candidate("b").release()
    assert cluster.spec["holderIdentity"] == "a"


async def test_an_api_server_that_does_not_answer_is_asked_again(cluster: Cluster) -> None:
    cluster.broken = NO_ANSWER

    def mended() -> None:
        if cluster.now > 30:
            cluster.broken = None

    cluster.at_pause = mended
    await cluster.candidate("a").acquire()
    assert cluster.spec["holderIdentity"] == "a"


async def test_a_holder_that_cannot_renew_gives_up_before_another_may_take_over(cluster: Cluster) -> None:
    lease = cluster.candidate("a")
    await lease.acquire()
    cluster.broken = NO_ANSWER
    with pytest.raises(LeaseLost, match="not renewed for 10 s"):
        await lease.keep()
    assert TIMES.renew_within < cluster.now < TIMES.duration


async def test_outages_shorter_than_that_are_survived(cluster: Cluster) -> None:
    lease, tries = cluster.candidate("a"), 0
    await lease.acquire()
    renewals = set()

    def every_fourth_works() -> None:
        nonlocal tries
        tries += 1
        renewals.add(cluster.spec["renewTime"])
        cluster.broken = None if tries % 4 == 0 else NO_ANSWER
        if tries > 100:
            raise TimeoutError

    cluster.at_pause = every_fourth_works
    with pytest.raises(TimeoutError):
        await lease.keep()
    assert len(renewals) > 20


async def test_a_request_that_hangs_counts_as_no_renewal(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """No time limit of the client is trusted here: it may be longer than the lease."""
    lease = LeaderLease(
        cluster, "n", "l", "a", LeaseTimes(duration=0.3, renew_within=0.2, retry=0.01), sleep=asyncio.sleep
    )
    await lease.acquire()

    async def hang(*_: Any) -> Object | None:
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr(cluster, "get", hang)
    with pytest.raises(LeaseLost, match="not renewed"):
        await lease.keep()


async def test_a_lease_that_another_took_is_given_up_at_once(cluster: Cluster) -> None:
    lease = cluster.candidate("a")
    await lease.acquire()
    cluster.change(holderIdentity="b")
    with pytest.raises(LeaseLost, match="b holds the lease mtp-system/mtp-operator"):
        await lease.keep()
    assert cluster.now < TIMES.renew_within


async def test_a_lease_that_was_deleted_is_made_again(cluster: Cluster) -> None:
    lease = cluster.candidate("a")
    await lease.acquire()
    cluster.lease = None

    def made_again() -> None:
        if cluster.now > 10:
            raise TimeoutError

    cluster.at_pause = made_again
    with pytest.raises(TimeoutError):
        await lease.keep()
    assert cluster.spec["holderIdentity"] == "a"


async def test_a_conflict_while_renewing_is_looked_into_and_not_fatal(cluster: Cluster) -> None:
    lease = cluster.candidate("a")
    await lease.acquire()
    refused = iter([Conflict(409, "Conflict", "")])

    def once() -> None:
        cluster.broken = next(refused, None)
        if cluster.now > 20:
            raise TimeoutError

    cluster.at_pause = once
    with pytest.raises(TimeoutError):
        await lease.keep()
    assert cluster.spec["holderIdentity"] == "a"
