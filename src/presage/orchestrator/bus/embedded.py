"""The event table of the database as a bus: needs nothing else, and is written with what it tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.errors import unknown_job
from presage.orchestrator.bus._base import Bus
from presage.orchestrator.bus.tables import PositionRow
from presage.orchestrator.rows import tell
from presage.orchestrator.store import LOCK, Store
from presage.orchestrator.tables import JobRow

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from presage.database import Database
    from presage.orchestrator.bus._base import Handler
    from presage.orchestrator.store import Happened

_LOCK = "bus"
_MOST_AT_ONCE = 500


class EmbeddedBus(Bus):
    """Reads events as `reader`, whose position is kept in the database; asks every `pause_s` for new ones.

    Several processes may read under one name: each event then reaches at least one of them.
    """

    def __init__(self, database: Database, reader: str = "default", *, pause_s: float = 0.5) -> None:
        self._database = database
        self._store = Store(database)
        self._reader = reader
        self._pause_s = pause_s

    def publish(self, events: Sequence[Happened]) -> None:
        """Write the events that have no number (0) yet and get one here; those with a number are in the table.

        Raises UnknownNameError, and writes nothing, if one is about a job that is not managed here.
        """
        new = [event for event in events if event.number == 0]
        if not new:
            return
        # Under the lock of all who write events, so that numbers become visible in their order.
        with self._database.writing(LOCK) as session:
            for job_id in {event.job_id for event in new}:
                if session.get(JobRow, job_id) is None:
                    raise unknown_job(job_id)
            for event in new:
                tell(session, event.job_id, event.at, event.kind, event.values)
                session.flush()

    def consume(self, handler: Handler, stop: threading.Event) -> None:
        """Give events to the handler until `stop`, from where the reader was. Raises what the handler raises."""
        position = self.position()
        while not stop.is_set():
            events = self._store.events(position, most=_MOST_AT_ONCE)
            if not events:
                stop.wait(self._pause_s)
                continue
            handler(events)
            position = events[-1].number
            self._remember(position)

    def position(self) -> int:
        """Return the number of the last event that the reader has dealt with; 0 before the first."""
        with self._database.reading() as session:
            row = session.get(PositionRow, self._reader)
            return 0 if row is None else row.number

    def _remember(self, number: int) -> None:
        with self._database.writing(_LOCK) as session:
            row = session.get(PositionRow, self._reader)
            if row is None:
                session.add(PositionRow(reader=self._reader, number=number))
            else:
                row.number = max(row.number, number)
