"""What is forgotten, and what never is, on every kind of database."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from presage.database import Database
from presage.orchestrator.bus import EmbeddedBus
from presage.orchestrator.jobs import Order, Phase, Place
from presage.orchestrator.retention import prune, start_pruning
from presage.orchestrator.store import LOCK, Store
from presage.orchestrator.tables import JobRow
from presage.service.tables import CallbackRow

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
ORDER = Order("train", "#!/bin/sh\n", (Place("sim", walltime_s=600.0),))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


def add_job(database: Database, day: float, phase: Phase) -> str:
    store = Store(database, lambda: BEGIN + timedelta(days=day))
    job_id = store.add("ann", ORDER).job_id
    with database.writing(LOCK) as session:
        session.execute(update(JobRow).where(JobRow.job_id == job_id).values(phase=phase.value))
    return job_id


def left(database: Database) -> set[str]:
    return {job.job_id for job in Store(database).jobs()}


def test_only_what_is_over_for_long_is_forgotten(database: Database) -> None:
    over = add_job(database, 0, Phase.COMPLETED)
    with database.writing(LOCK) as session:
        session.add(CallbackRow(job_id=over, digest="d", sub_job=0, sequence=0))
    stays = {add_job(database, 0, Phase.ACTIVE), add_job(database, 0, Phase.STOPPING)}
    stays.add(add_job(database, 20, Phase.FAILED))
    assert prune(database, BEGIN + timedelta(days=10)) == 1
    assert left(database) == stays
    assert over not in {event.job_id for event in Store(database).events()}
    assert prune(database, BEGIN + timedelta(days=10)) == 0


def test_what_a_reader_has_not_read_is_kept(database: Database) -> None:
    ids = [add_job(database, 0, Phase.COMPLETED) for _ in range(3)]
    EmbeddedBus(database, "quick")._remember(3)
    EmbeddedBus(database, "slow")._remember(1)
    assert prune(database, BEGIN + timedelta(days=10)) == 1
    assert left(database) == set(ids[1:])


def test_no_number_of_an_event_is_given_twice(database: Database) -> None:
    add_job(database, 0, Phase.COMPLETED)
    newest = add_job(database, 0, Phase.COMPLETED)
    before = Store(database).events()[-1].number
    prune(database, BEGIN + timedelta(days=10))
    assert left(database) == {newest}
    add_job(database, 20, Phase.ACTIVE)
    assert Store(database).events()[-1].number > before


def test_it_is_done_in_the_background(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'plane.sqlite'}")
    over, kept = add_job(database, 0, Phase.COMPLETED), add_job(database, 0, Phase.ACTIVE)
    pruning = start_pruning(database, keep_days=30, now=lambda: BEGIN + timedelta(days=31))
    until_s = time.monotonic() + 20
    while over in left(database) and time.monotonic() < until_s:
        time.sleep(0.02)
    pruning.stop()
    assert left(database) == {kept}
    database.close()
