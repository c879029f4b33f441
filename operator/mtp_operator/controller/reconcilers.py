"""From a key of the queue to the one function that looks at such an object."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mtp_operator.controller.queue import Key
from mtp_operator.kube.verbs import FINE_TUNE, SERVING, KubeError, Verbs
from mtp_operator.loop import AcceptanceStore, Defaults, reconcile_fine_tune, reconcile_serving
from mtp_operator.loop.act import Fetch

logger = logging.getLogger(__name__)

OUR_KINDS = (FINE_TUNE, SERVING)
SPREAD_SECONDS = 30.0
"""A full look is spread over this time, or a tenth of the interval, whichever is less."""


@dataclass(frozen=True)
class Reconcilers:
    """Looks at an object of either kind."""

    verbs: Verbs
    fetch: Fetch
    samples: AcceptanceStore
    defaults: Defaults

    async def __call__(self, key: Key) -> float | None:
        """Seconds until the next look; ``None`` when only an event can change anything."""
        now = datetime.now(UTC)
        if key.kind == FINE_TUNE:
            return await reconcile_fine_tune(self.verbs, key.namespace, key.name, now, self.fetch, self.defaults)
        return await reconcile_serving(
            self.verbs, key.namespace, key.name, now, self.fetch, self.samples, self.defaults
        )


async def resync(
    verbs: Verbs, namespaces: Sequence[str], add: Callable[[Key, float], None], interval_seconds: float
) -> None:
    """Have every object looked at again and again, for ever.

    A watch that went silent, or one that kopf gave up, thereby costs minutes instead of everything.
    """
    spread = 0.0
    while True:
        for kind in OUR_KINDS:
            for namespace in namespaces or (None,):
                try:
                    found = await verbs.list(kind, namespace)
                except KubeError as error:
                    logger.warning("%s can't be listed: %s", kind.plural, error)
                    continue
                for obj in found:
                    key = Key(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
                    add(key, random.uniform(0, spread))  # noqa: S311 -- not a secret
        await asyncio.sleep(interval_seconds)
        spread = min(SPREAD_SECONDS, interval_seconds / 10)
