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

from pydantic import TypeAdapter
from sqlalchemy import func, or_, select, update

from presage.connectors._base import JobStatus
from presage.errors import UnknownNameError
from presage.orchestrator.jobs import (
    FINAL,
    ManagedJob,
    Order,
    Phase,
    Progress,
    SubJob,
    order_document,
    parse_order,
)
from presage.orchestrator.tables import ClusterRow, DecisionRow, EventRow, JobRow, SubJobRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.orm import Session

    from presage.database import Database
    from presage.orchestrator.rules import Decision

LOCK = "plane"
_SUB_JOB: TypeAdapter[SubJob] = TypeAdapter(SubJob)
_STATUS: TypeAdapter[JobStatus] = TypeAdapter(JobStatus)
_PROGRESS: TypeAdapter[Progress] = TypeAdapter(Progress)


@dataclass(frozen=True)
class Claim:
    """The right to change a job until then."""

    job: ManagedJob
    token: str
    until: datetime
    due_at: datetime
    """What was due when it was taken; who wakes the job meanwhile changes it."""


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
        job = ManagedJob(uuid.uuid4().hex[:12], owner, order, Phase.ACTIVE, now)
        with self._database.writing(LOCK) as session:
            session.add(
                JobRow(
                    job_id=job.job_id,
                    owner=owner,
                    name=order.name,
                    order=order_document(order),
                    phase=job.phase.value,
                    reason="",
                    created_at=now,
                    due_at=now,
                )
            )
            session.flush()
            _tell(session, job.job_id, now, "handed-over", {"owner": owner, "name": order.name})
        return job

    def get(self, job_id: str) -> ManagedJob:
        """Return a job. Raises UnknownNameError."""
        with self._database.reading() as session:
            row = session.get(JobRow, job_id)
            if row is None:
                raise UnknownNameError("job", job_id, [])
            return _job(session, row)

    def jobs(self, owner: str | None = None, *, active_only: bool = False, most: int = 1000) -> list[ManagedJob]:
        """Return jobs, the newest first; of one owner, if one is named."""
        wanted = select(JobRow).order_by(JobRow.created_at.desc()).limit(most)
        if owner is not None:
            wanted = wanted.where(JobRow.owner == owner)
        if active_only:
            wanted = wanted.where(JobRow.phase.in_([Phase.ACTIVE, Phase.STOPPING]))
        with self._database.reading() as session:
            return [_job(session, row) for row in session.scalars(wanted)]

    def counts(self) -> dict[str, int]:
        """Return how many jobs there are of each phase."""
        wanted = select(JobRow.phase, func.count()).group_by(JobRow.phase)
        with self._database.reading() as session:
            return {row[0]: row[1] for row in session.execute(wanted)}

    def stop(self, job_id: str) -> ManagedJob:
        """Have a job ended, on its owner's behalf; one that has ended is left alone. Raises UnknownNameError."""
        now = self._now()
        with self._database.writing(LOCK) as session:
            row = session.get(JobRow, job_id)
            if row is None:
                raise UnknownNameError("job", job_id, [])
            if row.phase == Phase.ACTIVE:
                row.phase, row.due_at = Phase.STOPPING.value, now
                _tell(session, job_id, now, "stop-asked", {})
            return _job(session, row)

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

    def claim_jobs(self, plane: str, lease_s: float, most: int = 20) -> list[Claim]:
        """Take the jobs that are due and that nobody looks after."""
        now = self._now()
        until = now + timedelta(seconds=lease_s)
        due = (
            select(JobRow)
            .where(JobRow.phase.in_([Phase.ACTIVE, Phase.STOPPING]), JobRow.due_at <= now)
            .where(or_(JobRow.claimed_until.is_(None), JobRow.claimed_until < now))
            .order_by(JobRow.due_at)
            .limit(most)
        )
        with self._database.writing(LOCK) as session:
            claims = []
            for row in session.scalars(due).all():
                row.claim_token, row.claimed_by, row.claimed_until = uuid.uuid4().hex, plane, until
                claims.append(Claim(_job(session, row), row.claim_token, until, row.due_at))
            return claims

    def keep(
        self,
        claim: Claim,
        job: ManagedJob,
        *,
        decision: Decision | None = None,
        events: Iterable[tuple[str, dict[str, Any]]] = (),
        release_until: datetime | None = None,
    ) -> bool:
        """Write a job as its claim's holder has left it; False, and nothing written, if the claim is gone.

        With `release_until` the claim is given back, and the job is due then, unless somebody has woken it since.
        """
        now = self._now()
        with self._database.writing(LOCK) as session:
            row = session.get(JobRow, claim.job.job_id)
            if row is None or row.claim_token != claim.token or row.phase in FINAL:
                return False
            was_stopped = row.phase == Phase.STOPPING and job.phase is Phase.ACTIVE
            row.phase = row.phase if was_stopped else job.phase.value
            row.reason = job.reason
            row.progress = None if job.progress is None else _PROGRESS.dump_python(job.progress, mode="json")
            for sub_job in job.sub_jobs:
                _keep_sub_job(session, job.job_id, sub_job, is_over=job.phase in FINAL)
            for kind, values in events:
                _tell(session, job.job_id, now, kind, values)
            if decision is not None:
                _keep_decision(session, job.job_id, now, decision)
            if release_until is not None:
                row.claim_token = row.claimed_by = row.claimed_until = None
                if row.due_at == claim.due_at and not was_stopped:
                    row.due_at = release_until
            return True

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
        pause_s: Callable[[bool], float],
    ) -> int:
        """Write what a cluster said of the jobs it was asked about, and wake those whose state is another.

        `pause_s` says how long to leave the cluster alone, given whether anything changed. Returns how many did.
        """
        now = self._now()
        with self._database.writing(LOCK) as session:
            watch = session.get(ClusterRow, cluster)
            if watch is None or watch.claim_token != token:
                return 0
            rows = session.scalars(select(SubJobRow).where(SubJobRow.cluster == cluster, SubJobRow.is_live)).all()
            known = set(asked)
            changed = [row.job_id for row in rows if row.cluster_job_id in known and _take_status(row, statuses)]
            if changed:
                session.execute(update(JobRow).where(JobRow.job_id.in_(changed)).values(due_at=now))
            watch.pause_s = pause_s(bool(changed))
            watch.due_at = now + timedelta(seconds=watch.pause_s)
            watch.claim_token = watch.claimed_by = watch.claimed_until = None
            return len(changed)

    def postpone_cluster(self, cluster: str, token: str, pause_s: float) -> None:
        """Leave a cluster alone for a while that did not answer."""
        with self._database.writing(LOCK) as session:
            watch = session.get(ClusterRow, cluster)
            if watch is not None and watch.claim_token == token:
                watch.due_at, watch.pause_s = self._now() + timedelta(seconds=pause_s), pause_s
                watch.claim_token = watch.claimed_by = watch.claimed_until = None

    def pause_of(self, cluster: str) -> float:
        """Return how long the last pause between two questions was."""
        with self._database.reading() as session:
            row = session.get(ClusterRow, cluster)
            return row.pause_s if row is not None else 0.0


def _job(session: Session, row: JobRow) -> ManagedJob:
    subs = session.scalars(select(SubJobRow).where(SubJobRow.job_id == row.job_id).order_by(SubJobRow.number))
    return ManagedJob(
        job_id=row.job_id,
        owner=row.owner,
        order=parse_order(row.order),
        phase=Phase(row.phase),
        created_at=row.created_at,
        sub_jobs=tuple(_sub_job(each) for each in subs),
        progress=None if row.progress is None else _PROGRESS.validate_python(row.progress),
        reason=row.reason,
    )


def _sub_job(row: SubJobRow) -> SubJob:
    status = None if row.status is None else _STATUS.validate_python(row.status)
    return replace(_SUB_JOB.validate_python(row.document), status=status, misses=row.misses)


def _keep_sub_job(session: Session, job_id: str, sub_job: SubJob, *, is_over: bool) -> None:
    document = _SUB_JOB.dump_python(replace(sub_job, status=None, misses=0), mode="json")
    row = session.get(SubJobRow, (job_id, sub_job.number))
    if row is None:
        row = SubJobRow(
            job_id=job_id, number=sub_job.number, key=sub_job.key, cluster=sub_job.place.cluster, misses=0
        )
        session.add(row)
    row.document = document
    row.cluster_job_id = sub_job.cluster_job_id
    row.is_live = sub_job.ending is None and not is_over


def _keep_decision(session: Session, job_id: str, now: datetime, decision: Decision) -> None:
    session.add(
        DecisionRow(
            job_id=job_id,
            at=now,
            rule=decision.rule,
            action=decision.action.value,
            reason=decision.reason,
            facts=decision.facts,
        )
    )
    _tell(
        session,
        job_id,
        now,
        "decided",
        {"rule": decision.rule, "action": decision.action.value, "reason": decision.reason},
    )


def _take_status(row: SubJobRow, statuses: dict[str, JobStatus]) -> bool:
    """Write what was said of a job; returns whether its state is another than before."""
    status = statuses.get(row.cluster_job_id or "")
    if status is None:
        row.misses += 1
        return True
    row.misses = 0
    before = row.status
    row.status = _STATUS.dump_python(status, mode="json")
    # A cluster that answers out of order does not take back an end.
    if before is not None and _STATUS.validate_python(before).is_final and not status.is_final:
        row.status = before
        return False
    return before is None or before["state"] != row.status["state"]


def _tell(session: Session, job_id: str, now: datetime, kind: str, values: dict[str, Any]) -> None:
    session.add(EventRow(job_id=job_id, at=now, kind=kind, values=values))
