"""Search for a scorer by evolution (CMA-ES): whole runs of several logs and loads are simulated with each.

The cost of a candidate is the mean, over all cases, of the logarithm of its bounded slowdown over that of the
fixed index, plus what its tails and its unfairness cost. The same seed gives the same search, so that one which
was cut off goes on where its journal ends.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, MissingDependencyError, UsageError
from presage.fanout import fan_out
from presage.learning.outcomes import Outcome
from presage.learning.static_rules import FIRST_COME
from presage.policies.queue_scorer import GUARDS, INPUTS, OF_THE_JOB, Guard, QueueScorer, index_weights
from presage.simulator.guided import Decider
from presage.simulator.metrics import gini
from presage.traces.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from presage.learning.cases import Case

    Floats = NDArray[np.float64]

KINDS = ("linear", "mlp", "attention")
_OFTEN_ONE = {"share_of_machine", "user_share", "fits"}
"""Numbers that go from 0 to 1: their weights are searched more widely than those of logarithms."""


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
    """The price of a weight's square distance from the fixed index."""
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
        # Inputs are of the order of 5; units that saturate at once cannot be searched.
        hidden[:, :-1] *= 0.3
        if self.kind == "mlp":
            hidden[:, INPUTS - jobs : INPUTS] = 0.0
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
) -> Found:
    """Return the centre of the last generation.

    With a `journal`, every generation is written there, and a search that was cut off goes on behind its last
    one. Ctrl-C ends a search with what it has found. `progress` is told the generation, how many there will be,
    and the median cost. Raises InputError for a journal of another search.
    """
    cma = require_cma()
    search = search or Search()
    goals = [Goal.of(case, search.guard) for case in cases]
    if not goals:
        raise UsageError("There is nothing to search on", expected="at least one case")
    options = {
        "seed": search.seed + 1, "popsize": search.population, "verbose": -9, "maxiter": search.generations,
        "tolflatfitness": 10**9, "tolfun": 0, "tolfunhist": 0, "tolx": 0, "tolstagnation": 10**9,
    }  # fmt: skip
    strategy = cma.CMAEvolutionStrategy(_origin(search), search.spread, options)
    past = _read_journal(journal, search)
    cost_of = partial(_cost, search, goals)
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
                    _write_journal(journal, search, past)
                if progress:
                    progress(generation + 1, search.generations, float(np.median(costs)))
    except KeyboardInterrupt:
        interrupted = True
    # Not the best candidate of all, which was lucky: a run is one draw of a sum with a heavy tail.
    found = np.asarray(strategy.mean if history else _origin(search))
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
    engine: str = "local",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Return the best of several searches with seeds that follow each other, each in a process of its own.

    `engine` and `workers` are those of `fan_out`; `progress` is told the searches done and to do.
    """
    searches = [replace(search, seed=search.seed + start) for start in range(starts)]
    found = fan_out(partial(search_scorer, cases), searches, engine=engine, workers=workers, progress=progress)
    return min(found, key=lambda each: each.cost)


def _origin(search: Search) -> Floats:
    """Return where the search begins: at the fixed index, with units that differ but do not speak yet."""
    values = np.zeros(search.parameters)
    if search.kind != "linear":
        jobs, units = len(OF_THE_JOB), search.units * (INPUTS + 1)
        values[jobs : jobs + units] = np.random.default_rng(search.seed).normal(0, 0.5, units)
    return values


def _cost(search: Search, goals: Sequence[Goal], values: Floats) -> float:
    scorer = search.scorer(np.asarray(values))
    cost = float(np.mean([goal.cost(scorer, search) for goal in goals]))
    return cost + search.keep * float(np.mean(np.square(values[: len(OF_THE_JOB)])))


def _read_journal(journal: Path | None, search: Search) -> list[list[float]]:
    """Return the costs of the generations that are done; whoever was cut off in a line begins that one anew."""
    if journal is None or not journal.exists():
        return []
    text, first = journal.read_text(errors="replace"), _head_line(search)
    if first.startswith(text):
        return []
    whole = text[: text.rfind("\n") + 1]
    try:
        head, *generations = (json.loads(line) for line in whole.splitlines())
        past = [[float(cost) for cost in generation["costs"]] for generation in generations]
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{journal.name} is no journal of a search", expected="what `presage policy train --journal` wrote"
        ) from None
    if head != json.loads(first):
        raise InputError(
            f"{journal.name} is the journal of another search", remedy="Name another file, or the same settings"
        )
    return past


def _write_journal(journal: Path | None, search: Search, past: Sequence[Sequence[float]]) -> None:
    """Write all generations anew, at once: there are few."""
    if journal is None:
        return
    lines = (json.dumps({"costs": [float(cost) for cost in costs]}) + "\n" for costs in past)
    with replacing(journal) as partial:
        partial.write_text(_head_line(search) + "".join(lines))


def _head_line(search: Search) -> str:
    head = {
        "kind": search.kind, "units": search.units, "population": search.population, "spread": search.spread,
        "seed": search.seed,
    }  # fmt: skip
    return json.dumps(head) + "\n"
