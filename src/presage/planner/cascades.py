"""A run that is longer than a job may be, as jobs that go on from each other's checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

MOST_JOBS = 200
_ROUNDING_S = 1e-6
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Overheads:
    """What leaving off and going on cost, in seconds."""

    save_s: float = 60.0
    """To write a checkpoint."""
    restart_s: float = 120.0
    """From the start of a job to where the checkpoint was written."""
    warning_s: float = 120.0
    """How long before its limit a job is told to save."""
    startup_s: float = 0.0
    """From the start of a node to the start of any job on it."""

    @property
    def reserve_s(self) -> float:
        """Time before the limit in which a job does no work, because it was told to save."""
        return max(self.save_s, self.warning_s)


USUAL_OVERHEADS = Overheads()


@dataclass(frozen=True)
class Piece:
    """One job of a run."""

    work_s: float
    """Of the run itself."""
    elapsed_s: float
    """From start to end, with startup, restart and save."""


def jobs_needed(
    run_s: float, limit_s: float | None, overheads: Overheads, *, restarted: bool = False
) -> int | None:
    """Return in how many jobs a run can be done; None if never, or only in more than MOST_JOBS.

    `restarted`: the first of them goes on from a checkpoint, too.
    """
    if limit_s is None:
        return 1
    first, later = _capacities(limit_s, overheads, restarted=restarted)
    if run_s <= first + _ROUNDING_S:
        return 1
    if later <= 0:
        return None
    more = (run_s - first) / later
    jobs = 1 + math.ceil(more - _ROUNDING) if more < MOST_JOBS else MOST_JOBS + 1
    return jobs if jobs <= MOST_JOBS else None


def split(
    run_s: float, limit_s: float | None, overheads: Overheads, *, restarted: bool = False
) -> tuple[Piece, ...]:
    """Return the jobs of a run, each but the last as long as it may be; none if there is no way to do it.

    Their work adds up to the run; their elapsed times add up to it, a startup of each, and one save and one
    restart between two, and before the first if `restarted`.
    """
    jobs = jobs_needed(run_s, limit_s, overheads, restarted=restarted)
    if jobs is None:
        return ()
    begin_s = overheads.startup_s + (overheads.restart_s if restarted else 0.0)
    if jobs == 1 or limit_s is None:
        return (Piece(run_s, begin_s + run_s),)
    first, later = _capacities(limit_s, overheads, restarted=restarted)
    fixed_s = overheads.startup_s + overheads.restart_s
    rest = run_s - first - (jobs - 2) * later
    return (
        Piece(first, begin_s + first + overheads.save_s),
        *(Piece(later, fixed_s + later + overheads.save_s) for _ in range(jobs - 2)),
        Piece(rest, fixed_s + rest),
    )


def longest_run(limit_s: float | None, overheads: Overheads, *, restarted: bool = False) -> float:
    """Return the longest run that MOST_JOBS could do."""
    if limit_s is None:
        return math.inf
    first, later = _capacities(limit_s, overheads, restarted=restarted)
    return max(0.0, first + (MOST_JOBS - 1) * max(0.0, later))


def _capacities(limit_s: float, overheads: Overheads, *, restarted: bool) -> tuple[float, float]:
    """Return the work that the first job and a later one can do before they are told to save."""
    whole = limit_s - overheads.startup_s - overheads.reserve_s
    later = whole - overheads.restart_s
    return later if restarted else whole, later


@dataclass(frozen=True)
class Night:
    """Hours in which a queue is assumed to be idle; what somebody says, not what was seen."""

    begins_h: int = 20
    ends_h: int = 8
    wait_s: float = 60.0

    def wait_at(self, moment: datetime, wait_s: float) -> float:
        """Return how long a job waits that is submitted at `moment`, if it would wait `wait_s` by day."""
        opening = self._opening(moment)
        if opening <= moment:
            return min(wait_s, self.wait_s)
        return min(wait_s, (opening - moment).total_seconds() + self.wait_s)

    def _opening(self, moment: datetime) -> datetime:
        """Return when the night begins that is, or comes next."""
        begins = moment.replace(hour=self.begins_h, minute=0, second=0, microsecond=0)
        ends = begins + timedelta(hours=(self.ends_h - self.begins_h) % 24)
        if begins - timedelta(days=1) <= moment < ends - timedelta(days=1):
            return begins - timedelta(days=1)
        return begins if moment < ends else begins + timedelta(days=1)


@dataclass(frozen=True)
class Queueing:
    """How the jobs of a run get through a queue."""

    ready_s: float = 0.0
    """When the first can be submitted, as when the data are there."""
    overlaps: bool = True
    """A job may be submitted while the one before it runs; else only once that has ended."""
    night: Night | None = None
    now: datetime | None = None
    """In the zone of the system; without it, nights do not count."""

    def wait_at(self, time_s: float, wait_s: float) -> float:
        """Return the wait of a job that is submitted `time_s` after now."""
        if self.night is None or self.now is None:
            return wait_s
        return self.night.wait_at(self.now + timedelta(seconds=time_s), wait_s)


@dataclass(frozen=True)
class Slot:
    """When one job is submitted, starts and ends, in seconds from now."""

    submit_s: float
    start_s: float
    end_s: float


def schedule(pieces: tuple[Piece, ...], wait_s: float, later_wait_s: float, queueing: Queueing) -> list[Slot]:
    """Return when each job would be where, if the first waits `wait_s` and every other one `later_wait_s`.

    A successor is submitted as long before the end of its predecessor as it will wait, but not before that one
    has started: so waiting and running overlap, and only what a wait is longer than a run is lost.
    """
    slots: list[Slot] = []
    for piece in pieces:
        if not slots:
            submit = queueing.ready_s
            start = submit + queueing.wait_at(submit, wait_s)
        else:
            before = slots[-1]
            submit = before.end_s - (later_wait_s if queueing.overlaps else 0.0)
            submit = max(submit, before.start_s)
            start = max(before.end_s, submit + queueing.wait_at(submit, later_wait_s))
        slots.append(Slot(submit, start, start + piece.elapsed_s))
    return slots
