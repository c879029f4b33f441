"""What Prometheus reads: the queue, and live acceptance per serving and position.

A status is written at most once a minute and rounded; these figures are of the last reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from mtp_operator.controller.queue import Key
from mtp_operator.controller.schedule import Schedule
from mtp_operator.measure.acceptance import mean_acceptance_length, positions
from mtp_operator.measure.store import AcceptanceStore
from mtp_operator.measure.window import count_window

_EVER = datetime.min.replace(tzinfo=UTC)
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """The operator's own registry: no process-wide state, so that two can live in one test."""

    def __init__(self, samples: AcceptanceStore) -> None:
        self.registry = CollectorRegistry()
        self._reconciles = Counter(
            "mtp_operator_reconciles", "Looks at an object.", ["kind", "result"], registry=self.registry
        )
        self._seconds = Histogram(
            "mtp_operator_reconcile_seconds", "Time of one look.", ["kind"], buckets=_BUCKETS, registry=self.registry
        )
        self.leading = Gauge("mtp_operator_leading", "1 while this process holds the lease.", registry=self.registry)
        self.registry.register(AcceptanceCollector(samples))

    def watch(self, schedule: Schedule[Key]) -> None:
        """Report the queue's state from now on."""
        depth = Gauge("mtp_operator_queue_depth", "Objects that are due.", registry=self.registry)
        depth.set_function(lambda: schedule.depth)
        active = Gauge("mtp_operator_queue_active", "Objects being looked at.", registry=self.registry)
        active.set_function(lambda: schedule.active)

    def worked(self, kind: str, result: str, seconds: float) -> None:
        """One look has ended."""
        self._reconciles.labels(kind, result).inc()
        self._seconds.labels(kind).observe(seconds)

    async def show(self, _: web.Request) -> web.Response:
        """``GET /metrics``. In the event loop, so that no collector meets a store that is being changed."""
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


class AcceptanceCollector:
    """Acceptance in the window, of every serving whose pods were read twice."""

    def __init__(self, samples: AcceptanceStore) -> None:
        self._samples = samples

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Called by the registry at every scrape."""
        names = ["namespace", "serving"]
        rate = GaugeMetricFamily(
            "mtp_acceptance_rate", "Drafts accepted at a position, by drafts.", labels=[*names, "position"]
        )
        length = GaugeMetricFamily("mtp_mean_acceptance_length", "Tokens per verifier step.", labels=names)
        drafts = GaugeMetricFamily("mtp_window_drafts", "Drafts in the window.", labels=names)
        for serving in self._samples.servings():
            counts = count_window(self._samples.samples(serving), _EVER)
            if counts is None:
                continue
            labels = serving.split("/", 1)
            drafts.add_metric(labels, counts.drafts)
            mean = mean_acceptance_length(counts)
            if mean is not None:
                length.add_metric(labels, mean)
            for row in positions(counts):
                rate.add_metric([*labels, str(row.position)], row.rate)
        yield from (rate, length, drafts)
