"""What happened to managed jobs goes back to where estimates come from.

A reader of the plane's events: predictions that came with a job are stored when it is handed over and settled as
it ends, and corrections are fitted anew when enough has happened. How far it has read is kept in the database; a
process that dies in between reads the same events again, which changes nothing that was done before.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from presage.errors import InputError, PresageError
from presage.estimators.refits.estimating import BASES
from presage.estimators.refits.kinds import kind_of
from presage.estimators.repository.carrying import read_predictions
from presage.orchestrator.bus._base import persist
from presage.orchestrator.bus.embedded import EmbeddedBus
from presage.orchestrator.bus.forwarding import Background
from presage.orchestrator.outcomes import outcome_of
from presage.orchestrator.rows import jobs_of_rows, where_in
from presage.orchestrator.tables import JobRow

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from presage.database import Database
    from presage.estimators._base import Quantity
    from presage.estimators.refits.kinds import JobKind
    from presage.estimators.repository import Repository
    from presage.estimators.repository.carrying import Carried
    from presage.orchestrator.jobs import ManagedJob
    from presage.orchestrator.store import Happened

log = logging.getLogger(__name__)

READER = "feedback"
_KINDS = frozenset({"handed-over", "ended", "finished"})
_PAUSE_S = 2.0
_PAUSES_S = (1.0, 60.0)
_FORGET_EVERY_S = 86_400.0


class FeedBack:
    """Learns from the events of a database; any number of them may, in any number of processes."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._forgot_at_s: float | None = None

    def run(self, stop: threading.Event) -> None:
        """Work until `stop`."""
        persist(self._learn, stop, _PAUSES_S, "What happened to jobs is not learned from yet")

    def _learn(self, stop: threading.Event) -> None:
        EmbeddedBus(self._repository.database, READER, pause_s=_PAUSE_S).consume(self.handle, stop)

    def handle(self, events: Sequence[Happened]) -> None:
        """Take in what some events tell; once more does no harm. Raises ConfigError, OutputError."""
        self._forget()
        job_ids = dict.fromkeys(event.job_id for event in events if event.kind in _KINDS)
        touched: dict[tuple[str, Quantity], JobKind] = {}
        for job in self._predicted(job_ids):
            try:
                for kind, quantity in self._settle(job):
                    touched[kind.digest, quantity] = kind
            except InputError as error:
                log.warning("Nothing is learned from job %s: %s", job.job_id, error)
            except PresageError:
                raise
            except Exception:
                log.exception("Nothing is learned from job %s", job.job_id)
        for (_, quantity), kind in touched.items():
            done = self._repository.refits.consider(kind, quantity)
            if done is not None:
                verdict = "in charge now" if done.took_over else "not in charge"
                log.info("%s %d is %s: %s", done.name, done.number, verdict, done.reason)

    def _predicted(self, job_ids: dict[str, None]) -> list[ManagedJob]:
        """Return those of the jobs that came with predictions."""
        if not job_ids:
            return []
        with self._repository.database.reading() as session:
            rows = [row for row in where_in(session, JobRow, job_ids) if row.order.get("predictions")]
            return jobs_of_rows(session, rows)

    def _settle(self, job: ManagedJob) -> list[tuple[JobKind, Quantity]]:
        """Store what was predicted of a job and what is known of how it went; returns what may be fitted anew."""
        return [
            found for each in read_predictions(job.order.predictions) if (found := self._settle_one(job, each))
        ]

    def _settle_one(self, job: ManagedJob, predicted: Carried) -> tuple[JobKind, Quantity] | None:
        predictions, quantity = self._repository.predictions, predicted.answer.quantity
        predictions.store(predicted.request, predicted.answer, job_key=job.job_id, at=job.created_at, once=True)
        actual = outcome_of(job, predicted.request)
        if actual is None:
            return None
        predictions.record_outcome(job.job_id, quantity, actual)
        kind = kind_of(predicted.request)
        return None if kind is None or quantity not in BASES else (kind, quantity)

    def _forget(self) -> None:
        now_s = time.monotonic()
        if self._forgot_at_s is None or now_s - self._forgot_at_s > _FORGET_EVERY_S:
            self._forgot_at_s = now_s
            self._repository.predictions.forget()


def start_feedback(database: Database) -> Background:
    """Learn from what happens to jobs from now on, from what happened since somebody last did first."""
    from presage.estimators.repository import Repository

    return Background(FeedBack(Repository(database)).run, "feedback", lambda: None)
