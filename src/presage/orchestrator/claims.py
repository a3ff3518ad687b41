"""Claims: the right to change a job, for a while, and what was made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from presage.orchestrator.jobs import ManagedJob
    from presage.orchestrator.rules import Decision


@dataclass(frozen=True)
class Claim:
    """The right to change a job until then."""

    job: ManagedJob
    token: str
    until: datetime
    due_at: datetime
    """What was due when it was taken; who wakes the job meanwhile changes it."""
    lease_s: float
    """How much longer it lasts each time that its holder writes something."""


@dataclass(frozen=True)
class Change:
    """What the holder of a claim has made of a job."""

    claim: Claim
    job: ManagedJob
    decision: Decision | None = None
    events: tuple[tuple[str, dict[str, Any]], ...] = ()
    release_until: datetime | None = None
    """Gives the claim back; the job is due then, unless somebody has woken it since."""
    unless_stopped: bool = False
    """Write nothing if its owner wants it ended by now."""
