"""The readings of all servings, in memory: after a restart of the operator a new window begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from mtp_operator.measure.window import Sample


@dataclass
class _History:
    epoch: str = ""
    samples: list[Sample] = field(default_factory=list)
    read_at: datetime | None = None
    failure: str | None = None


class AcceptanceStore:
    """Readings by serving (namespace and name).

    A window never spans a change of the pods' template: an *epoch* names the template, and a new one begins empty. With
    it ends the window where the draft depth changes, over which rates would be diluted.
    """

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}

    def begin(self, serving: str, epoch: str) -> None:
        """Forget what was read under another epoch."""
        if self._histories.get(serving, _History()).epoch != epoch:
            self._histories[serving] = _History(epoch)

    def read_at(self, serving: str) -> datetime | None:
        """When counters were last asked for in this epoch."""
        history = self._histories.get(serving)
        return history.read_at if history is not None else None

    def failure(self, serving: str) -> str | None:
        """Why a pod couldn't be read in the last round."""
        history = self._histories.get(serving)
        return history.failure if history is not None else None

    def add(
        self,
        serving: str,
        at: datetime,
        samples: Iterable[Sample],
        keep_since: datetime,
        failure: str | None = None,
    ) -> None:
        """Add one round of readings, possibly empty, and why one is missing.

        Older readings than ``keep_since`` go, except the newest of them per pod, where the window starts.
        """
        history = self._histories.setdefault(serving, _History())
        history.read_at, history.failure = at, failure
        history.samples.extend(samples)
        newest_old: dict[str, Sample] = {}
        for sample in history.samples:
            known = newest_old.get(sample.pod)
            if sample.at < keep_since and (known is None or sample.at >= known.at):
                newest_old[sample.pod] = sample
        inside = [sample for sample in history.samples if sample.at >= keep_since]
        alive = {sample.pod for sample in inside}
        history.samples = [sample for pod, sample in newest_old.items() if pod in alive] + inside

    def samples(self, serving: str) -> list[Sample]:
        """All readings kept."""
        history = self._histories.get(serving)
        return list(history.samples) if history is not None else []

    def servings(self) -> list[str]:
        """Those with a history."""
        return list(self._histories)

    def forget(self, serving: str) -> None:
        """Drop a deleted serving's readings."""
        self._histories.pop(serving, None)
