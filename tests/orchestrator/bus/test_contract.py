"""What every bus promises, on every kind of bus."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest

from presage.database import Database
from presage.orchestrator.bus import Bus, EmbeddedBus, drop_repeats
from presage.orchestrator.store import Happened
from tests.orchestrator.bus.brokers import Broker
from tests.orchestrator.bus.conftest import PATIENCE_S, Reader, add_events

MakeBus = Callable[[str], Bus]


class HandlerFailedError(Exception):
    """A handler that fails."""


@pytest.fixture(params=["embedded", "kafka"])
def make_bus(request: pytest.FixtureRequest, database: Database, prefix: str) -> MakeBus:
    """Make a bus as the process of a reader would have it."""
    if request.param == "embedded":
        return lambda reader: EmbeddedBus(database, reader, pause_s=0.05)
    broker: Broker = request.getfixturevalue("broker")
    from presage.orchestrator.bus.kafka import KafkaBus

    def make(reader: str) -> Bus:
        group = f"{prefix}-{reader}"
        return KafkaBus(broker.servers, group=group, prefix=prefix, settings=broker.settings)

    return make


def streams(events: Sequence[Happened]) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of each job and topic, in the order of the events."""
    found = defaultdict(list)
    for event in events:
        found[event.job_id, event.kind if event.kind in ("progress", "performance", "utilization") else ""].append(
            event.number
        )
    return found


def once_each(events: Sequence[Happened]) -> list[Happened]:
    once: list[Happened] = []
    handle = drop_repeats(once.extend)
    for event in events:
        handle([event])
    return once


def fail_once(bus: Bus) -> None:
    """Have the first events of a reader meet a handler that fails."""

    def fail(_events: Sequence[Happened]) -> None:
        raise HandlerFailedError

    stop = threading.Event()
    too_late = threading.Timer(PATIENCE_S, stop.set)
    too_late.start()
    with pytest.raises(HandlerFailedError):
        bus.consume(fail, stop)
    too_late.cancel()


class TestBus:
    def test_all_events_arrive_as_they_were_and_in_order(self, make_bus: MakeBus, database: Database) -> None:
        events = add_events(database, jobs=7, each=30)
        writer = make_bus("writer")
        writer.publish(events[:90])
        writer.publish(events)  # as one does who does not know what became of the first attempt
        with Reader(make_bus("reader")) as reader:
            reader.wait_for(events)
            later = add_events(database, jobs=1, each=8)
            writer.publish(later)
            got = once_each(reader.wait_for(later))
        events += later
        assert sorted(got, key=lambda event: event.number) == events
        assert streams(got) == streams(events)

    def test_every_reader_gets_what_it_has_not_dealt_with(self, make_bus: MakeBus, database: Database) -> None:
        first = add_events(database, jobs=2, each=5)
        make_bus("writer").publish(first)
        fail_once(make_bus("reader"))
        with Reader(make_bus("reader")) as reader, Reader(make_bus("other")) as other:
            assert streams(reader.wait_for(first)) == streams(first)
            assert streams(other.wait_for(first)) == streams(first)
        second = add_events(database, jobs=1, each=5)
        make_bus("writer").publish(second)
        with Reader(make_bus("reader")) as reader:
            assert streams(reader.wait_for(second)) == streams(second)


def test_repeats_are_dropped_only_if_they_were_handled(database: Database) -> None:
    events = add_events(database, jobs=1, each=4)
    handled: list[Happened] = []
    fails = True

    def handle(some: Sequence[Happened]) -> None:
        if fails:
            raise HandlerFailedError
        handled.extend(some)

    once = drop_repeats(handle, remembered=3)
    with pytest.raises(HandlerFailedError):
        once(events[:2])
    fails = False
    once([*events[:2], events[0]])
    once(events)
    assert handled == events
    once(events[:1])  # longer ago than is remembered
    assert handled == [*events, events[0]]
