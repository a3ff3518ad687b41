"""Look-ahead: several orders of the queue are replayed from the present on, and the cheapest is followed.

A replay is EASY backfilling with forecast run times: jobs that run end as forecast, or, where they outlived that,
after 2 x elapsed + 60 s; never after their limit. It costs what waiting from now on adds to the expected bounded
slowdowns, each to some power. Rules keep the fast path: nothing is replayed where the queue is short, where all
candidates would start the same jobs, or where the last look ahead was a moment ago.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import UsageError
from presage.policies import ORDERS, StaticOrder
from presage.policies.queue_scorer import GUARDS, Guard, QueueScorer
from presage.simulator.guided import Decider, Switches, rules_of, view_by, work_of
from presage.simulator.pooled import check_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.policies.run_forecasts import RunForecasts
    from presage.simulator import _guided, _look_ahead
    from presage.simulator.jobs import IntArray, Jobs

    Flags = NDArray[np.bool_]

_NO_LIMIT = 1 << 60
_UNRANKED = Decider("lxf", None)
"""An order without ranks: they come with the candidates."""


def _default_candidates() -> tuple[str | QueueScorer, ...]:
    return (QueueScorer(), "fcfs", "lxf", "wfp3", "saf", "sjf", "f4")


@dataclass(frozen=True)
class LookAhead:
    """Which orders to compare, how to judge them, and when."""

    candidates: tuple[str | QueueScorer, ...] = field(default_factory=_default_candidates)
    """Names of rules, and scorers. The first is followed where nobody looks ahead or no other is better."""
    guard: Guard | None = GUARDS["A"]
    exponent: float = 1.5
    """1 adds up slowdowns; more makes long waits count more."""
    margin: float = 0.0
    """The share of its cost by which the first candidate must be undercut before another is followed."""
    every_s: float = 0.0
    """How long a winner is followed before it is looked ahead again."""
    fewest: int = 2
    """Shorter queues go by the first candidate."""
    deepest: int = 64
    """So many jobs take part in replays: those that the first candidate puts first."""
    most_looks: int | None = 50_000
    """How often the replays of a decision may look at a job, or None; what is compared by then decides.

    A look takes some 15 to 30 ns, and unlike time it is the same on every machine and in every run."""
    arrivals: int = 0
    """How many jobs come in replays, drawn from those of the last day."""
    seed: int = 0
    gives_up: bool = True
    """Whether a replay ends as soon as it is known to lose, which changes no decision."""
    asks_always: bool = False
    """Whether to replay also where all candidates would start the same jobs, which changes no start."""

    def __post_init__(self) -> None:
        if not self.candidates:
            raise UsageError("There is nothing to compare", expected="one or more rules or scorers")
        checks = {
            "exponent": self.exponent > 0, "margin": 0 <= self.margin < 1, "every_s": self.every_s >= 0,
            "fewest": self.fewest >= 1, "deepest": self.deepest >= 1, "arrivals": self.arrivals >= 0,
            "most_looks": self.most_looks is None or self.most_looks >= 1,
        }  # fmt: skip
        for name, holds in checks.items():
            if not holds:
                raise UsageError(
                    f"Nobody can look ahead with a {name} of {getattr(self, name)}",
                    expected="an exponent above 0, a margin from 0 up to 1, and numbers from 1 on (times and "
                    "arrivals from 0 on)",
                )

    @cached_property
    def static_orders(self) -> tuple[StaticOrder | None, ...]:
        """The candidates whose order never changes; None for others."""
        orders = [ORDERS.get(each)() if isinstance(each, str) else None for each in self.candidates]
        return tuple(each if isinstance(each, StaticOrder) else None for each in orders)

    @cached_property
    def unranked(self) -> _look_ahead.Candidates:
        """The candidates as the engine wants them, but for ranks; kept, since live decisions are many."""
        from presage.simulator._look_ahead import Candidates

        rules = [rules_of(Decider(each, self.guard), Switches()) for each in self.candidates]
        return Candidates(
            np.array([each.rule for each in rules], np.int64),
            np.stack([each.weights for each in rules]),
            np.cumsum([0, *(len(each.out) for each in rules)]).astype(np.int64),
            np.concatenate([each.hidden for each in rules]),
            np.concatenate([each.out for each in rules]),
            np.stack([each.attention for each in rules]),
            np.empty((len(rules), 0, 0), np.int64),
            np.array([each == "fcfs" for each in self.candidates]),
        )


@dataclass(frozen=True)
class Tally:
    """How decisions came about. A decision is due whenever a job waits that fits."""

    decided: int
    asked: int
    """Decisions for which orders were replayed."""
    agreed: int
    """Decisions in which nothing was replayed because all candidates would start the same jobs."""
    cut: int
    """Decisions for which not all could be compared within the budget."""
    looks: int
    """How often replays looked at a job."""
    wins: tuple[int, ...]
    """How often each candidate was best."""

    @property
    def asked_share(self) -> float:
        """The share of decisions that took a look ahead."""
        return self.asked / max(self.decided, 1)

    @property
    def looks_each(self) -> float:
        """The mean cost of a look ahead, in looks at jobs."""
        return self.looks / max(self.asked, 1)


def schedule_looking_ahead(
    jobs: Jobs,
    processors: int,
    look_ahead: LookAhead,
    forecasts: Sequence[RunForecasts],
    *,
    users: IntArray | None = None,
    urgent: Flags | None = None,
    switches: Switches | None = None,
) -> tuple[IntArray, Tally]:
    """Return the start of every job, in milliseconds on the jobs' own clock, and how that came about.

    All else is as in `schedule_guided`, of which it is the same with one candidate.
    """
    from presage.simulator import _look_ahead

    check_sizes(jobs, processors)
    start_ms = np.empty(len(jobs), np.int64)
    work, candidates, looking = inputs_of(
        jobs, processors, look_ahead, forecasts, users=users, urgent=urgent, switches=switches
    )
    counts = np.zeros(_look_ahead.COUNTS, np.int64)
    wins = np.zeros(len(look_ahead.candidates), np.int64)
    _look_ahead.run_looking_ahead(work, candidates, looking, processors, start_ms, counts, wins)
    return start_ms, tally_of(counts, wins)


def tally_of(counts: IntArray, wins: IntArray) -> Tally:
    """Return what the engine counted."""
    decided, asked, agreed, cut, looks = (int(count) for count in counts)
    return Tally(decided, asked, agreed, cut, looks, tuple(int(count) for count in wins))


def inputs_of(
    jobs: Jobs,
    processors: int,
    look_ahead: LookAhead,
    forecasts: Sequence[RunForecasts],
    *,
    users: IntArray | None = None,
    urgent: Flags | None = None,
    switches: Switches | None = None,
) -> tuple[_guided.Work, _look_ahead.Candidates, _look_ahead.Looking]:
    """Return jobs, candidates and settings as the engine wants them, with rows to spare for arrivals."""
    from presage.simulator._guided import Work

    work = work_of(jobs, processors, _UNRANKED, forecasts, users, urgent)
    rank = _ranks(jobs, look_ahead, forecasts)
    run_ms = np.array([_forecast_ms(jobs, told) for told in forecasts])
    if look_ahead.arrivals:
        spare = look_ahead.arrivals
        work = Work(*(_with_rows(column, axis, spare) for column, axis in zip(work, _AXES, strict=True)))
        rank, run_ms = _with_rows(rank, 2, spare), _with_rows(run_ms, 1, spare)
    looking = _looking(look_ahead, switches or Switches(), run_ms)
    return work, look_ahead.unranked._replace(rank=rank), looking


_AXES = (0,) * 7 + (1,) * 4
"""Which axis of each array of the work is that of jobs."""


def _with_rows(column: NDArray[Any], axis: int, spare: int) -> NDArray[Any]:
    widths = [(0, spare if at == axis else 0) for at in range(column.ndim)]
    return np.pad(column, widths, mode="edge")


def _ranks(jobs: Jobs, look_ahead: LookAhead, forecasts: Sequence[RunForecasts]) -> IntArray:
    """Return the places of jobs in the orders that never change, as (candidates, sources, jobs); 0 in others."""
    rank = np.zeros((len(look_ahead.candidates), len(forecasts), len(jobs)), np.int64)
    places = np.arange(len(jobs))
    for source, told in enumerate(forecasts):
        view = view_by(jobs, told)
        for which, order in enumerate(look_ahead.static_orders):
            if order is not None:
                rank[which, source, np.argsort(order.scores(view), kind="stable")] = places
    return rank


def _forecast_ms(jobs: Jobs, forecasts: RunForecasts) -> IntArray:
    """Return how long jobs are expected to run, within their limits."""
    run_ms = np.round(forecasts.expected_s * 1000).astype(np.int64)
    return np.clip(run_ms, 1, jobs.limit_ms)


def _looking(look_ahead: LookAhead, switches: Switches, run_ms: IntArray) -> _look_ahead.Looking:
    from presage.simulator._look_ahead import Looking

    guard = look_ahead.guard
    return Looking(
        float(look_ahead.exponent), float(look_ahead.margin), round(look_ahead.every_s * 1000),
        look_ahead.fewest, look_ahead.deepest,
        _NO_LIMIT if look_ahead.most_looks is None else look_ahead.most_looks,
        look_ahead.gives_up, look_ahead.asks_always, look_ahead.arrivals, look_ahead.seed,
        run_ms, 0.0 if guard is None else guard.base_s * 1000.0, 0.0 if guard is None else float(guard.backlog),
        switches.since_ms, switches.source,
    )  # fmt: skip
