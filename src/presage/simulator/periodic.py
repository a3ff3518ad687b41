"""Simulation of backfilling at intervals, as Slurm does it, on a pool of processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.policies import DynamicOrder, StaticOrder
from presage.simulator.pooled import job_view, ranked

if TYPE_CHECKING:
    from presage.policies import Order, PeriodicBackfill
    from presage.simulator._places import Pace
    from presage.simulator.jobs import IntArray, Jobs


def schedule_periodic(jobs: Jobs, processors: int, order: Order, settings: PeriodicBackfill) -> IntArray:
    """Return the start time of every job, in milliseconds on the jobs' own clock.

    Plans and limits are rounded up to whole units of the settings. What happens when is told in `_periodic`.
    """
    from presage.simulator import _periodic, _pooled

    rank, rule = np.zeros(len(jobs), np.int64), _pooled.STATIC
    if isinstance(order, StaticOrder):
        rank = ranked(order.scores(job_view(jobs)))[1]
    elif isinstance(order, DynamicOrder):
        rule = order.code

    # Processors that are only ever taken together count as one node.
    unit = int(np.gcd(np.gcd.reduce(jobs.processors), processors))
    unit_ms = _milliseconds(settings.limit_unit_s)
    start_ms = np.empty(len(jobs), np.int64)
    _periodic.run_periodic(
        jobs.submit_ms, jobs.run_ms, _rounded_up(jobs.plan_ms, unit_ms), _rounded_up(jobs.limit_ms, unit_ms),
        jobs.estimate_ms / 1000, jobs.processors, jobs.processors // unit, rank, rule, processors // unit,
        pace_of(settings, jobs), start_ms,
    )  # fmt: skip
    return start_ms


def pace_of(settings: PeriodicBackfill, jobs: Jobs) -> Pace:
    """Return the settings for the engine."""
    from presage.simulator._places import Pace

    return Pace(
        interval=_milliseconds(settings.interval_s),
        depth=settings.depth,
        window=_milliseconds(settings.window_s),
        resolution=_milliseconds(settings.resolution_s),
        precision=_milliseconds(settings.precision_s),
        main_depth=settings.main_depth,
        main_interval=_milliseconds(settings.main_interval_s),
        main_gap=_milliseconds(settings.main_gap_s),
        poll=_milliseconds(settings.poll_s),
        release=_milliseconds(settings.release_s),
        origin=int(jobs.submit_ms[0]),
    )


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _rounded_up(times_ms: IntArray, unit_ms: int) -> IntArray:
    return -(-times_ms // unit_ms) * unit_ms
