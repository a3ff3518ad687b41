"""Orders learned for machines that keep to a choice, as those of RLScheduler do: see `Semantics.COMMIT`.

A scorer is searched for by evolution (CMA-ES). Every generation runs on other stretches of jobs, since one run is
one draw of a sum with a heavy tail, and what does best on a fixed set was mostly lucky there.

Its choices may be rehearsed before they are made, since none can be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from presage.errors import UsageError
from presage.learning.search import require_cma
from presage.policies.committed_scorer import OF_THE_JOB, CommittedScorer
from presage.simulator.metrics import bounded_slowdown
from presage.simulator.pooled import check_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from presage.simulator.jobs import FloatArray, IntArray, Jobs

_OFTEN_ONE = {"share_of_machine", "fits", "share_left_free"}
"""Numbers that go from 0 to 1: their weights are searched more widely than those of logarithms."""
_KEPT = 3
"""What is found is the mean of the search's centres over the last 1 / `_KEPT` of all generations."""


@dataclass(frozen=True)
class Rehearsal:
    """How a choice is tried out: the coming day is played through, jobs coming as on earlier days of the run.

    Of the best by score, that one is chosen with which all jobs together gain the least slowdown by waiting. In
    the first day of a run the scorer decides alone.
    """

    candidates: int = 4
    days: int = 3
    """So many of the last days come again, each by itself."""

    def __post_init__(self) -> None:
        if self.candidates < 2 or self.days < 1:
            raise UsageError(
                f"A rehearsal of {self.candidates} candidates on {self.days} days decides nothing",
                expected="at least 2 candidates and 1 day",
            )


@dataclass(frozen=True, eq=False)
class Stretch:
    """Jobs that come to an empty machine, and whose they are."""

    jobs: Jobs
    processors: int
    users: IntArray
    """Numbered from 0. Runs of a user's jobs that have ended tell about the others."""
    kinds: IntArray
    """Jobs of one kind have the same user and request."""

    @classmethod
    def of(cls, jobs: Jobs, processors: int, users: NDArray[np.generic] | None = None) -> Stretch:
        """Return jobs by submit on a machine; without users no job tells about another.

        Raises InputError if a job is larger than the machine, UsageError if there is not one user for each job.
        """
        check_sizes(jobs, processors)
        if users is not None and len(users) != len(jobs):
            raise UsageError(f"There are {len(users):,} users", expected=f"one for each of {len(jobs):,} jobs")
        numbers = _numbered(np.arange(len(jobs)) if users is None else users)
        kinds = np.stack([numbers, jobs.limit_ms], axis=1)
        return cls(jobs, processors, numbers, _numbered(kinds))

    def __len__(self) -> int:
        return len(self.jobs)

    def run(self, scorer: CommittedScorer, *, backfilling: bool, rehearsal: Rehearsal | None = None) -> IntArray:
        """Return when each job starts, in milliseconds, if the scorer chooses.

        Raises UsageError for a rehearsal with backfilling, which is not rehearsed.
        """
        from presage.simulator import _committing
        from presage.simulator._moments import new_machines
        from presage.simulator.choices import BY_ARRIVAL, NONE

        if rehearsal and backfilling:
            raise UsageError(
                "Nothing is backfilled in a rehearsal", expected="backfilling or a rehearsal, not both"
            )
        jobs = self.jobs
        machine = new_machines(1, len(jobs))
        machine.submit[0], machine.run[0], machine.size[0] = jobs.submit_ms, jobs.run_ms, jobs.processors
        machine.plan[0], machine.limit[0] = jobs.plan_ms, jobs.limit_ms
        requested_s = np.maximum(jobs.limit_ms / 1000, 1.0)
        _committing.run_committed(
            machine, len(jobs), self.processors, BY_ARRIVAL if backfilling else NONE,
            _committing.Work(requested_s, self.users, self.kinds), scorer.weights,
            min(rehearsal.candidates, len(jobs)) if rehearsal else 0, rehearsal.days if rehearsal else 0,
        )  # fmt: skip
        start_ms: IntArray = machine.start[0].copy()
        return start_ms

    def slowdown(self, scorer: CommittedScorer, *, backfilling: bool, rehearsal: Rehearsal | None = None) -> float:
        """Return the mean bounded slowdown if the scorer chooses. Raises as `run` does."""
        start_ms = self.run(scorer, backfilling=backfilling, rehearsal=rehearsal)
        jobs = self.jobs
        return float(bounded_slowdown((start_ms - jobs.submit_ms) / 1000, jobs.run_ms / 1000).mean())


def _numbered(values: NDArray[np.generic]) -> IntArray:
    """Return a number from 0 on for each row, the same for equal rows."""
    numbers: IntArray = np.unique(values, axis=0, return_inverse=True)[1].astype(np.int64).ravel()
    return numbers


@dataclass(frozen=True)
class CommittedSearch:
    """How long and how widely to search."""

    backfilling: bool = True
    average: Literal["log", "plain"] = "log"
    """Of the slowdowns of several stretches: that of their logarithms, or that in which the worst decide."""
    generations: int = 40
    population: int = 12
    stretches: int = 24
    """On how many a generation runs; those of the next are drawn anew."""
    spread: float = 0.3
    keep: float = 0.02
    """The price of a weight's square distance from where the search began."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.generations < 1 or self.population < 4 or self.stretches < 1:
            raise UsageError(
                f"{self.generations} generations of {self.population} on {self.stretches} stretches find nothing",
                expected="at least 1 generation, 4 candidates and 1 stretch",
            )


def search_committed(
    stretches: Sequence[Stretch],
    search: CommittedSearch | None = None,
    *,
    start: CommittedScorer | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> CommittedScorer:
    """Return the scorer that a search from `start` on ended with; by default it starts at the smallest area.

    A candidate costs the logarithm of its average slowdown on the stretches of its generation over that of the
    first scorer. `progress` is told the generation, how many there will be, and the median cost. The same seed
    gives the same scorer.
    """
    cma = require_cma()
    search = search or CommittedSearch()
    if not stretches:
        raise UsageError("There is nothing to search on", expected="at least one stretch of jobs")
    start = start or CommittedScorer()
    draw = np.random.default_rng(search.seed)
    options = {
        "seed": search.seed + 1, "popsize": search.population, "verbose": -9, "maxiter": search.generations,
        "tolflatfitness": 10**9, "tolfun": 0, "tolfunhist": 0, "tolx": 0, "tolstagnation": 10**9,
    }  # fmt: skip
    strategy = cma.CMAEvolutionStrategy(np.zeros(len(OF_THE_JOB)), search.spread, options)
    centres = []
    for generation in range(search.generations):
        chosen = draw.choice(len(stretches), min(search.stretches, len(stretches)), replace=False)
        judged = [stretches[at] for at in chosen]
        usual = log_average(judged, start, search)
        candidates = strategy.ask()
        costs = [
            log_average(judged, _scorer(start, values), search)
            - usual
            + search.keep * float(np.mean(np.square(values)))
            for values in candidates
        ]
        strategy.tell(candidates, costs)
        centres.append(np.array(strategy.mean))
        if progress:
            progress(generation + 1, search.generations, float(np.median(costs)))
    return _scorer(start, np.mean(centres[-max(1, search.generations // _KEPT) :], axis=0))


def log_average(stretches: Sequence[Stretch], scorer: CommittedScorer, search: CommittedSearch) -> float:
    """Return the logarithm of a scorer's average slowdown, as `search` averages."""
    slowdowns = [each.slowdown(scorer, backfilling=search.backfilling) for each in stretches]
    return float(np.mean(np.log(slowdowns)) if search.average == "log" else np.log(np.mean(slowdowns)))


def _scorer(start: CommittedScorer, values: FloatArray) -> CommittedScorer:
    widths = np.array([3.0 if name in _OFTEN_ONE else 1.0 for name in OF_THE_JOB])
    return CommittedScorer(start.weights + values * widths)
