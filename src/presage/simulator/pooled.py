"""Simulation on a pool of processors: which order and backfilling, which loop of the engine, which starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.errors import InputError, UsageError
from presage.policies import BACKFILLINGS, ORDERS, Backfilling, DynamicOrder, JobView, Order, Policy, StaticOrder
from presage.simulator.semantics import Semantics

if TYPE_CHECKING:
    from presage.simulator.jobs import FloatArray, IntArray, Jobs


def schedule(
    jobs: Jobs, processors: int, policy: Policy, semantics: Semantics | str = Semantics.INSTANT
) -> IntArray:
    """Return the start time of every job, in milliseconds on the jobs' own clock.

    Raises InputError if a job is larger than the machine, UsageError if policy and semantics do not go together.
    """
    check_sizes(jobs, processors)
    order = ORDERS.get(policy.order)()
    backfilling = BACKFILLINGS.get(policy.backfilling)
    semantics = Semantics.parse(semantics)
    _check_semantics(semantics, policy.backfilling)
    if backfilling == Backfilling.PERIODIC:
        from presage.simulator.periodic import schedule_periodic

        return schedule_periodic(jobs, processors, order, policy.periodic)
    if semantics is Semantics.INSTANT and isinstance(order, StaticOrder):
        return _schedule_static(jobs, processors, policy, order, backfilling)
    return _schedule_listed(jobs, processors, order, backfilling, semantics)


def check_sizes(jobs: Jobs, processors: int) -> None:
    """Raise InputError if a job is larger than the machine."""
    largest = int(jobs.processors.max())
    if largest > processors:
        raise InputError(
            f"A job needs {largest:,} processors and the machine has {processors:,}",
            remedy="Drop such jobs with --clean archive, or give the machine more with --processors",
        )


def _check_semantics(semantics: Semantics, backfilling: str) -> None:
    known = {
        Semantics.INSTANT: [*BACKFILLINGS],
        Semantics.EVENT: [name for name in BACKFILLINGS if name != "periodic"],
        Semantics.COMMIT: ["none", "easy"],
    }[semantics]
    if backfilling not in known:
        raise UsageError(
            f"The semantics {semantics.value!r} have no backfilling {backfilling!r}",
            expected=f"one of {', '.join(known)}",
            remedy=f"Choose one of them, or the semantics {Semantics.INSTANT.value!r}",
        )


def _schedule_static(
    jobs: Jobs, processors: int, policy: Policy, order: StaticOrder, backfilling: Backfilling
) -> IntArray:
    from presage.simulator import _conservative, _large, _pooled

    start_ms = np.empty(len(jobs), np.int64)
    if policy.order == "fcfs" and backfilling == Backfilling.NONE:
        _pooled.run_fcfs(jobs.submit_ms, jobs.run_ms, jobs.processors, processors, start_ms)
        return start_ms
    by_rank, rank = ranked(order.scores(job_view(jobs)))
    if backfilling == Backfilling.CONSERVATIVE:
        _conservative.run_conservative(
            jobs.submit_ms, jobs.run_ms, jobs.plan_ms, jobs.limit_ms, jobs.processors,
            rank, by_rank, processors, start_ms,
        )  # fmt: skip
        return start_ms
    by_length, short_rank = by_rank, rank
    if backfilling == Backfilling.EASY_SJBF:
        by_length, short_rank = ranked(jobs.plan_ms, ties=rank)
    _pooled.run_static(
        jobs.submit_ms, jobs.run_ms, jobs.plan_ms, jobs.limit_ms, jobs.processors,
        rank, by_rank, short_rank, by_length, processors, int(backfilling), _large.Large(), start_ms,
    )  # fmt: skip
    return start_ms


def _schedule_listed(
    jobs: Jobs, processors: int, order: Order, backfilling: Backfilling, semantics: Semantics
) -> IntArray:
    from presage.simulator import _events, _listed, _pooled

    if isinstance(order, StaticOrder):
        _, rank = ranked(order.scores(job_view(jobs)))
        rule = _pooled.STATIC
    else:
        assert isinstance(order, DynamicOrder)  # noqa: S101  (there are two kinds of orders)
        rank, rule = np.zeros(len(jobs), np.int64), order.code
    arrays = (
        jobs.submit_ms, jobs.run_ms, jobs.plan_ms, jobs.limit_ms, jobs.estimate_ms / 1000,
        jobs.processors, rank, rule,
    )  # fmt: skip
    start_ms = np.empty(len(jobs), np.int64)
    if semantics is Semantics.INSTANT:
        _listed.run_listed(*arrays, processors, int(backfilling), start_ms)
    else:
        commits = semantics is Semantics.COMMIT
        _events.run_events(_events.Work(*arrays), processors, int(backfilling), commits, start_ms)
    return start_ms


def job_view(jobs: Jobs) -> JobView:
    """Return what an order may know of the jobs."""
    return JobView(jobs.estimate_ms, jobs.processors, jobs.submit_ms - jobs.origin_ms)


def ranked(scores: FloatArray | IntArray, ties: IntArray | None = None) -> tuple[IntArray, IntArray]:
    """Return the jobs by score and the rank of every job; ties go by `ties`, or in submit order."""
    by_rank = (np.argsort(scores, kind="stable") if ties is None else np.lexsort((ties, scores))).astype(np.int64)
    rank = np.empty(len(by_rank), np.int64)
    rank[by_rank] = np.arange(len(by_rank))
    return by_rank, rank
