"""Forecasts for a cluster that is watched: events come in as they happen, questions are answered in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import ThreadpoolController

from presage.foundation.calibration import IntervalTracker, whole_s
from presage.foundation.forecasting import LEVELS, JobForecast, Quantiles
from presage.foundation.mixture import log_quantiles
from presage.foundation.view.jobs import OUTCOMES
from presage.foundation.view.live import JobRequest, LiveCluster
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from presage.foundation.model import Model
    from presage.foundation.view.seen import Seen
    from presage.traces.schema import Outcome

__all__ = ["JobRequest", "LiveForecaster"]


class LiveForecaster:
    """A model beside a cluster: tell it what happens, ask it about jobs.

    An event costs microseconds, a forecast about a millisecond. Intervals are recalibrated by the jobs that were
    forecast when they were submitted (`submit` does that): each start and end teaches the next forecasts.
    Times are seconds of the epoch.
    """

    def __init__(self, model: Model, *, processors: float | None = None, gpus: float | None = None) -> None:
        self.model = model
        self.cluster = LiveCluster(processors=processors, gpus=gpus)
        self.trackers = {task: IntervalTracker() for task in Task}
        self._pending: dict[Task, dict[str, tuple[float, float]]] = {task: {} for task in Task}
        self._began_s: dict[str, float] = {}
        self._waited_s: dict[str, float] = {}
        self._threads = ThreadpoolController()

    def submit(self, request: JobRequest, time_s: float, *, forecast: bool = True) -> JobForecast | None:
        """Put a job into the queue; returns its forecast, if one is wanted. Raises UsageError for a known id."""
        seen = self.cluster.submit(request, time_s)
        self._began_s[request.job_id] = time_s
        if not forecast:
            return None
        made = self._answer(request.job_id, "new", seen)
        for task, spread in ((Task.WAIT, made.wait_s), (Task.RUN, made.run_s)):
            if spread is not None:
                self._pending[task][request.job_id] = (spread.p10, spread.p90)
        return made

    def start(self, job_id: str, time_s: float) -> None:
        """Tell that a waiting job starts; of others nothing changes. Raises UsageError for an unknown job."""
        self.cluster.start(job_id, time_s)
        if job_id in self._waited_s or job_id not in self._began_s:
            return
        self._learn(Task.WAIT, job_id, time_s)
        self._waited_s[job_id] = time_s - self._began_s[job_id]
        self._began_s[job_id] = time_s

    def end(self, job_id: str, time_s: float, outcome: Outcome | None = None) -> None:
        """Tell that a job ends, or leaves the queue without having run. Raises UsageError for an unknown job."""
        had_started = job_id not in self._pending[Task.WAIT]
        self.cluster.end(job_id, time_s, outcome)
        if had_started:
            self._learn(Task.RUN, job_id, time_s)
        for pending in self._pending.values():
            pending.pop(job_id, None)
        self._began_s.pop(job_id, None)
        self._waited_s.pop(job_id, None)

    def forecast(self, about: JobRequest | str, time_s: float | None = None) -> JobForecast:
        """Forecast a known job as it stands now, or one that might be submitted now.

        Raises UsageError for an unknown job and for one that has ended.
        """
        seen = self.cluster.see(about, time_s)
        if not isinstance(about, str):
            return self._answer(about.job_id, "new", seen)
        return self._answer(about, "pending" if Task.WAIT in seen else "running", seen)

    def _answer(self, job_id: str, stands: str, seen: dict[Task, Seen]) -> JobForecast:
        spreads: dict[Task, Quantiles] = {}
        chances = None
        with self._threads.limit(limits=1, user_api="blas"):
            for task, one in seen.items():
                curves, ends = self.model.towers[task].answer(one)
                low, median, high = log_quantiles(curves, LEVELS)[0]
                low, high = self.trackers[task].adjust(low, median, high)
                spreads[task] = Quantiles(*(float(np.expm1(each)) for each in (low, median, high)))
                chances = ends if ends is not None else chances
        return JobForecast(
            job_id=job_id,
            stands=stands,
            asked_ms=round(self.cluster.now_s * 1000),
            wait_s=spreads.get(Task.WAIT),
            run_s=spreads[Task.RUN],
            outcome={} if chances is None else dict(zip(OUTCOMES, map(float, chances[0]), strict=True)),
            waited_s=float(seen[Task.WAIT].age_s[0]) if Task.WAIT in seen else self._waited_s[job_id],
            ran_s=float(seen[Task.RUN].age_s[0]),
        )

    def _learn(self, task: Task, job_id: str, time_s: float) -> None:
        """Take in how long a job that was forecast has waited or run."""
        interval = self._pending[task].pop(job_id, None)
        began_s = self._began_s.get(job_id)
        if interval is None or began_s is None:
            return
        took_s = time_s - began_s
        low_s, high_s = whole_s(np.array(interval))
        self.trackers[task].learn_low(missed=bool(took_s < low_s))
        self.trackers[task].learn_high(missed=bool(took_s > high_s))
