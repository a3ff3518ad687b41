"""Simulation of learned orders on a pool of processors: forecasts, a scorer, a guard, and an operator's wishes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from presage.policies import ORDERS, DynamicOrder, JobView, StaticOrder
from presage.policies.queue_scorer import GUARDS, Guard, QueueScorer
from presage.simulator.pooled import check_sizes, ranked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.policies.run_forecasts import RunForecasts
    from presage.simulator import _guided
    from presage.simulator.jobs import FloatArray, IntArray, Jobs


@dataclass(frozen=True)
class Decider:
    """Who goes next, with EASY backfilling by requests: a rule's name or a scorer, and a guard or none."""

    order: str | QueueScorer = field(default_factory=QueueScorer)
    guard: Guard | None = GUARDS["A"]


@dataclass(frozen=True)
class Switches:
    """Which of several forecasts are used from when on; before the first instant it is the first."""

    since_ms: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    source: IntArray = field(default_factory=lambda: np.empty(0, np.int64))


def schedule_guided(
    jobs: Jobs,
    processors: int,
    decider: Decider,
    forecasts: Sequence[RunForecasts],
    *,
    users: IntArray | None = None,
    urgent: NDArray[np.bool_] | None = None,
    switches: Switches | None = None,
) -> IntArray:
    """Return the start of every job, in milliseconds on the jobs' own clock.

    `forecasts` are one or several for all jobs, between which `switches` choose. `users` are numbered from 0;
    `urgent` jobs go before all others. Raises InputError if a job is larger than the machine.
    """
    from presage.simulator._guided import run_guided

    check_sizes(jobs, processors)
    switches = switches or Switches()
    start_ms = np.empty(len(jobs), np.int64)
    work = work_of(jobs, processors, decider, forecasts, users, urgent)
    run_guided(work, rules_of(decider, switches), processors, start_ms)
    return start_ms


def work_of(
    jobs: Jobs,
    processors: int,
    decider: Decider,
    forecasts: Sequence[RunForecasts],
    users: IntArray | None,
    urgent: NDArray[np.bool_] | None,
) -> _guided.Work:
    """Return the jobs with what decisions know of them."""
    from presage.simulator import _guided

    count = len(jobs)
    return _guided.Work(
        jobs.submit_ms, jobs.run_ms, jobs.plan_ms, jobs.limit_ms, jobs.processors,
        np.zeros(count, np.int64) if users is None else users,
        np.zeros(count, np.bool_) if urgent is None else urgent,
        np.stack([each.median_s for each in forecasts]),
        np.stack([rank_by(jobs, decider, each) for each in forecasts]),
        np.stack([_known(jobs, processors, each) for each in forecasts]),
        np.stack([each.inverse for each in forecasts]),
    )  # fmt: skip


def rank_by(jobs: Jobs, decider: Decider, forecasts: RunForecasts) -> IntArray:
    """Return the places of jobs in an order that never changes; of no use for others."""
    order = ORDERS.get(decider.order)() if isinstance(decider.order, str) else None
    if not isinstance(order, StaticOrder):
        return np.zeros(len(jobs), np.int64)
    return ranked(order.scores(view_by(jobs, forecasts)))[1]


def view_by(jobs: Jobs, forecasts: RunForecasts) -> JobView:
    """Return what an order that never changes may know of the jobs."""
    run_ms = np.round(forecasts.median_s * 1000).astype(np.int64)
    return JobView(run_ms, jobs.processors, jobs.submit_ms - jobs.origin_ms)


def _known(jobs: Jobs, processors: int, forecasts: RunForecasts) -> FloatArray:
    """Return what a scorer reads of jobs and does not change, in the order of `queue_scorer.OF_THE_JOB`."""
    columns = (
        np.log(forecasts.expected_s), -np.log(forecasts.inverse), np.log(jobs.limit_ms / 1000),
        np.log(jobs.processors), jobs.processors / processors,
    )  # fmt: skip
    return np.ascontiguousarray(np.stack(columns, axis=1))


def rules_of(decider: Decider, switches: Switches) -> _guided.Rules:
    """Return a decider as the engine wants it."""
    from presage.simulator import _guided

    scorer, rule = QueueScorer(), _guided.LEARNED
    if isinstance(decider.order, str):
        order = ORDERS.get(decider.order)()
        rule = order.code if isinstance(order, DynamicOrder) else _guided.BY_RANK
    else:
        scorer = decider.order
    guard = decider.guard
    return _guided.Rules(
        rule, scorer.weights, scorer.hidden, scorer.out, scorer.attention,
        0.0 if guard is None else guard.base_s * 1000, 0.0 if guard is None else guard.backlog,
        switches.since_ms, switches.source,
    )  # fmt: skip
