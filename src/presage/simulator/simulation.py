"""Run a trace through a policy and get the schedule as a trace, with its metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from presage.errors import MissingDependencyError, UsageError
from presage.policies import Policy
from presage.simulator.jobs import Jobs, jobs_of
from presage.simulator.metrics import Metrics, measure
from presage.simulator.schedules import as_trace
from presage.traces.manifest import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.simulator.jobs import IntArray
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

    @property
    def jobs_per_s(self) -> float:
        """How many jobs the engine scheduled per second."""
        return self.metrics.jobs / self.engine_s


def simulate(
    trace: Trace,
    policy: Policy | str = "fcfs",
    *,
    processors: int | None = None,
    order_by: str = "requested",
    plan_by: str = "requested",
    kill: bool = False,
) -> Simulation:
    """Schedule the jobs of `trace` on a machine of `processors` (default: the machine of the trace).

    `order_by` and `plan_by` say what run time the order and the reservations may use: "requested", "actual" or
    the name of a column of predicted seconds. With `kill`, a job ends at its limit; else it overruns. Jobs that
    lack a limit count as if they had asked for exactly their run time.

    Raises InputError if a job lacks a submit time, a run time or a size, or is larger than the machine;
    UsageError if the size of the machine is neither given nor known.
    """
    if isinstance(policy, str):
        policy = Policy.parse(policy)
    size = machine_size(trace, processors)
    jobs = jobs_of(trace, order_by=order_by, plan_by=plan_by, kill=kill)
    schedule = _engine()
    schedule(_first(jobs, WARM_UP_JOBS), max(size, int(jobs.processors.max())), policy)
    begin = time.perf_counter()
    start_ms = schedule(jobs, size, policy)
    engine_s = time.perf_counter() - begin
    facts = {"policy": str(policy), "processors": size, "kill": kill}
    scheduled = as_trace(trace, jobs, start_ms, Machine(cpus=size), facts)
    return Simulation(policy, size, scheduled, measure(jobs, start_ms, size), engine_s)


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


def _engine() -> Callable[[Jobs, int, Policy], IntArray]:
    try:
        import numba  # noqa: F401
    except ModuleNotFoundError:
        raise MissingDependencyError("numba", extra="simulate", purpose="Simulating") from None
    from presage.simulator.pooled import schedule

    return schedule


def _first(jobs: Jobs, count: int) -> Jobs:
    return replace(
        jobs,
        submit_ms=jobs.submit_ms[:count],
        run_ms=jobs.run_ms[:count],
        limit_ms=jobs.limit_ms[:count],
        estimate_ms=jobs.estimate_ms[:count],
        plan_ms=jobs.plan_ms[:count],
        processors=jobs.processors[:count],
    )
