"""What the plane must not forget, in the database. Every method is one short transaction.

A claim is the right to change a job, for a while. It is taken with a random token; whatever its holder did outside
is written only if the token is still there. So a plane that was too slow, or came back from the dead, changes
nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, or_, select, update

from presage.errors import unknown_job
from presage.orchestrator.backlog import Backlog, count_backlog
from presage.orchestrator.claims import Change, Claim
from presage.orchestrator.jobs import ManagedJob, Order, Phase, order_document
from presage.orchestrator.messages import MOST_UNREAD, add_message, messages_after, unread
from presage.orchestrator.rows import jobs_of_rows, keep_change, parts, plain_text, record_answers, tell, where_in
from presage.orchestrator.tables import ClusterRow, DecisionRow, EventRow, JobRow, SubJobRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sqlalchemy.orm import Session

    from presage.connectors._base import JobStatus
    from presage.database import Database

LOCK = "plane"


@dataclass(frozen=True)
class Happened:
    """One event of a job, for those who watch."""

    number: int
    job_id: str
    at: datetime
    kind: str
    values: dict[str, Any]


def utc_now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)


class Store:
    """Managed jobs in a database, shared by any number of planes."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now

    def add(self, owner: str, order: Order) -> ManagedJob:
        """Take a job over; it is due at once."""
        now = self._now()
        job = ManagedJob(f"j{uuid.uuid4().hex[:11]}", owner, order, Phase.ACTIVE, now)
        with self._database.writing(LOCK) as session:
            session.add(
                JobRow(
                    job_id=job.job_id,
                    owner=plain_text(owner),
                    name=plain_text(order.name),
                    order=order_document(order),
                    phase=job.phase.value,
                    reason="",
                    created_at=now,
                    due_at=now,
                )
            )
            session.flush()
            tell(session, job.job_id, now, "handed-over", {"owner": owner, "name": order.name})
        return job

    def get(self, job_id: str) -> ManagedJob:
        """Return a job. Raises UnknownNameError."""
        with self._database.reading() as session:
            row = session.get(JobRow, job_id)
            if row is None:
                raise unknown_job(job_id)
            return jobs_of_rows(session, [row])[0]

    def jobs(self, owner: str | None = None, *, active_only: bool = False, most: int = 1000) -> list[ManagedJob]:
        """Return jobs, the newest first; of one owner, if one is named."""
        wanted = select(JobRow).order_by(JobRow.created_at.desc()).limit(most)
        if owner is not None:
            wanted = wanted.where(JobRow.owner == owner)
        if active_only:
            wanted = wanted.where(JobRow.phase.in_([Phase.ACTIVE, Phase.STOPPING]))
        with self._database.reading() as session:
            return jobs_of_rows(session, session.scalars(wanted).all())

    def counts(self) -> dict[str, int]:
        """Return how many jobs there are of each phase."""
        wanted = select(JobRow.phase, func.count()).group_by(JobRow.phase)
        with self._database.reading() as session:
            return {row[0]: row[1] for row in session.execute(wanted)}

    def backlog(self) -> Backlog:
        """Return how much there is to do."""
        with self._database.reading() as session:
            return count_backlog(session, self._now())

    def stop(self, job_id: str) -> ManagedJob:
        """Have a job ended, on its owner's behalf; one that has ended is left alone. Raises UnknownNameError."""
        now = self._now()
        with self._database.writing(LOCK) as session:
            row = session.get(JobRow, job_id)
            if row is None:
                raise unknown_job(job_id)
            if row.phase == Phase.ACTIVE:
                row.phase, row.due_at = Phase.STOPPING.value, now
                tell(session, job_id, now, "stop-asked", {})
            return jobs_of_rows(session, [row])[0]

    def decisions(self, job_id: str) -> list[dict[str, Any]]:
        """Return what was decided about a job, in order."""
        wanted = select(DecisionRow).where(DecisionRow.job_id == job_id).order_by(DecisionRow.number)
        with self._database.reading() as session:
            return [
                {
                    "at": row.at.isoformat(),
                    "rule": row.rule,
                    "action": row.action,
                    "reason": row.reason,
                    "facts": row.facts,
                }
                for row in session.scalars(wanted)
            ]

    def events(self, after: int = 0, *, job_id: str | None = None, most: int = 1000) -> list[Happened]:
        """Return what happened since the event numbered `after`, in order."""
        wanted = select(EventRow).where(EventRow.number > after).order_by(EventRow.number).limit(most)
        if job_id is not None:
            wanted = wanted.where(EventRow.job_id == job_id)
        with self._database.reading() as session:
            return [
                Happened(row.number, row.job_id, row.at, row.kind, row.values) for row in session.scalars(wanted)
            ]

    def messages(self, job: ManagedJob) -> list[tuple[int, dict[str, Any]]]:
        """Return what a job told over the network since it was read last, numbered, in order."""
        with self._database.reading() as session:
            return messages_after(session, job.job_id, 0 if job.progress is None else job.progress.message)

    def add_messages(self, cluster: str, cluster_job_id: str, messages: Sequence[dict[str, Any]]) -> bool:
        """Keep what a job told its cluster; returns whether that was done, which too many unread ones prevent."""
        wanted = select(SubJobRow.job_id, SubJobRow.number).where(
            SubJobRow.cluster == cluster, SubJobRow.is_live, SubJobRow.cluster_job_id == cluster_job_id
        )
        with self._database.writing(LOCK) as session:
            found = session.execute(wanted).first()
            if found is None:
                return False
            (job,) = jobs_of_rows(session, [session.get_one(JobRow, found.job_id)])
            read_to = 0 if job.progress is None else job.progress.message
            if unread(session, job.job_id, read_to) + len(messages) > MOST_UNREAD:
                return False
            for message in messages:
                add_message(session, job.job_id, {**message, "sub_job": found.number}, read_to)
            return True

    def claim_jobs(self, plane: str, lease_s: float, most: int = 50, leave: Collection[str] = ()) -> list[Claim]:
        """Take the jobs that are due and that nobody looks after, but those to `leave` to other planes."""
        now = self._now()
        until = now + timedelta(seconds=lease_s)
        with self._database.reading() as session:
            if not _due(session, JobRow.job_id, now, 1, leave):
                return []  # without keeping those from writing who have something to write
        with self._database.writing(LOCK) as session:
            rows = _due(session, JobRow, now, most, leave)
            for row in rows:
                row.claim_token, row.claimed_by, row.claimed_until = uuid.uuid4().hex, plane, until
            return [
                Claim(job, row.claim_token or "", until, row.due_at, lease_s)
                for row, job in zip(rows, jobs_of_rows(session, rows), strict=True)
            ]

    def keep(self, changes: Sequence[Change], soon_s: float = 0.0) -> list[bool]:
        """Write jobs as the holders of their claims have left them; of each whether that was done.

        Nothing is written of a job whose claim is gone, or that has ended. A cluster that got a job, or was told
        to cancel one, is asked in `soon_s` at the latest.
        """
        now = self._now()
        with self._database.writing(LOCK) as session:
            ids = [change.claim.job.job_id for change in changes]
            rows = {row.job_id: row for row in where_in(session, JobRow, ids)}
            sub_rows = {(row.job_id, row.number): row for row in where_in(session, SubJobRow, ids)}
            news: set[str] = set()
            kept = [
                keep_change(session, change, rows.get(job_id), sub_rows, now, news)
                for change, job_id in zip(changes, ids, strict=True)
            ]
            soon = now + timedelta(seconds=soon_s)
            for cluster in news:
                watch = session.get(ClusterRow, cluster)
                if watch is not None:
                    watch.pause_s, watch.due_at = 0.0, min(watch.due_at, soon)
            return kept

    def renew(self, claim: Claim, lease_s: float) -> Claim | None:
        """Return the claim with more time; None if it is gone."""
        until = self._now() + timedelta(seconds=lease_s)
        with self._database.writing(LOCK) as session:
            row = session.get(JobRow, claim.job.job_id)
            if row is None or row.claim_token != claim.token:
                return None
            row.claimed_until = until
        return replace(claim, until=until)

    def release_claims_of(self, plane: str) -> None:
        """Give back what a plane of this name held before it died; only that plane itself may know that it did."""
        free = {"claim_token": None, "claimed_by": None, "claimed_until": None}
        with self._database.writing(LOCK) as session:
            session.execute(update(JobRow).where(JobRow.claimed_by == plane).values(**free))
            session.execute(update(ClusterRow).where(ClusterRow.claimed_by == plane).values(**free))

    def claim_cluster(self, name: str, plane: str, lease_s: float) -> str | None:
        """Take the right to ask a cluster, if it is due and nobody is asking; returns the token."""
        now = self._now()
        with self._database.reading() as session:
            row = session.get(ClusterRow, name)
            if row is not None and row.due_at > now:
                return None
        with self._database.writing(LOCK) as session:
            row = session.get(ClusterRow, name)
            if row is None:
                row = ClusterRow(name=name, due_at=now, pause_s=0.0)
                session.add(row)
            if row.due_at > now or (row.claimed_until is not None and row.claimed_until >= now):
                return None
            row.claim_token, row.claimed_by = uuid.uuid4().hex, plane
            row.claimed_until = now + timedelta(seconds=lease_s)
            return row.claim_token

    def live_on(self, cluster: str) -> list[str]:
        """Return the ids that a cluster gave to jobs that are not known to have ended."""
        wanted = select(SubJobRow.cluster_job_id).where(SubJobRow.cluster == cluster, SubJobRow.is_live)
        with self._database.reading() as session:
            return [job_id for job_id in session.scalars(wanted) if job_id is not None]

    def record_statuses(
        self,
        cluster: str,
        token: str,
        asked: Sequence[str],
        statuses: dict[str, JobStatus],
        *,
        pauses_s: tuple[float, float] = (0.0, 0.0),
        misses: int = 1,
    ) -> int:
        """Write what a cluster said of the jobs it was asked about, and wake those whose state is another.

        A job that it did not know is woken every so many `misses`. The cluster is left alone for the first of
        the pauses if something changed, else for twice as long as before, up to the second. Returns how many
        jobs were woken.
        """
        now = self._now()
        with self._database.writing(LOCK) as session:
            watch = session.get(ClusterRow, cluster)
            if watch is None or watch.claim_token != token:
                return 0
            answers = record_answers(session, cluster, set(asked), statuses)
            woken = {job_id for job_id, is_news, missed in answers if is_news or (missed and missed % misses == 0)}
            for part in parts(woken):
                session.execute(update(JobRow).where(JobRow.job_id.in_(part)).values(due_at=now))
            least_s, most_s = pauses_s
            changed = any(is_news for _, is_news, _ in answers)
            longer_s = min(most_s, max(least_s, 2 * watch.pause_s))
            watch.pause_s = least_s if changed or not asked else longer_s
            watch.due_at = now + timedelta(seconds=watch.pause_s)
            watch.claim_token = watch.claimed_by = watch.claimed_until = None
            return len(woken)

    def postpone_cluster(self, cluster: str, token: str, pauses_s: tuple[float, float]) -> None:
        """Leave a cluster alone that did not answer: for twice as long as before, between two bounds."""
        with self._database.writing(LOCK) as session:
            watch = session.get(ClusterRow, cluster)
            if watch is not None and watch.claim_token == token:
                watch.pause_s = min(pauses_s[1], max(pauses_s[0], 2 * watch.pause_s))
                watch.due_at = self._now() + timedelta(seconds=watch.pause_s)
                watch.claim_token = watch.claimed_by = watch.claimed_until = None


def _due(session: Session, what: Any, now: datetime, most: int, leave: Collection[str]) -> list[Any]:
    """Return what is due and free, those to be stopped first, then the longest due."""
    found: list[Any] = []
    # One phase at a time: the index then gives the jobs in their order, however many are due.
    for phase in (Phase.STOPPING, Phase.ACTIVE):
        wanted = (
            select(what)
            .where(JobRow.phase == phase, JobRow.due_at <= now)
            .where(or_(JobRow.claimed_until.is_(None), JobRow.claimed_until < now))
            .order_by(JobRow.due_at)
            .limit(most - len(found))
        )
        found += session.scalars(wanted.where(JobRow.job_id.not_in(list(leave))) if leave else wanted)
    return found
