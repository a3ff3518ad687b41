"""Search for a scorer by evolution (CMA-ES): whole runs of several logs and loads are simulated with each.

The cost of a candidate is the mean, over all cases, of the logarithm of its bounded slowdown over that of the
fixed index, plus what its tails and its unfairness cost. The same seed gives the same search, so that one which
was cut off goes on where its journal ends.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import MissingDependencyError, UsageError
from presage.fanout import as_done
from presage.learning._search_journal import head_of, read_journal, write_journal
from presage.learning.outcomes import Outcome
from presage.learning.static_rules import FIRST_COME
from presage.policies.queue_scorer import GUARDS, INPUTS, OF_THE_JOB, Guard, QueueScorer, index_weights
from presage.simulator.guided import Decider
from presage.simulator.metrics import gini

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from presage.learning.cases import Case
    from presage.learning.event_files import EventFile

    Floats = NDArray[np.float64]

KINDS = ("linear", "mlp", "attention")
_OFTEN_ONE = {"share_of_machine", "user_share", "fits"}
"""Numbers that go from 0 to 1: their weights are searched more widely than those of logarithms."""
_MEANS = slice(INPUTS - len(OF_THE_JOB), INPUTS)
"""Where a hidden unit reads the means of the jobs' numbers."""
_HIDDEN_WIDTH = 0.3
"""Inputs are of the order of 5; units that saturate at once cannot be searched."""


@dataclass(frozen=True)
class Search:
    """How long and how widely to search, and what counts besides the mean."""

    kind: str = "linear"
    """One of `KINDS`."""
    units: int = 6
    """Hidden units, for the kinds that have them."""
    generations: int = 40
    population: int = 12
    spread: float = 0.4
    seed: int = 0
    tail: float = 2.0
    """The price of p99 and longest waits beyond what `p99_limit` and `max_limit` allow."""
    p99_limit: float = 1.8
    max_limit: float = 2.0
    """Times the waits of first come, first served."""
    fairness: float = 0.0
    """The price of a Gini coefficient of the users' mean slowdowns above that of the fixed index."""
    keep: float = 0.01
    """The price of a weight's square distance from where the search began."""
    guard: Guard = GUARDS["A"]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"There is no scorer of kind {self.kind!r}", expected=f"one of {', '.join(KINDS)}")
        if self.generations < 1 or self.population < 4 or self.units < 1:
            raise UsageError(
                f"{self.generations} generations of {self.population} with {self.units} units find nothing",
                expected="at least 1 generation, 4 candidates and 1 unit",
            )

    @property
    def parameters(self) -> int:
        """How many numbers are searched for."""
        hidden = 0 if self.kind == "linear" else self.units * (INPUTS + 2)
        return len(OF_THE_JOB) + hidden + (len(OF_THE_JOB) if self.kind == "attention" else 0)

    def scorer(self, values: Floats) -> QueueScorer:
        """Return the scorer that the numbers stand for; all zero is the fixed index."""
        jobs = len(OF_THE_JOB)
        weights = index_weights() + values[:jobs] * _widths()
        if self.kind == "linear":
            return QueueScorer(weights)
        rest = values[jobs:]
        hidden = rest[: self.units * (INPUTS + 1)].reshape(self.units, INPUTS + 1).copy()
        hidden[:, :-1] *= _HIDDEN_WIDTH
        if self.kind == "mlp":
            hidden[:, _MEANS] = 0.0
        out = rest[self.units * (INPUTS + 1) :][: self.units]
        attention = rest[-jobs:] if self.kind == "attention" else np.zeros(jobs)
        return QueueScorer(weights, hidden, out, attention)


def _widths() -> Floats:
    return np.array([3.0 if name in _OFTEN_ONE else 1.0 for name in OF_THE_JOB])


@dataclass(frozen=True)
class Goal:
    """A case, and what its candidates are measured against."""

    case: Case
    index: Outcome
    first_come: Outcome
    unfairness: float

    @classmethod
    def of(cls, case: Case, guard: Guard) -> Goal:
        """Run the fixed index and first come, first served."""
        index = Outcome.of(case, case.run(Decider(QueueScorer(), guard)))
        first_come = Outcome.of(case, case.run(FIRST_COME, "requested"))
        return cls(case, index, first_come, unfairness(case, index))

    def cost(self, scorer: QueueScorer, search: Search) -> float:
        """Return what a candidate costs here; 0 is what the index does where its tails are short."""
        outcome = Outcome.of(self.case, self.case.run(Decider(scorer, search.guard)))
        p99 = outcome.p99_wait_s / max(self.first_come.p99_wait_s, 1.0) / search.p99_limit
        longest = outcome.max_wait_s / max(self.first_come.max_wait_s, 1.0) / search.max_limit
        cost = np.log(outcome.slowdown / self.index.slowdown)
        cost += search.tail * (
            max(0.0, float(np.log(max(p99, 1e-9)))) + max(0.0, float(np.log(max(longest, 1e-9))))
        )
        if search.fairness:
            cost += search.fairness * (unfairness(self.case, outcome) - self.unfairness)
        return float(cost)


def unfairness(case: Case, outcome: Outcome) -> float:
    """Return the Gini coefficient of the users' mean slowdowns."""
    jobs = np.bincount(case.users)
    return gini((np.bincount(case.users, outcome.slowdowns) / np.maximum(jobs, 1))[jobs > 0])


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    scorer: QueueScorer
    cost: float
    history: list[dict[str, float]] = field(default_factory=list)
    """Of each generation: its best and median cost, and how widely it searched."""
    interrupted: bool = False


def search_scorer(
    cases: Sequence[Case],
    search: Search | None = None,
    *,
    start: QueueScorer | None = None,
    journal: Path | None = None,
    workers: int = 1,
    progress: Callable[[int, int, float], None] | None = None,
    log: EventFile | None = None,
) -> Found:
    """Return the centre of the last generation of a search that begins at `start`, by default at the fixed index.

    With a `journal`, every generation is written there, and a search that was cut off goes on behind its last
    one. Ctrl-C ends a search with what it has found. `progress` is told the generation, how many there will be,
    and the median cost; `log` the history of each that is new. Raises InputError for a journal of another search,
    UsageError if no scorer of the search's kind and units is `start`.
    """
    cma = require_cma()
    search = search or Search()
    start = start or QueueScorer()
    if not cases:
        raise UsageError("There is nothing to search on", expected="at least one case")
    origin, head = origin_of(search, start), head_of(search, start, cases)
    past = read_journal(journal, head)
    goals = [Goal.of(case, search.guard) for case in cases]
    options = {
        "seed": search.seed + 1, "popsize": search.population, "verbose": -9, "maxiter": search.generations,
        "tolflatfitness": 10**9, "tolfun": 0, "tolfunhist": 0, "tolx": 0, "tolstagnation": 10**9,
    }  # fmt: skip
    strategy = cma.CMAEvolutionStrategy(origin, search.spread, options)
    cost_of = partial(_cost, search, goals, origin)
    history: list[dict[str, float]] = []
    interrupted = False
    try:
        with ThreadPoolExecutor(workers) as pool:
            for generation in range(search.generations):
                candidates = strategy.ask()
                costs = past[generation] if generation < len(past) else list(pool.map(cost_of, candidates))
                strategy.tell(candidates, costs)
                history.append(
                    {"best": float(min(costs)), "median": float(np.median(costs)), "spread": float(strategy.sigma)}
                )
                if generation >= len(past):
                    past.append(costs)
                    write_journal(journal, head, past)
                    if log:
                        log.tell(generation + 1, history[-1])
                if progress:
                    progress(generation + 1, search.generations, float(np.median(costs)))
    except KeyboardInterrupt:
        interrupted = True
    # Not the best candidate of all, which was lucky: a run is one draw of a sum with a heavy tail.
    found = np.asarray(strategy.mean if history else origin)
    return Found(search.scorer(found), cost_of(found), history, interrupted)


def require_cma() -> Any:
    """Return the package that searches. Raises MissingDependencyError."""
    try:
        import cma
    except ModuleNotFoundError:
        raise MissingDependencyError("cma", extra="learn", purpose="Searching for a policy") from None
    return cma


def search_from_many(
    cases: Sequence[Case],
    search: Search,
    starts: int,
    *,
    start: QueueScorer | None = None,
    engine: str = "local",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Return the best of several searches with seeds that follow each other, each in a process of its own.

    All begin at `start`. `engine` and `workers` are those of `fan_out`; `progress` is told the searches that are
    done and to do. Ctrl-C ends all with the best of those that are done, or is raised if none is.
    """
    searches = [replace(search, seed=search.seed + more) for more in range(starts)]
    search_one = partial(search_scorer, cases, start=start)
    found: list[Found] = []
    interrupted = False
    try:
        with closing(as_done(search_one, searches, engine=engine, workers=workers)) as results:
            for _, each in results:
                found.append(each)
                if each.interrupted:  # it ran in this process, and has taken the Ctrl-C for all of them
                    break
                if progress:
                    progress(len(found), starts)
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    best = min(found, key=lambda each: each.cost)
    return replace(best, interrupted=interrupted or found[-1].interrupted)


def kind_of(scorer: QueueScorer) -> str:
    """Return the simplest kind that a scorer is of."""
    if not len(scorer.out):
        return "linear"
    return "attention" if scorer.hidden[:, _MEANS].any() else "mlp"


def origin_of(search: Search, start: QueueScorer) -> Floats:
    """Return the numbers that stand for a scorer; units that it lacks differ, but do not speak yet.

    Raises UsageError if no scorer of the search's kind and units is that one.
    """
    jobs, known = len(OF_THE_JOB), len(start.out)
    units = 0 if search.kind == "linear" else search.units
    if known > units or KINDS.index(kind_of(start)) > KINDS.index(search.kind):
        raise UsageError(
            f"A search for {units} units of the kind {search.kind!r} cannot begin at a policy that has {known} of "
            f"the kind {kind_of(start)!r}",
            remedy="Search for the same kind with as many units, or begin at the index",
        )
    values = np.zeros(search.parameters)
    values[:jobs] = (start.weights - index_weights()) / _widths()
    if units:
        hidden = np.random.default_rng(search.seed).normal(0, 0.5, (units, INPUTS + 1))
        hidden[:known] = start.hidden
        hidden[:known, :-1] /= _HIDDEN_WIDTH
        values[jobs : jobs + hidden.size] = hidden.ravel()
        values[jobs + hidden.size :][:known] = start.out
    if search.kind == "attention":
        values[-jobs:] = start.attention
    return values


def _cost(search: Search, goals: Sequence[Goal], origin: Floats, values: Floats) -> float:
    scorer = search.scorer(np.asarray(values))
    cost = float(np.mean([goal.cost(scorer, search) for goal in goals]))
    return cost + search.keep * float(np.mean(np.square((values - origin)[: len(OF_THE_JOB)])))
