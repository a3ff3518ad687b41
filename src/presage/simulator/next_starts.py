"""What a policy does with a live queue: who starts now, and who is expected to start when.

Everybody is taken to run to his limit, and nobody else to come: starts that are told for later are those of that
case. They are only as good as the limits, which may be forecasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import InputError
from presage.policies import ORDERS, StaticOrder
from presage.simulator.jobs import Jobs
from presage.simulator.pooled import job_view, ranked, schedule
from presage.simulator.requirements import require_numba

if TYPE_CHECKING:
    from presage.policies import Policy
    from presage.simulator.jobs import IntArray


@dataclass(frozen=True)
class MachineNow:
    """A pool of processors at an instant, with the jobs that hold some of them."""

    now_ms: int
    processors: int
    held: IntArray
    """Processors of each running job."""
    begun_ms: IntArray
    limit_ms: IntArray

    def __post_init__(self) -> None:
        if int(self.held.sum()) > self.processors:
            raise InputError(
                f"Running jobs hold {int(self.held.sum()):,} processors and the machine has {self.processors:,}",
                expected="a machine on which they fit",
            )

    @property
    def ends_ms(self) -> IntArray:
        """When each running job is expected to end; one that passed its limit, at the next instant."""
        ends_ms: IntArray = np.maximum(self.begun_ms + self.limit_ms, self.now_ms + 1)
        return ends_ms


@dataclass(frozen=True)
class QueueNow:
    """The jobs that wait, in any order."""

    submit_ms: IntArray
    limit_ms: IntArray
    processors: IntArray
    estimate_ms: IntArray | None = None
    """What the order believes their run times to be, if not their limits."""


def next_starts(machine: MachineNow, queue: QueueNow, policy: Policy) -> IntArray:
    """Return when each waiting job starts under a policy; `machine.now_ms` for those that start at once.

    Raises InputError if a job is larger than the machine.
    """
    require_numba()
    if not len(queue.submit_ms):
        return np.empty(0, np.int64)
    by_submit = np.argsort(queue.submit_ms, kind="stable")
    jobs, before = _as_jobs(machine, queue, by_submit)
    starts = np.empty(len(by_submit), np.int64)
    starts[by_submit] = schedule(jobs, machine.processors, policy)[before:]
    return starts


def order_at(jobs: Jobs, order: str, now_ms: int) -> IntArray:
    """Return the places of waiting jobs, which are in submit order, as a rule of that name orders them then."""
    from presage.simulator._pooled import STATIC, in_order

    rule = ORDERS.get(order)()
    if isinstance(rule, StaticOrder):
        code, rank = STATIC, ranked(rule.scores(job_view(jobs)))[1]
    else:
        code, rank = rule.code, np.zeros(len(jobs), np.int64)  # type: ignore[attr-defined]  # of a dynamic order
    # Not compiled: once for each call, it would take longer than it saves.
    places: IntArray = in_order.py_func(
        np.arange(len(jobs)), now_ms, jobs.submit_ms, jobs.estimate_ms / 1000, jobs.processors, rank, code
    )
    return places


def _as_jobs(machine: MachineNow, queue: QueueNow, by_submit: IntArray) -> tuple[Jobs, int]:
    """Return jobs for an empty machine with the same schedule from now on, and how many stand before the queue.

    Those that run and one that holds the rest until now begin together before everything else.
    """
    waiting_ms = np.minimum(queue.submit_ms[by_submit], machine.now_ms)
    first_ms = min(int(waiting_ms[0]), machine.now_ms) - 1
    idle = machine.processors - int(machine.held.sum())
    filler = [idle] if idle else []
    early_ms = np.concatenate([machine.ends_ms, [machine.now_ms] * len(filler)]).astype(np.int64) - first_ms
    length_ms = np.concatenate([early_ms, queue.limit_ms[by_submit]])
    believed_ms = queue.limit_ms if queue.estimate_ms is None else queue.estimate_ms
    estimate_ms = np.concatenate([early_ms, believed_ms[by_submit]])
    jobs = Jobs(
        submit_ms=np.concatenate([np.full(len(early_ms), first_ms, np.int64), waiting_ms]),
        run_ms=length_ms, limit_ms=length_ms, estimate_ms=estimate_ms, plan_ms=length_ms,
        processors=np.concatenate([machine.held, filler, queue.processors[by_submit]]).astype(np.int64),
    )  # fmt: skip
    return jobs, len(early_ms)
