"""What is forgotten, so that the database does not grow for ever: jobs that ended long ago, with their events.

A job that is not over is never forgotten, nor is one with an event that a reader of the bus has yet to read: the
forwarder to Kafka, for example.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import MetaData, Table, delete, func, select

from presage.orchestrator.bus._base import persist
from presage.orchestrator.bus.forwarding import Background
from presage.orchestrator.bus.tables import PositionRow
from presage.orchestrator.jobs import FINAL
from presage.orchestrator.rows import parts
from presage.orchestrator.store import LOCK, utc_now
from presage.orchestrator.tables import EventRow, JobRow

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from datetime import datetime

    from sqlalchemy.orm import Session

    from presage.database import Database

log = logging.getLogger(__name__)

KEEP_DAYS = 365.0
_EVERY_S = 86_400.0
_PAUSES_S = (60.0, 3600.0)
_MOST_AT_ONCE = 200
"""In one transaction, so that planes do not wait for long."""


def prune(database: Database, before: datetime) -> int:
    """Forget the jobs of which nothing was heard since they ended before this instant; returns how many."""
    pruned = 0
    while True:
        with database.writing(LOCK) as session:
            jobs = _over(session, before)
            for table in _tables_of_jobs(session):
                for part in parts(jobs):
                    session.execute(delete(table).where(table.c.job_id.in_(part)))
            for part in parts(jobs):
                session.execute(delete(JobRow).where(JobRow.job_id.in_(part)))
        pruned += len(jobs)
        if len(jobs) < _MOST_AT_ONCE:
            return pruned


def start_pruning(
    database: Database, keep_days: float = KEEP_DAYS, now: Callable[[], datetime] = utc_now
) -> Background:
    """Forget what is older than so many days, now and once a day."""

    def work(stop: threading.Event) -> None:
        while not stop.is_set():
            if pruned := prune(database, now() - timedelta(days=keep_days)):
                log.info("%d jobs that ended more than %g days ago are forgotten", pruned, keep_days)
            stop.wait(_EVERY_S)

    return Background(
        lambda stop: persist(work, stop, _PAUSES_S, "Old jobs are not forgotten yet"), "pruning", lambda: None
    )


def _over(session: Session, before: datetime) -> list[str]:
    """Return jobs that are over, whose last event is old and was read by all readers; the oldest first."""
    # Without its newest event, a database might give the number of that to the next one, which readers pass over.
    newest = session.scalar(select(func.max(EventRow.number))) or 0
    read = session.scalar(select(func.min(PositionRow.number)))
    known = newest - 1 if read is None else min(read, newest - 1)
    last = func.max(EventRow.number)
    wanted = (
        select(JobRow.job_id)
        .join(EventRow, EventRow.job_id == JobRow.job_id)
        .where(JobRow.phase.in_([phase.value for phase in FINAL]), JobRow.created_at < before)
        .group_by(JobRow.job_id)
        .having(func.max(EventRow.at) < before, last <= known)
        .order_by(last)
        .limit(_MOST_AT_ONCE)
    )
    return list(session.scalars(wanted))


def _tables_of_jobs(session: Session) -> list[Table]:
    """Return the tables whose rows belong to a job, those of other parts of Presage too."""
    metadata = MetaData()
    metadata.reflect(session.connection())
    return [
        table
        for table in metadata.tables.values()
        if any(key.column.table.name == JobRow.__tablename__ for key in table.foreign_keys)
    ]
