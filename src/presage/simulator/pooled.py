"""Simulation on a pool of processors: which order and backfilling, which loop of the engine, which starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.errors import InputError
from presage.policies import BACKFILLINGS, ORDERS, Backfilling, DynamicOrder, JobView, Policy, StaticOrder

if TYPE_CHECKING:
    from presage.simulator.jobs import FloatArray, IntArray, Jobs


def schedule(jobs: Jobs, processors: int, policy: Policy) -> IntArray:
    """Return the start time of every job, in milliseconds on the jobs' own clock.

    Raises InputError if a job is larger than the machine.
    """
    largest = int(jobs.processors.max())
    if largest > processors:
        raise InputError(
            f"A job needs {largest:,} processors and the machine has {processors:,}",
            remedy="Drop such jobs with --clean archive, or give the machine more with --processors",
        )
    order = ORDERS.get(policy.order)()
    backfilling = BACKFILLINGS.get(policy.backfilling)
    if isinstance(order, StaticOrder):
        return _schedule_static(jobs, processors, policy, order, backfilling)
    assert isinstance(order, DynamicOrder)  # noqa: S101  (there are two kinds of orders)
    return _schedule_listed(jobs, processors, np.zeros(len(jobs), np.int64), order.code, backfilling)


def _schedule_static(
    jobs: Jobs, processors: int, policy: Policy, order: StaticOrder, backfilling: Backfilling
) -> IntArray:
    from presage.simulator import _pooled

    start_ms = np.empty(len(jobs), np.int64)
    if policy.order == "fcfs" and backfilling == Backfilling.NONE:
        _pooled.run_fcfs(jobs.submit_ms, jobs.run_ms, jobs.processors, processors, start_ms)
        return start_ms
    by_rank, rank = ranked(order.scores(job_view(jobs)))
    if backfilling == Backfilling.CONSERVATIVE:
        return _schedule_listed(jobs, processors, rank, _pooled.STATIC, backfilling)
    by_length, short_rank = by_rank, rank
    if backfilling == Backfilling.EASY_SJBF:
        by_length, short_rank = ranked(jobs.plan_ms, ties=rank)
    _pooled.run_static(
        jobs.submit_ms, jobs.run_ms, jobs.plan_ms, jobs.limit_ms, jobs.processors,
        rank, by_rank, short_rank, by_length, processors, int(backfilling), start_ms,
    )  # fmt: skip
    return start_ms


def _schedule_listed(jobs: Jobs, processors: int, rank: IntArray, rule: int, backfilling: Backfilling) -> IntArray:
    from presage.simulator import _pooled

    start_ms = np.empty(len(jobs), np.int64)
    _pooled.run_listed(
        jobs.submit_ms, jobs.run_ms, jobs.plan_ms, jobs.limit_ms, jobs.estimate_ms / 1000,
        jobs.processors, rank, rule, processors, int(backfilling), start_ms,
    )  # fmt: skip
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
