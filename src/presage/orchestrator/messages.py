"""What jobs told over the network, kept until the plane has read it. Works within a transaction of its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select

from presage.client.callbacks import TOKEN_VARIABLE
from presage.orchestrator.tables import MessageRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from presage.orchestrator.jobs import ManagedJob

MOST_UNREAD = 1000
"""Of one job."""


def unread(session: Session, job_id: str, after: int = 0) -> int:
    """Return how many messages of a job are kept, of those after a number."""
    return session.scalar(select(func.count()).where(MessageRow.job_id == job_id, MessageRow.number > after)) or 0


def add_message(session: Session, job_id: str, document: dict[str, Any], read_to: int) -> None:
    """Keep a message; those before the number that was read last are forgotten."""
    # The last one read stays: SQLite would give its number to the next, which would then count as read.
    session.execute(delete(MessageRow).where(MessageRow.job_id == job_id, MessageRow.number < read_to))
    session.add(MessageRow(job_id=job_id, document=document))


def forget_messages(session: Session, job: ManagedJob) -> None:
    """Forget what a job told that has ended."""
    if TOKEN_VARIABLE in job.order.environment or (job.progress is not None and job.progress.message):
        session.execute(delete(MessageRow).where(MessageRow.job_id == job.job_id))


def messages_after(session: Session, job_id: str, after: int) -> list[tuple[int, dict[str, Any]]]:
    """Return the messages of a job that were not read, with their numbers, in order."""
    wanted = (
        select(MessageRow.number, MessageRow.document)
        .where(MessageRow.job_id == job_id, MessageRow.number > after)
        .order_by(MessageRow.number)
        .limit(MOST_UNREAD)
    )
    return [(row[0], row[1]) for row in session.execute(wanted)]
