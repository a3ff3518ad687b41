"""Where the episodes of an environment come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import InputError, UsageError
from presage.simulator.jobs import jobs_of
from presage.simulator.simulation import machine_size
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.simulator.jobs import Jobs, Knowledge
    from presage.traces import Trace

FEWEST_JOBS = 2
"""With one job there is nothing to choose."""


@dataclass(frozen=True)
class Episode:
    """Jobs on an empty machine."""

    jobs: Jobs
    processors: int
    users: NDArray[np.int64]
    """Of each job, numbered from 0."""
    deadline_ms: NDArray[np.int64] | None = None


class Workload(ABC):
    """A source of episodes. The same generator state gives the same episode."""

    jobs: int
    """The most that an episode has."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Episode:
        """Return the next episode."""


@dataclass(frozen=True)
class Windows(Workload):
    """Stretches of consecutive jobs of a trace, from anywhere between `first` and `last` of it.

    With `load`, arrivals come so much faster or slower that their work is this share of what the machine can do.
    `order_by` says what decisions know of run times, as in `jobs_of`. Jobs end at their limits. Raises InputError
    if the trace has fewer jobs than an episode or a job larger than the machine.
    """

    trace: Trace
    jobs: int = 256
    first: float = 0.0
    last: float = 1.0
    load: float | None = None
    processors: int | None = None
    order_by: Knowledge = "requested"
    deadline_factor: float | None = None
    """A job is late if it ends later than so many times its limit after its submit; None: no deadlines."""
    _all: Jobs = field(init=False, repr=False, compare=False)
    _users: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last <= 1:
            raise UsageError(
                f"There is nothing between {self.first} and {self.last} of a trace",
                expected="0 <= first < last <= 1",
            )
        if self.jobs < FEWEST_JOBS or (self.load is not None and self.load <= 0):
            raise UsageError(
                f"Episodes cannot have {self.jobs} jobs at a load of {self.load}",
                expected=f"at least {FEWEST_JOBS} jobs, and a load above 0",
            )
        jobs = jobs_of(self.trace, order_by=self.order_by, kill=True)
        begin, end = int(self.first * len(jobs)), int(self.last * len(jobs))
        chosen = jobs.select(slice(begin, end))
        if len(chosen) < self.jobs:
            raise InputError(
                f"The trace has {len(chosen):,} jobs for episodes of {self.jobs:,}",
                remedy="Take shorter episodes, or more of the trace",
            )
        size = machine_size(self.trace, self.processors)
        if chosen.processors.max() > size:
            raise InputError(
                f"A job needs {chosen.processors.max():,} processors and the machine has {size:,}",
                remedy="Drop such jobs, or give more processors",
            )
        users = self.trace.jobs["user"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
        object.__setattr__(self, "_all", chosen)
        object.__setattr__(self, "_users", users[begin:end])
        object.__setattr__(self, "_size", size)

    @classmethod
    def generated(cls, model: str = "lublin", *, jobs: int = 256, of: int = 20_000, seed: int = 0) -> Windows:
        """Return windows of a trace of `of` jobs that a workload model makes."""
        return cls(make_model(model).generate(of, seed=seed), jobs=jobs)

    def draw(self, rng: np.random.Generator) -> Episode:
        begin = int(rng.integers(len(self._all) - self.jobs + 1))
        part = slice(begin, begin + self.jobs)
        jobs = self._all.select(part)
        if self.load is not None:
            jobs = _at_load(jobs, self._size, self.load)
        deadline_ms = None
        if self.deadline_factor is not None:
            deadline_ms = jobs.submit_ms + (self.deadline_factor * jobs.limit_ms).astype(np.int64)
        return Episode(jobs, self._size, self._users[part], deadline_ms)


@dataclass(frozen=True)
class Mixed(Workload):
    """Episodes of several sources, each as likely as any other."""

    sources: Sequence[Workload]
    jobs: int = field(init=False)

    def __post_init__(self) -> None:
        if not self.sources:
            raise UsageError("There are no sources to mix", expected="at least one workload")
        object.__setattr__(self, "jobs", max(source.jobs for source in self.sources))

    def draw(self, rng: np.random.Generator) -> Episode:
        return self.sources[int(rng.integers(len(self.sources)))].draw(rng)


def _at_load(jobs: Jobs, processors: int, load: float) -> Jobs:
    """Return the same jobs with gaps between submits such that this share of the machine would be busy."""
    work_ms = float((jobs.run_ms * jobs.processors).sum())
    span_ms = max(float(jobs.submit_ms[-1] - jobs.submit_ms[0]), 1.0)
    factor = work_ms / processors / load / span_ms
    since_ms = (jobs.submit_ms - jobs.submit_ms[0]) * factor
    return replace(jobs, submit_ms=jobs.submit_ms[0] + since_ms.astype(np.int64))
