"""Jobs as rows of the database, and back. Every function works within a transaction of its caller."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from sqlalchemy import select, update

from presage.connectors._base import ACTIVE, JobStatus
from presage.orchestrator.jobs import FINAL, ManagedJob, Phase, Progress, SubJob, stored_order
from presage.orchestrator.messages import forget_messages
from presage.orchestrator.tables import DecisionRow, EventRow, JobRow, SubJobRow
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy.orm import Session

    from presage.orchestrator.claims import Change
    from presage.orchestrator.rules import Decision

_SUB_JOB: TypeAdapter[SubJob] = TypeAdapter(SubJob)
_STATUS: TypeAdapter[JobStatus] = TypeAdapter(JobStatus)
_PROGRESS: TypeAdapter[Progress] = TypeAdapter(Progress)
_IDS_PER_QUERY = 500
"""SQLite takes no more than some thousands of values in a statement."""


def parts(ids: Iterable[str]) -> Iterator[list[str]]:
    """Give ids in parts that fit into one statement."""
    listed = list(ids)
    for start in range(0, len(listed), _IDS_PER_QUERY):
        yield listed[start : start + _IDS_PER_QUERY]


def where_in(session: Session, table: Any, job_ids: Iterable[str]) -> Iterator[Any]:
    """Give the rows of these jobs, in no order."""
    for part in parts(job_ids):
        yield from session.scalars(select(table).where(table.job_id.in_(part)))


def jobs_of_rows(session: Session, rows: Sequence[JobRow]) -> list[ManagedJob]:
    """Return jobs with their sub-jobs, read at once, in the order of the rows."""
    sub_jobs: dict[str, list[SubJobRow]] = {row.job_id: [] for row in rows}
    for sub_row in where_in(session, SubJobRow, list(sub_jobs)):
        sub_jobs[sub_row.job_id].append(sub_row)
    return [_job(row, sorted(sub_jobs[row.job_id], key=lambda each: each.number)) for row in rows]


def _job(row: JobRow, subs: Iterable[SubJobRow]) -> ManagedJob:
    return ManagedJob(
        job_id=row.job_id,
        owner=row.owner,
        order=stored_order(row.order),
        phase=Phase(row.phase),
        created_at=row.created_at,
        sub_jobs=tuple(_sub_job(each) for each in subs),
        progress=None if row.progress is None else _PROGRESS.validate_python(row.progress),
        reason=row.reason,
    )


def _sub_job(row: SubJobRow) -> SubJob:
    status = None if row.status is None else _STATUS.validate_python(row.status)
    return replace(_SUB_JOB.validate_python(row.document), status=status, misses=row.misses)


def keep_change(
    session: Session,
    change: Change,
    row: JobRow | None,
    sub_rows: dict[tuple[str, int], SubJobRow],
    now: datetime,
    news: set[str],
) -> bool:
    """Write one change; clusters that got something to do are added to `news`."""
    claim, job = change.claim, change.job
    if row is None or row.claim_token != claim.token or row.phase in FINAL:
        return False
    was_stopped = row.phase == Phase.STOPPING and job.phase is Phase.ACTIVE
    if was_stopped and change.unless_stopped:
        return False
    row.phase = row.phase if was_stopped else job.phase.value
    row.reason = plain_text(job.reason)
    row.progress = None if job.progress is None else _PROGRESS.dump_python(job.progress, mode="json")
    before = {each.number: each for each in claim.job.sub_jobs}
    is_over = job.phase in FINAL
    if is_over:
        forget_messages(session, job)
    for sub_job in job.sub_jobs:
        old = before.get(sub_job.number)
        if is_over or sub_job != old:
            _keep_sub_job(session, job.job_id, sub_job, sub_rows, is_over=is_over)
            if _is_news(old, sub_job):
                news.add(sub_job.place.cluster)
    for kind, values in change.events:
        tell(session, job.job_id, now, kind, values)
    if change.decision is not None:
        _keep_decision(session, job.job_id, now, change.decision)
    if change.release_until is None:
        row.claimed_until = now + timedelta(seconds=claim.lease_s)
    else:
        row.claim_token = row.claimed_by = row.claimed_until = None
        if row.due_at == claim.due_at and not was_stopped:
            row.due_at = change.release_until
    return True


def _is_news(old: SubJob | None, new: SubJob) -> bool:
    """Whether a cluster was told something about a job whose effect it should be asked about soon."""
    known = None if old is None else old.cluster_job_id
    cancelled = old is not None and old.is_cancelled_by_us
    return new.cluster_job_id != known or new.is_cancelled_by_us != cancelled


def _keep_sub_job(
    session: Session, job_id: str, sub_job: SubJob, rows: dict[tuple[str, int], SubJobRow], *, is_over: bool
) -> None:
    row = rows.get((job_id, sub_job.number))
    if row is None:
        row = SubJobRow(
            job_id=job_id, number=sub_job.number, key=sub_job.key, cluster=sub_job.place.cluster, misses=0
        )
        session.add(row)
        rows[job_id, sub_job.number] = row
    row.document = _SUB_JOB.dump_python(replace(sub_job, status=None, misses=0), mode="json")
    row.cluster_job_id = sub_job.cluster_job_id
    row.is_live = sub_job.ending is None and not is_over


def _keep_decision(session: Session, job_id: str, now: datetime, decision: Decision) -> None:
    session.add(
        DecisionRow(
            job_id=job_id,
            at=now,
            rule=decision.rule,
            action=decision.action.value,
            reason=plain_text(decision.reason),
            facts=_plain(decision.facts),
        )
    )


def record_answers(
    session: Session, cluster: str, asked: set[str], statuses: dict[str, JobStatus]
) -> list[tuple[str, bool, int]]:
    """Write what was said of live jobs; of each its managed job, whether its state is another, and its misses."""
    columns = (
        SubJobRow.job_id, SubJobRow.number, SubJobRow.cluster_job_id, SubJobRow.status, SubJobRow.misses
    )  # fmt: skip
    answers, changed = [], []
    for job_id, number, there, before, missed in session.execute(
        select(*columns).where(SubJobRow.cluster == cluster, SubJobRow.is_live)
    ):
        if there not in asked:
            continue
        status, misses = _taken(before, statuses.get(there)), 0 if there in statuses else missed + 1
        if status != before or misses != missed:
            changed.append({"job_id": job_id, "number": number, "status": status, "misses": misses})
        state = None if before is None else before["state"]
        answers.append((job_id, status is not None and status["state"] != state, misses))
    if changed:
        session.execute(update(SubJobRow), changed)
    return answers


def _taken(before: dict[str, Any] | None, said: JobStatus | None) -> dict[str, Any] | None:
    """Return what is known of a job now. A cluster that answers out of order does not take back an end."""
    if said is None or (before is not None and not said.is_final and Outcome(before["state"]) not in ACTIVE):
        return before
    status: dict[str, Any] = _plain(_STATUS.dump_python(said, mode="json"))
    return status


def tell(session: Session, job_id: str, now: datetime, kind: str, values: dict[str, Any]) -> None:
    """Write an event, for those who watch."""
    session.add(EventRow(job_id=job_id, at=now, kind=plain_text(kind), values=_plain(values)))


def _plain(value: Any) -> Any:
    """Return a value as every database takes it in a document: without numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def plain_text(text: str) -> str:
    """Return a text as every database takes it: without NUL and halves of characters."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()
