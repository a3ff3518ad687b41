"""Where the episodes of an environment come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, UsageError
from presage.simulator.jobs import jobs_of
from presage.simulator.simulation import machine_size
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.environments.failures import ProcessorChanges, ProcessorFailures
    from presage.simulator.jobs import Jobs, Knowledge
    from presage.traces import Trace

FEWEST_JOBS = 2
"""With one job there is nothing to choose."""


@dataclass(frozen=True)
class Episode:
    """Jobs on an empty machine. Raises UsageError if more processors fail or come back than there are."""

    jobs: Jobs
    processors: int
    users: NDArray[np.int64]
    """Of each job, numbered from 0."""
    deadline_ms: NDArray[np.int64] | None = None
    override: NDArray[np.bool_] | None = None
    """Which jobs an operator puts before all others; None: no job."""
    changes: ProcessorChanges | None = None
    """When processors fail and come back; None: never."""

    def __post_init__(self) -> None:
        if self.changes is not None:
            self.changes.check(self.processors)


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
    failures: ProcessorFailures | None = None
    override_share: float = 0.0
    """This share of the jobs, drawn anew for each episode, goes before all others."""
    _all: Jobs = field(init=False, repr=False, compare=False)
    _users: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_share(self.override_share)
        jobs = jobs_of(self.trace, order_by=self.order_by, kill=True)
        part = stretch(self.first, self.last, self.jobs, self.load, len(jobs))
        chosen = jobs.select(part)
        size = machine_size(self.trace, self.processors)
        if chosen.processors.max() > size:
            raise InputError(
                f"A job needs {chosen.processors.max():,} processors and the machine has {size:,}",
                remedy="Drop such jobs, or give more processors",
            )
        object.__setattr__(self, "_all", chosen)
        object.__setattr__(self, "_users", user_codes(self.trace)[part])
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
            jobs = at_load(jobs, jobs.processors, self._size, self.load)
        return Episode(
            jobs,
            self._size,
            self._users[part],
            deadlines(jobs, self.deadline_factor),
            override=overrides(rng, self.jobs, self.override_share),
            changes=None if self.failures is None else self.failures.draw(rng, jobs.submit_ms, self._size),
        )


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


def at_load(jobs: Jobs, amounts: NDArray[Any], of: int, load: float) -> Jobs:
    """Return the same jobs with gaps such that their amounts would keep this share of `of` busy."""
    work_ms = float((jobs.run_ms * amounts).sum())
    span_ms = max(float(jobs.submit_ms[-1] - jobs.submit_ms[0]), 1.0)
    factor = work_ms / of / load / span_ms
    since_ms = (jobs.submit_ms - jobs.submit_ms[0]) * factor
    return replace(jobs, submit_ms=jobs.submit_ms[0] + since_ms.astype(np.int64))


def stretch(first: float, last: float, jobs: int, load: float | None, of: int) -> slice:
    """Return the part of a trace of `of` jobs that episodes of `jobs` jobs come from.

    Raises UsageError for what no trace can give, InputError if the part has fewer jobs than an episode.
    """
    if not 0 <= first < last <= 1:
        raise UsageError(
            f"There is nothing between {first} and {last} of a trace", expected="0 <= first < last <= 1"
        )
    if jobs < FEWEST_JOBS or (load is not None and load <= 0):
        raise UsageError(
            f"Episodes cannot have {jobs} jobs at a load of {load}",
            expected=f"at least {FEWEST_JOBS} jobs, and a load above 0",
        )
    part = slice(int(first * of), int(last * of))
    if part.stop - part.start < jobs:
        raise InputError(
            f"The trace has {part.stop - part.start:,} jobs for episodes of {jobs:,}",
            remedy="Take shorter episodes, or more of the trace",
        )
    return part


def deadlines(jobs: Jobs, factor: float | None) -> NDArray[np.int64] | None:
    """Return until when each job should have ended, so many times its limit after its submit."""
    return None if factor is None else jobs.submit_ms + (factor * jobs.limit_ms).astype(np.int64)


def check_share(share: float) -> None:
    """Raise UsageError if this can be no share of the jobs."""
    if not 0 <= share <= 1:
        raise UsageError(f"No share of jobs is {share}", expected="a share between 0 and 1")


def overrides(rng: np.random.Generator, jobs: int, share: float) -> NDArray[np.bool_] | None:
    """Return which jobs an operator puts first, each as likely as any other; None, and nothing drawn, if none."""
    return rng.random(jobs) < share if share else None


def user_codes(trace: Trace) -> NDArray[np.int64]:
    """Return the user of each job, numbered from 0."""
    codes: NDArray[np.int64] = trace.jobs["user"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    return codes
