from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest

from presage.database import Database
from presage.orchestrator.bus import Bus, EmbeddedBus
from presage.orchestrator.jobs import Order, Place
from presage.orchestrator.store import Happened, Store
from tests.orchestrator.bus.brokers import Broker, start_broker

PATIENCE_S = 60.0
ORDER = Order("train", "#!/bin/sh\n", (Place("sim", walltime_s=600.0),))
KINDS = ("running", "progress", "performance", "utilization")
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which Kafka the tests have used."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    for kind in sorted(
        {str(each) for report in reports for name, each in report.user_properties if name == "kafka"}
    ):
        terminalreporter.write_line(f"Kafka was {kind}")


@pytest.fixture(scope="session")
def started_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    broker = start_broker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.stop()


@pytest.fixture
def broker(started_broker: Broker, record_property: Callable[[str, object], None]) -> Broker:
    record_property("kafka", started_broker.kind)
    return started_broker


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'presage.sqlite'}")
    yield database
    database.close()


@pytest.fixture
def prefix() -> str:
    """A beginning of topics that no other test has."""
    return f"test-{uuid.uuid4().hex[:8]}"


def add_events(database: Database, jobs: int, each: int) -> list[Happened]:
    """Write events of new jobs in turn, of all kinds, and return them as the table has them."""
    store = Store(database)
    last = max((event.number for event in store.events(most=100_000)), default=0)
    ids = [store.add("ada", ORDER).job_id for _ in range(jobs)]
    EmbeddedBus(database).publish(
        [
            Happened(
                0, job_id, BEGIN + timedelta(seconds=step), KINDS[step % len(KINDS)], {"done": step, "é": "\n"}
            )
            for step, job_id in itertools.product(range(each - 1), ids)
        ]
    )
    return store.events(last, most=100_000)


class Reader:
    """Reads a bus in the background and keeps what it was given."""

    def __init__(self, bus: Bus) -> None:
        self.events: list[Happened] = []
        self.stop = threading.Event()
        self._got = threading.Condition()
        self._thread = threading.Thread(target=bus.consume, args=(self._keep, self.stop))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def wait_for(self, expected: Sequence[Happened]) -> list[Happened]:
        """Return what was read as soon as all that is expected is there."""
        numbers = {event.number for event in expected}
        with self._got:
            assert self._got.wait_for(lambda: numbers <= {event.number for event in self.events}, PATIENCE_S), (
                f"{len({event.number for event in self.events})} of {len(numbers)} events came"
            )
            return list(self.events)

    def _keep(self, events: Sequence[Happened]) -> None:
        with self._got:
            self.events.extend(events)
            self._got.notify_all()
