"""How good a schedule is."""

from __future__ import annotations

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
    last end.
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
    )


def bounded_slowdown(wait_s: FloatArray, run_s: FloatArray) -> FloatArray:
    """Return the bounded slowdown of every job."""
    slowdown: FloatArray = np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, TAU_S))
    return slowdown


def _percentiles(values: FloatArray, *percents: float) -> list[float]:
    return [float(value) for value in np.percentile(values, percents)]
