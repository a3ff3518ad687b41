"""How much there is to do, by what the database has: for those who keep the planes running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from presage.orchestrator.jobs import Phase
from presage.orchestrator.tables import DecisionRow, EventRow, JobRow, MessageRow, SubJobRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session


@dataclass(frozen=True)
class Backlog:
    """Numbers over all planes and services on a database."""

    due: int
    """Jobs that somebody should have looked at by now."""
    live: dict[str, int]
    """Jobs on each cluster that are not known to have ended."""
    events: int
    """So far, as all that follow."""
    decisions: int
    messages: int
    """What jobs told over the network and is kept."""
    behind: dict[str, int]
    """By how many events each reader of them is behind."""


def count_backlog(session: Session, now: datetime) -> Backlog:
    """Return how much there is to do, within a transaction of the caller."""
    from presage.orchestrator.bus.tables import PositionRow

    def number(wanted: Any) -> int:
        return session.scalar(wanted) or 0

    due = select(func.count()).where(JobRow.phase.in_([Phase.ACTIVE, Phase.STOPPING]), JobRow.due_at <= now)
    live = select(SubJobRow.cluster, func.count()).where(SubJobRow.is_live).group_by(SubJobRow.cluster)
    # Rows of these are never taken away: the last number is how many there are.
    events = number(select(func.max(EventRow.number)))
    return Backlog(
        due=number(due),
        live={row[0]: row[1] for row in session.execute(live)},
        events=events,
        decisions=number(select(func.max(DecisionRow.number))),
        messages=number(select(func.count()).select_from(MessageRow)),
        behind={row.reader: max(0, events - row.number) for row in session.scalars(select(PositionRow))},
    )
