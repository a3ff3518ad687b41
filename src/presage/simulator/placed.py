"""Simulation on nodes: which order, backfilling and placement, and which starts and places come out."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.policies import ORDERS, DynamicOrder, StaticOrder
from presage.policies.placements import PLACED_BACKFILLINGS, PLACEMENTS, PlacedPolicy, Placement
from presage.simulator.metrics import Metrics, measure
from presage.simulator.nodes import Nodes, PlacedJobs, placed_jobs_of
from presage.simulator.pooled import job_view, ranked
from presage.simulator.requirements import require_numba
from presage.simulator.schedules import as_trace
from presage.traces.manifest import Machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator import _placed
    from presage.simulator.jobs import IntArray, Knowledge
    from presage.traces import Trace

WARM_UP_JOBS = 2


@dataclass(frozen=True)
class Schedule:
    """When each job starts and where its members run; members of job j are `first[j]` to `first[j + 1]`."""

    start_ms: IntArray
    first: IntArray
    node: IntArray
    """The node of each member."""
    gpus: IntArray
    """Which GPUs of that node it holds, as a bit mask."""


@dataclass(frozen=True)
class PlacedSimulation:
    """What came out of one run."""

    policy: PlacedPolicy
    trace: Trace
    """The jobs with simulated starts, ends, waits and nodes; a trace like any other."""
    metrics: Metrics
    """Utilization is that of the GPUs if any job wants GPUs, else that of the processors."""
    dropped: int
    """Jobs left out because they fit on no empty machine."""
    engine_s: float
    """How long the engine took, compilation not counted."""

    @property
    def jobs_per_s(self) -> float:
        """How many jobs the engine scheduled per second."""
        return self.metrics.jobs / self.engine_s


def simulate_placed(
    trace: Trace,
    policy: PlacedPolicy | str = "fcfs",
    placement: str | None = None,
    *,
    order_by: Knowledge = "requested",
    plan_by: Knowledge = "requested",
    kill: bool = False,
    drop_unplaceable: bool = False,
) -> PlacedSimulation:
    """Schedule the jobs of `trace` on its nodes; see `presage.simulator.nodes` for what of them counts.

    `policy` is written as `sjf+easy@best-fit`; `placement` replaces the part behind `@`. The other options are
    those of `simulate`. The result has `node_list` (the nodes of a job, each once, in the order they were taken)
    and `nodes_alloc`; `gpu_type` is known where all nodes of the job have one.

    Raises InputError if the trace has no nodes, if a job lacks a submit or run time, and if a job fits on no empty
    machine unless `drop_unplaceable` leaves such jobs out.
    """
    if isinstance(policy, str):
        policy = PlacedPolicy.parse(policy)
    if placement is not None:
        policy = replace(policy, placement=placement)
    require_numba()
    jobs, nodes = placed_jobs_of(trace, order_by=order_by, plan_by=plan_by, kill=kill)
    fits = placeable(jobs, nodes)
    dropped = int((~fits).sum())
    if dropped and not drop_unplaceable:
        raise unplaceable(trace.jobs["job_id"][int(np.argmin(fits))], dropped)
    if dropped == len(jobs):
        raise InputError("No job of the trace fits on its nodes")
    jobs = jobs.select(np.flatnonzero(fits))
    kept = trace.with_jobs(trace.jobs.filter(fits))
    schedule_placed(jobs.select(np.arange(min(WARM_UP_JOBS, len(jobs)))), nodes, policy)
    begin = time.perf_counter()
    schedule = schedule_placed(jobs, nodes, policy)
    engine_s = time.perf_counter() - begin
    facts = {"policy": str(policy), "nodes": len(nodes), "kill": kill, "dropped": dropped}
    metrics = measure(jobs.jobs, schedule.start_ms, machine_size_of(jobs, nodes))
    places = _where(kept, jobs, schedule)
    scheduled = as_trace(kept, jobs.jobs, schedule.start_ms, machine_of_nodes(kept.nodes), facts, places)
    return PlacedSimulation(policy, scheduled, metrics, dropped, engine_s)


def schedule_placed(jobs: PlacedJobs, nodes: Nodes, policy: PlacedPolicy) -> Schedule:
    """Return when and where every job runs, in milliseconds on the jobs' own clock.

    Raises InputError if a job fits on no empty machine.
    """
    from presage.simulator import _placed

    fits = placeable(jobs, nodes)
    if not fits.all():
        raise unplaceable(f"number {int(np.argmin(fits))}", int((~fits).sum()))
    simulation = prepared(jobs, nodes, policy, *ordered(jobs, policy))
    _placed.run_placed(simulation)
    return schedule_of(simulation)


def prepared(
    jobs: PlacedJobs, nodes: Nodes, policy: PlacedPolicy, rule: int, rank: IntArray
) -> _placed.Simulation:
    """Return what the engine works with, on an empty machine; `rule` and `rank` are the order, as of `ordered`."""
    from presage.simulator import _cluster, _inputs, _placed, _shadow

    machine = _inputs.machine_of(nodes)
    demands = _inputs.demands_of(jobs)
    free = _cluster.all_free(machine, True)
    backfilling = PLACED_BACKFILLINGS.get(policy.backfilling)
    placement = PLACEMENTS.get(policy.placement)
    first = _inputs.offsets(jobs.tasks)
    places = _placed.Places(first, np.empty(first[-1], np.int64), np.empty(first[-1], np.int64))
    waiting = _inputs.waiting_of(demands, rank)
    base = jobs.jobs
    table = np.stack(
        [base.submit_ms, base.run_ms, base.plan_ms, base.limit_ms, base.processors, np.zeros(len(jobs), np.int64)]
    )
    # Only reservations need states to compute in, only the descent needs the workload.
    spare, both = (_cluster.all_free(machine, True) if backfilling == _placed.EASY else free for _ in range(2))
    workload = jobs if placement == Placement.FGD else jobs.select(np.arange(0))
    return _placed.Simulation(
        jobs=table,
        estimate_s=base.estimate_ms / 1000,
        rule=rule,
        backfilling=int(backfilling),
        placement=int(placement),
        demands=demands,
        machine=machine,
        free=free,
        typical=_inputs.typical_of(workload),
        waiting=waiting,
        shadow=_shadow.no_shadow(len(jobs), int(jobs.tasks.max()), spare, both),
        ends=np.empty((2, len(jobs) + 1), np.int64),
        candidates=np.empty((2, len(waiting.wants) + 1), np.int64),
        queue=np.empty(len(jobs), np.int64),
        counts=np.zeros(_placed.ENDED + 1, np.int64),
        places=places,
    )


def schedule_of(simulation: _placed.Simulation) -> Schedule:
    """Return what came out of a simulation that has run."""
    from presage.simulator._placed import START

    places = simulation.places
    return Schedule(simulation.jobs[START].copy(), places.first, places.node, places.gpus)


def placeable(jobs: PlacedJobs, nodes: Nodes) -> NDArray[np.bool_]:
    """Return for each job whether it fits on the empty machine."""
    from presage.simulator import _cluster, _inputs, _placed

    machine = _inputs.machine_of(nodes)
    fits: NDArray[np.bool_] = _placed.fitting(machine, _cluster.all_free(machine, True), _inputs.demands_of(jobs))
    return fits


def gpu_fragmentation(jobs: PlacedJobs, nodes: Nodes, schedule: Schedule, at_ms: int) -> float:
    """Return the share of the free GPUs that a typical task cannot use at `at_ms`, 0 if none are free.

    It is the expectation over the tasks of `jobs` that want GPUs, each counting as often as it occurs: a node that
    cannot hold a task is useless to it, and so are GPUs with less free than it wants of one.
    """
    from presage.simulator import _cluster, _fragmentation, _inputs, _placed

    machine = _inputs.machine_of(nodes)
    free = _cluster.all_free(machine, True)
    end_ms = schedule.start_ms + jobs.jobs.run_ms
    running = np.flatnonzero((schedule.start_ms <= at_ms) & (at_ms < end_ms))
    places = _placed.Places(schedule.first, schedule.node, schedule.gpus)
    _placed.occupy(machine, free, _inputs.demands_of(jobs), places, running)
    typical = _inputs.typical_of(jobs)
    available = int(free.gpu.sum()) * typical.total
    return _fragmentation.total_fragmentation(machine, free, typical) / available if available else 0.0


def ordered(jobs: PlacedJobs, policy: PlacedPolicy) -> tuple[int, IntArray]:
    """Return the engine's code of the order and the ranks of the jobs."""
    from presage.simulator._pooled import STATIC

    order = ORDERS.get(policy.order)()
    if isinstance(order, StaticOrder):
        return STATIC, ranked(order.scores(job_view(jobs.jobs)))[1]
    assert isinstance(order, DynamicOrder)  # noqa: S101  (there are two kinds of orders)
    return order.code, ranked(jobs.jobs.submit_ms)[1]


def unplaceable(name: str, count: int) -> InputError:
    """Return the error for jobs that fit on no empty machine, one of them by name."""
    others = f" (and {count - 1:,} others)" if count > 1 else ""
    return InputError(
        f"Job {name}{others} fits on no nodes of the machine, even when it is empty",
        expected="jobs whose members all fit together, with their GPU types and features",
        remedy="Leave such jobs out with drop_unplaceable, or give the machine more nodes",
    )


def machine_size_of(jobs: PlacedJobs, nodes: Nodes) -> int:
    """Return what sizes of jobs are shares of: the GPUs of the machine if any job wants GPUs, else processors."""
    if jobs.gpus.any() or jobs.gpu_milli.any():
        return int(nodes.gpus.sum())
    return max(int(nodes.cpu_milli.sum()) // 1000, 1)


def machine_of_nodes(nodes: pl.DataFrame) -> Machine:
    """Return what all nodes together have."""
    return Machine(
        nodes=len(nodes),
        cpus=float(nodes["cpus"].sum()) or None,
        gpus=float(nodes["gpus"].sum()) or None,
        mem_bytes=int(nodes["mem_bytes"].sum()) or None,
    )


def _where(trace: Trace, jobs: PlacedJobs, schedule: Schedule) -> list[pl.Series]:
    """Return the columns that say where each job runs."""
    members = pl.DataFrame({"job": np.repeat(np.arange(len(jobs)), jobs.tasks), "node": schedule.node})
    used = members.unique(maintain_order=True)
    named = used.with_columns(trace.nodes.select("node_id", "gpu_type")[used["node"]])
    by_job = named.group_by("job", maintain_order=True).agg(
        node_list="node_id", nodes_alloc=pl.len().cast(pl.Int64), gpu_type=pl.col("gpu_type").unique()
    )
    known = pl.Series(jobs.gpus + jobs.gpu_milli > 0) & (pl.col("gpu_type").list.len() == 1)
    return by_job.select(
        "node_list", "nodes_alloc", gpu_type=pl.when(known).then(pl.col("gpu_type").list.first())
    ).get_columns()
