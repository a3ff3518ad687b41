"""A machine as a tank: waiting and arriving work flows in as running jobs drain, hour by hour.

It knows no single job. It is no forecast either, but a hint to one: what the next hours would be if work could be
poured, arrivals kept to their rhythm, and the machine filled as far as it usually does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Flow:
    """What waits and what comes; shares are of the capacity."""

    waiting_jobs: float
    waiting_share: float
    waiting_run_h: float
    ceiling: float
    """How full the machine gets while jobs wait."""


def pour(flow: Flow, drain: Floats, arrivals: Floats, arriving_share: Floats, arriving_run_h: float) -> Floats:
    """Return (hours, 3): held share, waiting jobs and waiting share in each coming hour.

    `drain` is the share that the jobs which run now still hold in each hour, `arrivals` and `arriving_share` the
    jobs that come in each hour and what they hold.
    """
    jobs, share, run_h = flow.waiting_jobs, flow.waiting_share, max(flow.waiting_run_h, 0.1)
    poured = 0.0
    out = np.empty((len(drain), 3))
    for hour in range(len(drain)):
        coming = float(arriving_share[hour])
        before = share + coming
        run_h = (run_h * share + arriving_run_h * coming) / before if before > 0 else run_h
        poured *= math.exp(-1.0 / max(run_h, 0.1))
        room = max(0.0, flow.ceiling - float(drain[hour]) - poured)
        starting = min(before, room)
        poured += starting
        # Of jobs shorter than an hour, only a part is there at any instant of it.
        held = float(drain[hour]) + poured * min(1.0, max(run_h, 0.1))
        jobs = (jobs + float(arrivals[hour])) * ((before - starting) / before if before > 0 else 0.0)
        share = before - starting
        out[hour] = held, jobs, share
    return out
