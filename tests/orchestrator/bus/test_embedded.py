"""The event table as a bus, on every kind of database."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from presage.database import Database
from presage.errors import UnknownNameError
from presage.orchestrator.bus import EmbeddedBus
from presage.orchestrator.store import Happened, Store
from tests.orchestrator.bus.conftest import add_events


def test_positions_are_kept_for_each_reader_and_never_go_back(database_url: str) -> None:
    database = Database(database_url)
    events = add_events(database, jobs=2, each=300)  # more than are given at once
    slow, fast, stop = EmbeddedBus(database, "one"), EmbeddedBus(database, "one"), threading.Event()

    def overtaken(some: Sequence[Happened]) -> None:
        fast.consume(lambda part: stop.set() if part[-1] == events[-1] else None, stop)

    slow.consume(overtaken, stop)
    assert slow.position() == events[-1].number
    assert EmbeddedBus(database, "two").position() == 0
    database.close()


def test_nothing_is_written_if_one_event_is_of_an_unknown_job(database: Database) -> None:
    events = add_events(database, jobs=1, each=3)
    known = replace(events[-1], number=0)
    with pytest.raises(UnknownNameError, match="'j-other'"):
        EmbeddedBus(database).publish([known, replace(known, job_id="j-other")])
    assert Store(database).events() == events
