"""What a scope is doing at one instant, in shares of its capacity: who runs, who waits, how long others waited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load.levels import CLASSES, HOUR_S, class_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.foundation.load.jobs import LoadJobs

    Floats = NDArray[np.float64]

RECENT_STARTS = 12
_OVERRUN_H = 0.25


@dataclass(frozen=True, eq=False)
class Present:
    """Shares, ages and run times (hours) of the jobs that run and of those that wait."""

    running: Floats
    running_age_h: Floats
    running_limit_h: Floats
    running_expected_h: Floats
    running_spread: Floats
    waiting: Floats
    waiting_age_h: Floats
    waiting_plan_h: Floats
    waiting_expected_h: Floats
    waiting_class: NDArray[np.intp]
    recent_wait: Floats
    """log(1 + wait in s) of recently started jobs, mean per size class; missing where nothing of it is known."""

    def drain_by_request(self, hours: Floats) -> Floats:
        """Return the share that is still held after so many hours if running jobs use all they asked for."""
        left = np.maximum(self.running_limit_h - self.running_age_h, _OVERRUN_H)
        held: Floats = (self.running * (left > hours[:, None])).sum(1)
        return held

    def drain_by_history(self, hours: Floats) -> Floats:
        """Return the share that should still be held after so many hours, by how long each user's jobs run.

        The run time of a job is taken as log-logistic around what is expected of it, given that it has lasted
        until now, and ends at its limit.
        """
        shape = 1.8 / self.running_spread
        gone = (self.running_age_h / self.running_expected_h) ** shape
        later = (self.running_age_h + hours[:, None]) / self.running_expected_h
        survives = (1 + gone) / (1 + later**shape)
        left = np.maximum(self.running_limit_h - self.running_age_h, _OVERRUN_H)
        held: Floats = (self.running * survives * (left > hours[:, None])).sum(1)
        return held


class Presents:
    """Finds the state at any instant of one table of jobs."""

    def __init__(self, jobs: LoadJobs, capacity: float) -> None:
        self._jobs = jobs
        self._capacity = capacity
        self._class = class_of(jobs.amount, capacity)
        self._expected_h = jobs.expected_s / HOUR_S
        self._plan_h = jobs.plan_s / HOUR_S
        self._starts = [self._starts_of(index) for index in range(len(CLASSES))]

    def at(self, now_s: float) -> Present:
        """Return the state at an instant; what happens later has no influence."""
        jobs = self._jobs
        arrived = int(np.searchsorted(jobs.submit_s, now_s, side="right"))
        active = np.flatnonzero(jobs.end_s[:arrived] > now_s)
        begun = jobs.begin_s[active] <= now_s
        runs, waits = active[begun & jobs.started[active]], active[~begun]
        return Present(
            running=jobs.amount[runs] / self._capacity,
            running_age_h=(now_s - jobs.begin_s[runs]) / HOUR_S,
            running_limit_h=jobs.limit_s[runs] / HOUR_S,
            running_expected_h=self._expected_h[runs],
            running_spread=jobs.spread[runs],
            waiting=jobs.amount[waits] / self._capacity,
            waiting_age_h=(now_s - jobs.submit_s[waits]) / HOUR_S,
            waiting_plan_h=self._plan_h[waits],
            waiting_expected_h=self._expected_h[waits],
            waiting_class=self._class[waits],
            recent_wait=self._recent_wait(now_s),
        )

    def _starts_of(self, index: int) -> tuple[Floats, Floats]:
        """Return when jobs of a size class started, in order, and log(1 + wait in s) of each."""
        jobs = self._jobs
        begun = np.flatnonzero(jobs.started & (self._class == index))
        begun = begun[np.argsort(jobs.begin_s[begun], kind="stable")]
        return jobs.begin_s[begun], np.log1p(jobs.begin_s[begun] - jobs.submit_s[begun])

    def _recent_wait(self, now_s: float) -> Floats:
        recent = []
        for start_s, log_wait in self._starts:
            last = int(np.searchsorted(start_s, now_s, side="right"))
            recent.append(log_wait[max(0, last - RECENT_STARTS) : last])
        return recent_means(recent)


def recent_means(waits: Sequence[Floats]) -> Floats:
    """Return the mean of each class with newer waits counting more; missing where there are none."""
    return np.array([_weighted(each) if len(each) else np.nan for each in waits])


def _weighted(values: Floats) -> float:
    weights = 0.8 ** np.arange(len(values))[::-1]
    return float((values * weights).sum() / weights.sum())
