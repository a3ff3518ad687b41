"""Run a trace through a policy and get the schedule as a trace, with its metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import UsageError
from presage.policies import Policy
from presage.simulator.jobs import Jobs, jobs_of
from presage.simulator.metrics import Metrics, measure
from presage.simulator.partitions import Partition, rows_by_partition
from presage.simulator.pooled import schedule as schedule_pooled
from presage.simulator.requirements import require_numba
from presage.simulator.schedules import as_trace
from presage.simulator.semantics import Semantics
from presage.traces.manifest import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from presage.simulator.jobs import IntArray, Knowledge
    from presage.traces import Trace

WARM_UP_JOBS = 2


@dataclass(frozen=True)
class Simulation:
    """What came out of one run."""

    policy: Policy
    processors: int
    trace: Trace
    """The jobs with simulated starts, ends and waits; a trace like any other."""
    metrics: Metrics
    engine_s: float
    """How long the engine took, compilation not counted."""
    semantics: Semantics = Semantics.INSTANT
    partitions: dict[str, Partition] = field(default_factory=dict)
    """By name, if the machine had several; `metrics` are of all together."""

    @property
    def jobs_per_s(self) -> float:
        """How many jobs the engine scheduled per second."""
        return self.metrics.jobs / self.engine_s


def simulate(
    trace: Trace,
    policy: Policy | str = "fcfs",
    *,
    processors: int | None = None,
    order_by: Knowledge = "requested",
    plan_by: Knowledge = "requested",
    kill: bool = False,
    semantics: Semantics | str = Semantics.INSTANT,
    partitions: Mapping[str, int] | None = None,
) -> Simulation:
    """Schedule the jobs of `trace` on a machine of `processors` (default: the machine of the trace).

    `order_by` and `plan_by` say what run time the order and the reservations may use: "requested", "actual", the
    name of a column of predicted seconds, or a function of the trace that returns them. With `kill`, a job ends at
    its limit; else it overruns. Jobs that lack a limit count as if they had asked for exactly their run time.
    `semantics` say when decisions are made.

    `partitions`, name → processors, instead of `processors` make a machine of parts: every job goes to the one
    that its column `partition` names, and each part has a queue of its own.

    Raises InputError if a job lacks a submit time, a run time or a size, is larger than the machine, or finds no
    partition; UsageError if the size of the machine is neither given nor known, or if the semantics have no such
    backfilling.
    """
    policy = Policy.parse(policy) if isinstance(policy, str) else policy
    semantics = Semantics.parse(semantics)
    size = machine_size(trace, processors) if partitions is None else _whole(partitions, processors)
    jobs = jobs_of(trace, order_by=order_by, plan_by=plan_by, kill=kill)
    require_numba()
    schedule = partial(schedule_pooled, policy=policy, semantics=semantics)
    schedule(jobs.select(slice(WARM_UP_JOBS)), max(size, int(jobs.processors.max())))
    facts: dict[str, Any] = {"policy": str(policy), "processors": size, "kill": kill, "semantics": semantics.value}
    begin = time.perf_counter()
    parts: dict[str, Partition] = {}
    if partitions is None:
        start_ms = schedule(jobs, size)
    else:
        facts["partitions"] = dict(partitions)
        start_ms, parts = _schedule_parts(schedule, jobs, partitions, rows_by_partition(trace, jobs, partitions))
    engine_s = time.perf_counter() - begin
    scheduled = as_trace(trace, jobs, start_ms, Machine(cpus=size), facts)
    return Simulation(policy, size, scheduled, measure(jobs, start_ms, size), engine_s, semantics, parts)


def _schedule_parts(
    schedule: Callable[[Jobs, int], IntArray],
    jobs: Jobs,
    partitions: Mapping[str, int],
    rows: Mapping[str, IntArray],
) -> tuple[IntArray, dict[str, Partition]]:
    """Return the starts of all jobs, and what each partition made of its own."""
    start_ms = np.empty(len(jobs), np.int64)
    parts = {}
    for name, processors in partitions.items():
        members = jobs.select(rows[name])
        metrics = None
        if len(members):
            start_ms[rows[name]] = schedule(members, processors)
            metrics = measure(members, start_ms[rows[name]], processors)
        parts[name] = Partition(processors, metrics)
    return start_ms, parts


def _whole(partitions: Mapping[str, int], processors: int | None) -> int:
    if processors is not None or not partitions:
        raise UsageError(
            "The machine has partitions and a size of its own" if partitions else "There are no partitions",
            expected="either the size of the machine or that of each partition",
        )
    return sum(partitions.values())


def machine_size(trace: Trace, processors: int | None = None) -> int:
    """Return the processors of the machine: those given, or the trace's own. Raises UsageError if none."""
    size = processors if processors is not None else trace.manifest.machine.cpus
    if size is None:
        raise UsageError(
            "The trace does not say how large its machine is", remedy="Give its size with --processors"
        )
    if size < 1:
        raise UsageError(f"A machine of {size} processors can run nothing", expected="at least 1")
    return int(size)
