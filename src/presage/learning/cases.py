"""Stretches of a log on its machine, with all that decisions may be told: what policies are learned on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from presage.errors import InputError, UsageError
from presage.learning.forecasts import forecast_runs
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider, Switches, schedule_guided
from presage.simulator.jobs import Jobs, jobs_of
from presage.simulator.simulation import machine_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from presage.foundation.model import Tower
    from presage.traces import Trace

    Ints = NDArray[np.int64]

Told = Literal["forecast", "requested", "actual"]
"""What an order goes by; reservations always go by requests."""
WINDOW_JOBS = 1024
FEWEST_JOBS = 50


@dataclass(frozen=True)
class Case:
    """Jobs that end at their limits, on an empty machine."""

    name: str
    jobs: Jobs
    processors: int
    users: Ints
    """Numbered from 0."""
    forecasts: RunForecasts

    def __len__(self) -> int:
        return len(self.jobs)

    def told(self, what: Told) -> RunForecasts:
        """Return what an order may know of run times."""
        if what == "forecast":
            return self.forecasts
        return RunForecasts.certain((self.jobs.limit_ms if what == "requested" else self.jobs.run_ms) / 1000)

    def run(self, decider: Decider, *told: Told, switches: Switches | None = None) -> Ints:
        """Return when each job starts, in milliseconds; `told` is by default the forecast."""
        known = [self.told(what) for what in told or ("forecast",)]
        return schedule_guided(self.jobs, self.processors, decider, known, users=self.users, switches=switches)

    def select(self, rows: slice | Ints) -> Case:
        """Return some of the jobs, in the order of their submits."""
        return replace(
            self,
            jobs=self.jobs.select(rows),
            users=np.unique(self.users[rows], return_inverse=True)[1].astype(np.int64),
            forecasts=self.forecasts.select(rows),
        )

    def between(self, first: float, last: float) -> Case:
        """Return the jobs between two shares of the case, like 0.6 and 1."""
        return self.select(slice(int(first * len(self)), int(last * len(self))))

    def windows(self, count: int, jobs: int = WINDOW_JOBS) -> list[Case]:
        """Return windows that begin at even distances, as many as asked for, also if they overlap."""
        return [self.select(slice(begin, begin + jobs)) for begin in self._begins(count, jobs)]

    def in_windows(self, count: int, jobs: int = WINDOW_JOBS) -> Case:
        """Return the same windows as one case: each comes when the one before is over, whatever the order was."""
        begins = self._begins(count, jobs)
        chosen = self.select((begins[:, None] + np.arange(jobs)).ravel())
        submit_ms = chosen.jobs.submit_ms.reshape(count, jobs)
        # Even if its jobs ran one by one, from the last submit on.
        over_ms = submit_ms[:, -1] - submit_ms[:, 0] + chosen.jobs.run_ms.reshape(count, jobs).sum(axis=1) + 1
        apart_ms = submit_ms - submit_ms[:, :1] + (np.cumsum(over_ms) - over_ms)[:, None]
        return replace(chosen, jobs=replace(chosen.jobs, submit_ms=apart_ms.ravel()))

    def _begins(self, count: int, jobs: int) -> Ints:
        if len(self) < jobs:
            raise InputError(f"There are {len(self):,} jobs for windows of {jobs:,}", remedy="Use a longer log")
        return np.linspace(0, len(self) - jobs, count).astype(np.int64)

    @property
    def load(self) -> float:
        """The share of the machine that the work needs while jobs come."""
        span_ms = max(float(self.jobs.submit_ms[-1] - self.jobs.submit_ms[0]), 1.0)
        return float((self.jobs.run_ms * self.jobs.processors).sum()) / (self.processors * span_ms)

    def at_load(self, load: float) -> Case:
        """Return the same jobs, coming so much faster or slower that the load is this."""
        begin_ms = self.jobs.submit_ms[0]
        since_ms = (self.jobs.submit_ms - begin_ms) * (self.load / load)
        return replace(self, jobs=replace(self.jobs, submit_ms=begin_ms + since_ms.astype(np.int64)))

    def marks(self) -> dict[str, Any]:
        """Return by what it is known again: all that changes what is learned from it, for JSON."""
        jobs, told = self.jobs, self.forecasts
        # Forecasts by their means: the last digits of a network's answers depend on the machine that it runs on.
        means = (np.log(np.maximum(each, 1e-12)).mean() for each in (told.expected_s, told.median_s, told.inverse))
        return {
            "processors": self.processors,
            "jobs": f"{len(jobs)}-{digest_of(jobs.submit_ms, jobs.run_ms, jobs.limit_ms, jobs.processors)}",
            "users": digest_of(self.users),
            "forecasts": [round(float(mean), 3) for mean in means],
        }


def digest_of(*arrays: Any) -> str:
    """Return a short digest of numbers."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def case_of(
    trace: Trace,
    tower: Tower | Mapping[int, Tower],
    *,
    processors: int | None = None,
    first: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Case:
    """Return the jobs of a trace from a share of it on, each forecast as it was submitted.

    Of several networks, each forecasts from the job with its number on (see `relearning`). Raises InputError if
    jobs lack what a simulation needs or are too few, UsageError if `first` is no share or nobody says how large
    the machine is.
    """
    if not 0 <= first < 1:
        raise UsageError(f"A trace cannot begin at {first} of itself", expected="a share from 0 up to 1")
    jobs, size = jobs_of(trace, kill=True), machine_size(trace, processors)
    begin = int(first * len(jobs))
    if len(jobs) - begin < FEWEST_JOBS:
        raise InputError(
            f"{len(jobs) - begin:,} jobs are too few to judge a policy", expected=f"at least {FEWEST_JOBS}"
        )
    users = trace.jobs["user"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    return Case(
        trace.manifest.name,
        jobs.select(slice(begin, None)),
        size,
        users[begin:],
        forecast_runs(trace, tower, first=begin, progress=progress),
    )
