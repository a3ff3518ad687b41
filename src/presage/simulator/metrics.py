"""How good a schedule is."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from presage.simulator.jobs import FloatArray, IntArray, Jobs

TAU_S = 10.0
"""Run times below this count as this in the bounded slowdown, so that trivial jobs do not decide it."""


@dataclass(frozen=True)
class Metrics:
    """Totals of a schedule. Waits and responses are in seconds, over all jobs, each counting once.

    response = wait + run (job completion time); slowdown = response / run; bounded slowdown =
    max(1, response / max(run, 10 s)); utilization = work / (processors x makespan); makespan = first submit to
    last end. Means over time, of the queue and of the backlog, are over the makespan.
    """

    jobs: int
    mean_wait_s: float
    median_wait_s: float
    p90_wait_s: float
    p99_wait_s: float
    max_wait_s: float
    mean_response_s: float
    median_response_s: float
    mean_slowdown: float
    mean_bounded_slowdown: float
    median_bounded_slowdown: float
    p99_bounded_slowdown: float
    utilization: float
    makespan_s: float
    waited_share: float
    """Share of jobs that did not start at once."""
    mean_queue_length: float
    max_queue_length: int
    mean_backlog_cpu_s: float
    """The backlog is the work of the jobs that wait, in processor seconds."""
    max_backlog_cpu_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics for JSON."""
        return asdict(self)


def measure(jobs: Jobs, start_ms: IntArray, processors: int) -> Metrics:
    """Return the metrics of the schedule in which each job starts at `start_ms`."""
    wait_s = (start_ms - jobs.submit_ms) / 1000
    run_s = jobs.run_ms / 1000
    response_s = wait_s + run_s
    bounded = bounded_slowdown(wait_s, run_s)
    makespan_s = float((start_ms + jobs.run_ms).max() - jobs.submit_ms.min()) / 1000
    work = float((run_s * jobs.processors).sum())
    median_wait_s, p90_wait_s, p99_wait_s = _percentiles(wait_s, 50, 90, 99)
    median_bounded, p99_bounded = _percentiles(bounded, 50, 99)
    _, levels = _staircases(jobs, start_ms, np.ones(len(jobs)), run_s * jobs.processors)
    most_waiting, most_work = (float(level.max()) for level in levels)
    return Metrics(
        jobs=len(jobs),
        mean_wait_s=float(wait_s.mean()),
        median_wait_s=median_wait_s,
        p90_wait_s=p90_wait_s,
        p99_wait_s=p99_wait_s,
        max_wait_s=float(wait_s.max()),
        mean_response_s=float(response_s.mean()),
        median_response_s=_percentiles(response_s, 50)[0],
        mean_slowdown=float((response_s / run_s).mean()),
        mean_bounded_slowdown=float(bounded.mean()),
        median_bounded_slowdown=median_bounded,
        p99_bounded_slowdown=p99_bounded,
        utilization=work / (processors * makespan_s),
        makespan_s=makespan_s,
        waited_share=float((wait_s > 0).mean()),
        # Every job is in the queue for its wait, so the area under the queue's length is the sum of the waits.
        mean_queue_length=float(wait_s.sum()) / makespan_s,
        max_queue_length=round(most_waiting),
        mean_backlog_cpu_s=float((wait_s * run_s * jobs.processors).sum()) / makespan_s,
        max_backlog_cpu_s=max(0.0, most_work),
    )


def queue_length(jobs: Jobs, start_ms: IntArray) -> tuple[IntArray, IntArray]:
    """Return instants in order, and how many jobs wait from each of them on until the next.

    The first instant is the first submit. A job that starts at once never waits; at one instant only what is left
    after all arrivals and starts counts.
    """
    times_ms, levels = _staircase(jobs, start_ms, np.ones(len(jobs)))
    return times_ms, np.round(levels).astype(np.int64)


def backlog(jobs: Jobs, start_ms: IntArray) -> tuple[IntArray, FloatArray]:
    """Return instants in order, and the work of the waiting jobs from each on, in processor seconds."""
    times_ms, levels = _staircase(jobs, start_ms, jobs.run_ms / 1000 * jobs.processors)
    return times_ms, np.maximum(levels, 0.0)


def _staircase(jobs: Jobs, start_ms: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return instants in order, and the sum of the amounts of the jobs that wait from each on."""
    times_ms, (levels,) = _staircases(jobs, start_ms, amounts)
    return times_ms, levels


def _staircases(jobs: Jobs, start_ms: IntArray, *amounts: FloatArray) -> tuple[IntArray, list[FloatArray]]:
    """Return instants in order, and for each of the amounts the sum over the jobs that wait from each on."""
    instants = np.concatenate([jobs.submit_ms, start_ms])
    times_ms, at = np.unique(instants, return_inverse=True)
    changes = (np.bincount(at, weights=np.concatenate([amount, -amount])) for amount in amounts)
    return times_ms, [np.cumsum(change) for change in changes]


def bounded_slowdown(wait_s: FloatArray, run_s: FloatArray) -> FloatArray:
    """Return the bounded slowdown of every job."""
    slowdown: FloatArray = np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, TAU_S))
    return slowdown


def _percentiles(values: FloatArray, *percents: float) -> list[float]:
    """Return what np.percentile does, to the last bit, in a tenth of its time: episodes of learners are short."""
    ordered = np.sort(values)
    last = len(ordered) - 1
    found = []
    for percent in percents:
        place = last * (percent / 100)
        below = math.floor(place)
        part = place - below
        low, high = float(ordered[below]), float(ordered[min(below + 1, last)])
        found.append(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))
    return found


def gini(values: FloatArray) -> float:
    """Return the Gini coefficient of values from 0 on: 0 if all are alike, towards 1 if one has everything."""
    return float(ginis(values.reshape(-1, 1))[0])


def jain(values: FloatArray) -> float:
    """Return Jain's index of fairness of values from 0 on: 1 if all are alike, 1/n if one of n has everything."""
    return float(jains(values.reshape(-1, 1))[0])


def ginis(values: FloatArray) -> FloatArray:
    """Return the Gini coefficient of each column, NaN not counted."""
    ordered = np.sort(values, axis=0)
    there = ~np.isnan(ordered)
    count = there.sum(axis=0)
    total = np.nansum(ordered, axis=0)
    ranks = np.arange(1, len(ordered) + 1).reshape(-1, 1)
    weighted = np.nansum(ordered * ranks, axis=0)
    coefficients = np.zeros(len(count))
    np.divide(2 * weighted - (count + 1) * total, count * total, out=coefficients, where=count * total > 0)
    return coefficients


def jains(values: FloatArray) -> FloatArray:
    """Return Jain's index of each column, NaN not counted."""
    total = np.nansum(values, axis=0)
    squares = (~np.isnan(values)).sum(axis=0) * np.nansum(values**2, axis=0)
    indices = np.ones(values.shape[1])
    np.divide(total**2, squares, out=indices, where=squares > 0)
    return indices
