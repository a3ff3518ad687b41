"""The load of one scope hour by hour: what time-series methods see of it.

Bin j covers the hour (first + j h, first + (j + 1) h]. Origin i is the instant at which bin i closes, so bins up
to i are known at origin i, and the bin at horizon h is i + h. Queue lengths and waiting work are kept as
logarithms, in which forecasts are made and measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.foundation.load.jobs import LoadJobs

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

HOUR_S = 3600.0
TARGETS = ("utilisation", "queue", "work")
CLASSES = ("small", "medium", "large")
TOLD_AFTER_H = 48
CLASS_EDGES = (0.01, 0.1)
"""A job is small up to the first share of the machine, large above the second."""
_WORK_SCALE = 10.0


@dataclass(frozen=True, eq=False)
class Levels:
    """Hourly means, all arrays with one entry per bin."""

    first_s: float
    capacity: float
    utilisation: Floats
    """Held share of the capacity."""
    queue: Floats
    """log(1 + waiting jobs)."""
    work: Floats
    """log(1 + 10 * waiting work), work in hours of the whole machine."""
    arrivals: Floats
    """Jobs submitted in the hour."""
    arriving_share: Floats
    """What they hold together, as a share of the capacity."""
    arriving_work: Floats
    """What they should need by the history of their users, in hours of the whole machine."""
    wait: Floats
    """(bins, 3): log(1 + wait in s) of the first job of each size class submitted in the bin; missing if there is
    none, if it waits still, or if it never started."""
    wait_told: Floats
    """(bins, 3): the same as known `TOLD_AFTER_H` later: who waits longer counts with that much."""

    def __len__(self) -> int:
        return len(self.utilisation)

    def of(self, target: str) -> Floats:
        """Return the series of a target."""
        series: Floats = getattr(self, target)
        return series

    def origin_s(self, origin: int) -> float:
        """Return the instant of an origin."""
        return self.first_s + (origin + 1) * HOUR_S

    def ceilings(self, origins: Ints) -> Floats:
        """Return (origins, 3): the highest that each target was until then."""
        highest = [np.maximum.accumulate(self.of(target))[origins] for target in TARGETS]
        return np.stack(highest, -1)

    def truth(self, target: str, origins: Ints, horizons: Ints) -> Floats:
        """Return what came, (origins, horizons) or, of waits, (…, 3); missing where the series ends before."""
        at = origins[:, None] + horizons[None, :]
        series = self.of(target)
        there = (at < len(series)).reshape(*at.shape, *(1,) * (series.ndim - 1))
        return np.where(there, series[np.minimum(at, len(series) - 1)], np.nan)


def work_level(machine_hours: Floats) -> Floats:
    """Return waiting work on the scale it is forecast on."""
    return np.log1p(_WORK_SCALE * machine_hours)


def machine_hours(level: Floats) -> Floats:
    """Return waiting work, in hours of the whole machine, from the scale it is forecast on."""
    return np.expm1(level) / _WORK_SCALE


def class_of(amount: Floats, capacity: float) -> NDArray[np.intp]:
    """Return the size class of jobs as an index into `CLASSES`."""
    return np.searchsorted(np.asarray(CLASS_EDGES) * (1 + 1e-9), amount / capacity, side="left")


def peak_amount(jobs: LoadJobs) -> float:
    """Return the most that jobs held at once."""
    instants = np.concatenate([jobs.begin_s, jobs.end_s])
    steps = np.concatenate([jobs.amount, -jobs.amount])
    finite = np.isfinite(instants)
    instants, steps = instants[finite], steps[finite]
    # At one instant, what ends leaves before what starts comes.
    order = np.lexsort((steps, instants))
    return float(np.cumsum(steps[order]).max(initial=0.0))


def hourly_levels(jobs: LoadJobs, capacity: float, last_s: float, bins: int) -> Levels:
    """Return the load in the `bins` hours before `last_s`."""
    first_s = last_s - bins * HOUR_S
    runs, share = jobs.taken(jobs.started), jobs.amount / capacity
    held = _mean_level(runs.begin_s, runs.end_s, runs.amount / capacity, first_s, bins)
    waiting = _mean_level(jobs.submit_s, jobs.begin_s, np.ones(len(jobs)), first_s, bins)
    work = _mean_level(jobs.submit_s, jobs.begin_s, share * jobs.plan_s / HOUR_S, first_s, bins)
    at = np.ceil((jobs.submit_s - first_s) / HOUR_S).astype(np.int64) - 1
    inside = (at >= 0) & (at < bins)
    wait, wait_told = _first_waits(jobs.taken(inside), at[inside], capacity, bins)

    def summed(weights: Floats) -> Floats:
        return np.bincount(at[inside], weights=weights[inside], minlength=bins).astype(np.float64)

    return Levels(
        first_s=first_s,
        capacity=capacity,
        utilisation=held,
        queue=np.log1p(waiting),
        work=work_level(work),
        arrivals=summed(np.ones(len(jobs))),
        arriving_share=summed(share),
        arriving_work=summed(share * jobs.expected_s / HOUR_S),
        wait=wait,
        wait_told=wait_told,
    )


def _mean_level(begin: Floats, end: Floats, amount: Floats, first_s: float, bins: int) -> Floats:
    level = _integral(begin, amount, first_s, bins) - _integral(end, amount, first_s, bins)
    # Sums of floats may miss zero by a hair.
    return np.maximum(level / HOUR_S, 0.0)


def _integral(instants: Floats, amount: Floats, first_s: float, bins: int) -> Floats:
    """Return, per bin, the integral of a staircase that rises by `amount` at `instants`."""
    offset = np.clip(instants - first_s, 0.0, bins * HOUR_S)
    at = np.minimum(offset // HOUR_S, bins - 1).astype(np.int64)
    risen = np.bincount(at, weights=amount, minlength=bins)
    within = np.bincount(at, weights=amount * ((at + 1) * HOUR_S - offset), minlength=bins)
    before = np.concatenate([[0.0], np.cumsum(risen)[:-1]])
    return within + before * HOUR_S


def _first_waits(jobs: LoadJobs, at: Ints, capacity: float, bins: int) -> tuple[Floats, Floats]:
    wait, told = np.full((bins, 3), np.nan), np.full((bins, 3), np.nan)
    rows = np.arange(len(jobs))[::-1]  # backwards, so that the first of a bin is written last
    place = at[rows], class_of(jobs.amount, capacity)[rows]
    waited = jobs.begin_s - jobs.submit_s
    # Who was cancelled while waiting tells nothing of how long the wait would have been.
    begun = np.log1p(waited, out=np.full(len(jobs), np.nan), where=jobs.started)
    patience = TOLD_AFTER_H * HOUR_S
    wait[place] = begun[rows]
    told[place] = np.where(waited > patience, np.log1p(patience), begun)[rows]
    return wait, told
