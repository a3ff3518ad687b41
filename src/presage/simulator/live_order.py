"""One decision on a live machine: in which order its queue should go now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import InputError
from presage.simulator.look_ahead import LookAhead, Tally, inputs_of, tally_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.policies.run_forecasts import RunForecasts
    from presage.simulator import _look_ahead
    from presage.simulator.jobs import FloatArray, IntArray, Jobs


@dataclass(frozen=True)
class LiveQueue:
    """A machine at one instant, with the jobs that run on it or wait for it."""

    now_ms: int
    processors: int
    free: int
    """Processors on which jobs can start now. With those of the running jobs they may be fewer than all."""
    jobs: Jobs
    """In the order of their submits. How long they will really run is not looked at."""
    forecasts: RunForecasts
    running: IntArray
    """The rows of the jobs that run; all others wait."""
    begun_ms: IntArray
    """When each of them began."""
    users: IntArray | None = None
    """Of each job, numbered from 0."""
    used: FloatArray | None = None
    """What each user had of the machine of late, in processor seconds; nobody had anything if not given."""
    urgent: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if len(self.running) != len(self.begun_ms) or len(self.forecasts) != len(self.jobs):
            raise InputError(
                f"{len(self.running)} jobs run and {len(self.begun_ms)} began; {len(self.jobs)} jobs have "
                f"{len(self.forecasts)} forecasts",
                expected="when each running job began, and a forecast for every job",
            )
        if len(self.jobs) and (np.diff(self.jobs.submit_ms).min(initial=0) < 0 or self.free < 0):
            raise InputError(
                f"Jobs are not in the order of their submits, or fewer than 0 processors are free ({self.free})"
            )

    @property
    def waiting(self) -> IntArray:
        """The rows of the jobs that wait, in the order of their submits."""
        waits = np.ones(len(self.jobs), np.bool_)
        waits[self.running] = False
        return np.flatnonzero(waits)


@dataclass(frozen=True)
class LiveOrder:
    """Who goes next."""

    rows: IntArray
    """The jobs that wait, first things first; those that fit on no machine that is up come last."""
    winner: int
    """Whose order it is: the place of a candidate."""
    tally: Tally
    """What it took."""


def order_now(live: LiveQueue, look_ahead: LookAhead) -> LiveOrder:
    """Return the order in which the queue should go now; it takes at most the looks that `look_ahead` allows.

    `every_s` and `Switches` have no meaning here: whoever asks has decided to ask.
    """
    from presage.simulator import _look_ahead

    waiting = live.waiting
    usable = live.free + int(live.jobs.processors[live.running].sum())
    fits = live.jobs.processors[waiting] <= usable
    queue, never = waiting[fits], waiting[~fits]
    counts = np.zeros(_look_ahead.COUNTS, np.int64)
    wins = np.zeros(len(look_ahead.candidates), np.int64)
    if not len(queue):
        return LiveOrder(never, 0, tally_of(counts, wins))
    work, candidates, looking = inputs_of(
        live.jobs, live.processors, look_ahead, [live.forecasts], users=live.users, urgent=live.urgent
    )
    scores, winner = _look_ahead.next_scores(
        work, candidates, looking, queue, _present(live), _look_ahead.NOBODY, counts, wins
    )
    rows = queue[np.argsort(scores, kind="stable")]
    return LiveOrder(np.concatenate([rows, never]), max(int(winner), 0), tally_of(counts, wins))


def _present(live: LiveQueue) -> _look_ahead.Present:
    from presage.simulator._look_ahead import Present
    from presage.simulator._structures import GRACE_MS

    jobs, rows = live.jobs, live.running
    elapsed_ms = live.now_ms - live.begun_ms
    planned_ms = live.begun_ms + jobs.plan_ms[rows]
    renewed_ms = live.begun_ms + np.minimum(jobs.limit_ms[rows], 2 * elapsed_ms + GRACE_MS)
    planned_ms = np.where(planned_ms <= live.now_ms, np.maximum(renewed_ms, live.now_ms + 1), planned_ms)
    by_end = np.argsort(planned_ms, kind="stable")
    start_ms = np.zeros(len(jobs), np.int64)
    start_ms[rows] = live.begun_ms
    users = 1 if live.users is None else int(live.users.max()) + 1
    used = np.zeros(users) if live.used is None else live.used * 1000.0
    return Present(
        live.now_ms, live.free, live.processors, 0,
        used, np.full(len(used), live.now_ms, np.int64), np.array([used.sum(), live.now_ms]),
        planned_ms[by_end], rows[by_end], len(rows), start_ms, len(jobs),
    )  # fmt: skip
