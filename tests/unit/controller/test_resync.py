"""Looking at everything again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mtp_operator.controller.queue import Key
from mtp_operator.controller.reconcilers import resync
from mtp_operator.kube.verbs import FINE_TUNE, SERVING, Kind, KubeError, Object


class Lists:
    """Answers lists: one object of each kind in each namespace, unless the kind is broken."""

    def __init__(self) -> None:
        self.broken: set[Kind] = set()
        self.asked: list[tuple[Kind, str | None]] = []

    async def list(self, kind: Kind, namespace: str | None) -> list[Object]:
        self.asked.append((kind, namespace))
        if kind in self.broken:
            raise KubeError(500, "InternalError", "no")
        return [{"metadata": {"namespace": namespace or "anywhere", "name": kind.plural}}]


async def looked_at(lists: Lists, namespaces: Sequence[str], rounds: int) -> list[Key]:
    """What was added in so many rounds."""
    added: list[tuple[Key, float]] = []
    task = asyncio.create_task(
        resync(lists, namespaces, lambda key, after: added.append((key, after)), 0.001)  # type: ignore[arg-type]
    )
    expected = rounds * 2 * max(1, len(namespaces))
    while len(lists.asked) <= expected:
        assert not task.done()
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert added[0][1] == 0, "the first round finds what was missed: at once"
    return [key for key, _ in added]


async def test_both_kinds_of_the_whole_cluster_are_looked_at_again() -> None:
    keys = await looked_at(Lists(), (), rounds=3)
    both = [Key(kind, "anywhere", kind.plural) for kind in (FINE_TUNE, SERVING)]
    assert keys[:6] == both * 3


async def test_only_the_watched_namespaces_are_listed() -> None:
    lists = Lists()
    await looked_at(lists, ("a", "b"), rounds=1)
    assert lists.asked[:4] == [(FINE_TUNE, "a"), (FINE_TUNE, "b"), (SERVING, "a"), (SERVING, "b")]


async def test_a_kind_that_cannot_be_listed_stops_neither_the_other_nor_the_next_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lists = Lists()
    lists.broken = {FINE_TUNE}
    keys = await looked_at(lists, (), rounds=2)
    assert keys[:2] == [Key(SERVING, "anywhere", "specdecodeservings")] * 2
    assert "mtpfinetunes can't be listed: 500 InternalError: no" in caplog.text
