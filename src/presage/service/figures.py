"""Figures for Prometheus: of calls, of the planes of this process, and of what the database has of all of them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from presage.orchestrator.figures import FIGURES
from presage.orchestrator.jobs import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from presage.orchestrator.store import Store

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_OF_PLANES = {
    "polls": "Questions about all jobs of a cluster that were answered.",
    "poll_failures": "Questions without an answer.",
    "poll_seconds": "How long all answers took.",
    "submissions": "Jobs that clusters took.",
    "refusals": "Jobs that clusters refused.",
}


class CallFigures:
    """Counts and times of calls, in a registry of their own."""

    def __init__(self, store: Store) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "presage_http_requests",
            "Calls by path and answer.",
            ["method", "path", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "presage_http_request_seconds",
            "How long calls took.",
            ["path"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.registry.register(_Planes())
        self.registry.register(_Database(store))

    def count(self, method: str, path: str, status: int, took_s: float) -> None:
        """Count a call; `path` is one of those there are, whatever a caller made up."""
        self._calls.labels(method, path, str(status)).inc()
        self._seconds.labels(path).observe(took_s)

    def text(self) -> bytes:
        """Return all figures as Prometheus reads them."""
        return generate_latest(self.registry)


class _Planes:
    """What the planes of this process did."""

    def collect(self) -> Iterator[Metric]:
        counts = FIGURES.all()
        for name, words in _OF_PLANES.items():
            family = CounterMetricFamily(f"presage_plane_{name}", words, labels=["cluster"])
            for (counted, cluster), amount in counts.items():
                if counted == name:
                    family.add_metric([cluster], amount)
            yield family


class _Database:
    """What all planes and services on the database have to do, counted at most every few seconds."""

    def __init__(self, store: Store, every_s: float = 5.0) -> None:
        self._store = store
        self._every_s = every_s
        self._lock = threading.Lock()
        self._counted_s = 0.0
        self._families: list[Metric] = []

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if not self._families or time.monotonic() - self._counted_s >= self._every_s:
                self._families, self._counted_s = list(self._count()), time.monotonic()
            yield from self._families

    def _count(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("presage_jobs", "Managed jobs by phase.", labels=["phase"])
        counts = self._store.counts()
        for phase in Phase:
            jobs.add_metric([phase.value], counts.get(phase.value, 0))
        yield jobs
        there = GaugeMetricFamily("presage_live_sub_jobs", "Jobs that are on a cluster.", labels=["cluster"])
        backlog = self._store.backlog()
        for cluster, number in backlog.live.items():
            there.add_metric([cluster], number)
        yield there
        yield GaugeMetricFamily("presage_due_jobs", "Jobs that a plane should have looked at.", backlog.due)
        yield CounterMetricFamily("presage_events", "Events of jobs.", backlog.events)
        yield CounterMetricFamily("presage_decisions", "Decisions about jobs.", backlog.decisions)
        yield GaugeMetricFamily("presage_unread_messages", "What jobs told over the network.", backlog.messages)
        behind = GaugeMetricFamily(
            "presage_events_behind", "Events that were not passed on yet.", labels=["reader"]
        )
        for reader, number in backlog.behind.items():
            behind.add_metric([reader], number)
        yield behind
