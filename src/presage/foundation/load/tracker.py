"""A load forecast that keeps up with a live cluster: told of submits, starts and ends, it answers at once."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import UsageError
from presage.foundation.load.forecast import PAST_WEEKS, STRIDE_H, Hour, hours_of
from presage.foundation.load.jobs import NEWEST, NEWEST_ERROR, expected_log_run, logs_of, spread_of
from presage.foundation.load.learned import Learned, Settled
from presage.foundation.load.levels import CLASSES, HOUR_S, TOLD_AFTER_H, Levels, class_of, work_level
from presage.foundation.load.present import RECENT_STARTS, Present, recent_means
from presage.foundation.load.rows import DAY, LONGEST_H, WEEK, make_rows
from presage.foundation.load.site import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SERIES = ("held", "waiting", "work", "arrivals", "arriving_share", "arriving_work")


@dataclass
class _Job:
    submit_s: float
    share: float
    limit_s: float
    expected_s: float
    spread: float
    user: str
    size: int
    first_of: int | None
    """The bin of which it is the first job of its size class."""
    start_s: float | None = None

    @property
    def plan_h(self) -> float:
        return (self.limit_s if np.isfinite(self.limit_s) else self.expected_s) / HOUR_S


@dataclass
class _Average:
    """A moving average, missing until the first value."""

    value: float = np.nan
    count: int = 0

    def add(self, value: float, newest: float = NEWEST) -> None:
        self.value = value if not self.count else newest * value + (1 - newest) * self.value
        self.count += 1


class LoadTracker:
    """The hourly levels of one scope, kept up event by event.

    Events must come in the order of time (seconds on any clock); hours count from `first_s`. What `forecast` says
    is what `forecast_load` would say of the same jobs at the last full hour.
    """

    def __init__(self, capacity: float, first_s: float, *, model: Learned | None = None) -> None:
        if not 0 < capacity < np.inf:
            raise UsageError(f"A capacity of {capacity} cannot be forecast", expected="a positive number")
        self.capacity = float(capacity)
        self._first_s = self._at_s = float(first_s)
        self._model = model
        self._jobs: dict[str, _Job] = {}
        self._bins: dict[str, list[float]] = {name: [] for name in _SERIES}
        self._open = dict.fromkeys(_SERIES, 0.0)
        self._level = dict.fromkeys(_SERIES[:3], 0.0)
        self._waits: dict[tuple[int, int], tuple[float, float]] = {}
        self._recent = [deque[float](maxlen=RECENT_STARTS) for _ in CLASSES]
        self._users: dict[tuple[bool, str | None], _Average] = defaultdict(_Average)
        self._squares = _Average()
        self._rows: dict[int, Floats] = {}
        self._horizons = np.arange(1, LONGEST_H + 1)
        self._settled: tuple[int, Settled] | None = None

    def __len__(self) -> int:
        """Return how many hours are full."""
        return len(self._bins["held"])

    def submit(
        self, job_id: str, at_s: float, amount: float, *, limit_s: float | None = None, user: str = ""
    ) -> None:
        """Take in a job that waits from now on."""
        self._advance(at_s)
        limit = float(limit_s) if limit_s and limit_s > 0 else np.inf
        share = amount / self.capacity
        expected_s, spread = self._expect(limit, user)
        size = int(class_of(np.array([amount]), self.capacity)[0])
        place = (max(0, int(np.ceil((at_s - self._first_s) / HOUR_S)) - 1), size)
        is_first = place not in self._waits
        job = _Job(at_s, share, limit, expected_s, spread, user, size, place[0] if is_first else None)
        if is_first:
            self._waits[place] = (np.nan, np.log1p(TOLD_AFTER_H * HOUR_S))
        self._jobs[job_id] = job
        self._queue(job, 1)
        for name, value in zip(_SERIES[3:], (1.0, share, share * expected_s / HOUR_S), strict=True):
            self._open[name] += value

    def start(self, job_id: str, at_s: float) -> None:
        """Take in that a waiting job runs from now on; a job never heard of is passed over."""
        self._advance(at_s)
        job = self._jobs.get(job_id)
        if job is None or job.start_s is not None:
            return
        job.start_s = at_s
        self._queue(job, -1)
        self._level["held"] += job.share
        wait_s = at_s - job.submit_s
        self._recent[job.size].append(float(np.log1p(wait_s)))
        self._tell(job, float(np.log1p(wait_s)), wait_s)

    def end(self, job_id: str, at_s: float) -> None:
        """Take in that a job is gone: it has ended, or was cancelled while it waited."""
        self._advance(at_s)
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        if job.start_s is None:
            self._queue(job, -1)
            self._tell(job, np.nan, at_s - job.submit_s)
            return
        self._level["held"] -= job.share
        if at_s > job.start_s:
            self._learn(job, at_s - job.start_s)

    def forecast(self, now_s: float) -> tuple[Hour, ...]:
        """Return the next 24 hours, seen from the last full hour before `now_s`.

        Milliseconds, but for once a day, when the past is looked at anew. Raises UsageError before the first hour
        is full.
        """
        self._advance(now_s, closing=True)
        if not len(self):
            raise UsageError("No hour is full yet", remedy="Ask again an hour after the first event")
        last = len(self) - 1
        levels = self._levels()
        if self._settled is None or last - self._settled[0] >= DAY:
            origins = np.array([origin for origin in self._rows if (last - origin) % STRIDE_H == 0])
            begin = max(0, len(self) - PAST_WEEKS * WEEK)
            site = Site(levels, origins - begin, self._horizons, np.stack([self._rows[each] for each in origins]))
            self._model = self._model or Learned()
            self._settled = (last, self._model.settle(site))
        quantiles = self._settled[1].forecast(self._rows[last])
        origin_s = self._first_s + len(self) * HOUR_S
        return hours_of(quantiles, levels, origin_s, self._horizons, has_queue=True)

    def _queue(self, job: _Job, sign: int) -> None:
        self._level["waiting"] += sign
        self._level["work"] += sign * job.share * job.plan_h

    def _tell(self, job: _Job, log_wait: float, wait_s: float) -> None:
        if job.first_of is not None and (job.first_of, job.size) in self._waits:
            patience = TOLD_AFTER_H * HOUR_S
            told = float(np.log1p(patience)) if wait_s > patience else log_wait
            self._waits[job.first_of, job.size] = (log_wait, told)

    def _expect(self, limit_s: float, user: str) -> tuple[float, float]:
        limited = bool(np.isfinite(limit_s))
        everybody, own = self._users[limited, None], self._users[limited, user]
        log_limit = logs_of(np.array([0.0]), np.array([limit_s]))[1]
        averages = (np.array([value]) for value in (everybody.value, own.value, float(own.count)))
        log_expected = expected_log_run(log_limit, np.array([limited]), *averages)
        return float(np.exp(log_expected[0])), float(spread_of(np.array([self._squares.value]))[0])

    def _learn(self, job: _Job, run_s: float) -> None:
        limited = bool(np.isfinite(job.limit_s))
        log_run, log_limit = (float(each[0]) for each in logs_of(np.array([run_s]), np.array([job.limit_s])))
        for key in ((limited, None), (limited, job.user)):
            self._users[key].add(log_run - log_limit)
        self._squares.add(float(np.square(log_run - np.log(job.expected_s))), NEWEST_ERROR)

    def _advance(self, to_s: float, *, closing: bool = False) -> None:
        """Let time pass; an hour that ends now is full only when nothing more can happen in it."""
        if to_s < self._at_s:
            raise UsageError(
                f"An event at {to_s:,.0f} s comes after one at {self._at_s:,.0f} s", expected="events in order"
            )
        while (end_s := self._first_s + (len(self) + 1) * HOUR_S) < to_s or (closing and end_s <= to_s):
            self._integrate(end_s)
            for name, values in self._bins.items():
                values.append(self._open[name])
                self._open[name] = 0.0
            last = len(self) - 1
            begin = max(0, len(self) - PAST_WEEKS * WEEK)
            self._rows[last] = make_rows(self._levels(), last - begin, self._present(end_s), self._horizons)
            self._rows.pop(begin - 1, None)
            for size in range(len(CLASSES)):
                self._waits.pop((begin - 1, size), None)
        self._integrate(to_s)

    def _integrate(self, to_s: float) -> None:
        for name, level in self._level.items():
            self._open[name] += level * (to_s - self._at_s) / HOUR_S
        self._at_s = to_s

    def _levels(self) -> Levels:
        begin = max(0, len(self) - PAST_WEEKS * WEEK)
        held, waiting, work, arrivals, share, needed = (np.array(self._bins[name][begin:]) for name in _SERIES)
        wait, told = np.full((len(held), 3), np.nan), np.full((len(held), 3), np.nan)
        for (place, size), values in self._waits.items():
            if begin <= place < len(self):
                wait[place - begin, size], told[place - begin, size] = values
        return Levels(
            self._first_s + begin * HOUR_S,
            self.capacity,
            np.maximum(held, 0.0),
            np.log1p(np.maximum(waiting, 0.0)),
            work_level(np.maximum(work, 0.0)),
            arrivals,
            share,
            needed,
            wait,
            told,
        )

    def _present(self, now_s: float) -> Present:
        runs = [(job.share, now_s - job.start_s, job.limit_s, job.expected_s, job.spread)
                for job in self._jobs.values() if job.start_s is not None]  # fmt: skip
        waits = [(job.share, now_s - job.submit_s, job.plan_h, job.expected_s, job.size)
                 for job in self._jobs.values() if job.start_s is None]  # fmt: skip
        running = np.array(runs, np.float64).reshape(-1, 5).T
        waiting = np.array(waits, np.float64).reshape(-1, 5).T
        return Present(
            running=running[0],
            running_age_h=running[1] / HOUR_S,
            running_limit_h=running[2] / HOUR_S,
            running_expected_h=running[3] / HOUR_S,
            running_spread=running[4],
            waiting=waiting[0],
            waiting_age_h=waiting[1] / HOUR_S,
            waiting_plan_h=waiting[2],
            waiting_expected_h=waiting[3] / HOUR_S,
            waiting_class=waiting[4].astype(np.intp),
            recent_wait=recent_means([np.array(each) for each in self._recent]),
        )
