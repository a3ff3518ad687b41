"""Run a trace through a cluster in which things happen, and get the schedule as a trace, with its metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, UsageError
from presage.policies.cluster_orders import ClusterOrder
from presage.policies.cluster_policy import ClusterPolicy
from presage.simulator.detailed.conditions import Conditions
from presage.simulator.detailed.failures import draw_outages
from presage.simulator.detailed.jobs import detailed_jobs_of
from presage.simulator.detailed.schedules import DONE, detailed_trace
from presage.simulator.detailed.throughput import FULL, node_speeds
from presage.simulator.metrics import Metrics, measure
from presage.simulator.placed import machine_size_of, placeable, unplaceable
from presage.simulator.requirements import require_numba

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.simulator.detailed.engine import Engine
    from presage.simulator.detailed.jobs import DetailedJobs
    from presage.simulator.jobs import FloatArray, IntArray, Knowledge
    from presage.simulator.nodes import Nodes
    from presage.traces import Trace

    ScoreJobs = Callable[[Engine], FloatArray]
    """Returns one score per waiting job, the lowest first."""
    ChooseNodes = Callable[[Engine, int], IntArray | None]
    """Returns a node for every member of a job, or None to let it wait."""
    Records = NDArray[np.void]

_MOST_TRIES = 4


@dataclass(frozen=True)
class Disruptions:
    """What interruptions did."""

    preemptions: int
    node_failures: int
    """Jobs interrupted by a failing node, each time counted."""
    lost_cpu_s: float
    """Processor (or GPU) seconds of work done in vain."""
    never_started: int
    """Jobs that could not start: what they depend on failed, or their nodes did not come back."""
    missed_deadlines: int


@dataclass(frozen=True)
class DetailedSimulation:
    """What came out of one run."""

    policy: str
    trace: Trace
    """The jobs with simulated starts, ends, waits and nodes, and their attempts; a trace like any other."""
    metrics: Metrics
    """Of the jobs that ended. Waits last until the first start, runs from there to the end, interruptions
    included; utilization counts what running jobs held, whether in vain or not."""
    disruptions: Disruptions
    dropped: int
    """Jobs left out because they fit on no empty machine."""
    engine_s: float
    """How long the engine took."""

    @property
    def jobs_per_s(self) -> float:
        """How many jobs the engine scheduled per second."""
        return self.metrics.jobs / self.engine_s


def simulate_detailed(
    trace: Trace,
    policy: ClusterPolicy | str = "fcfs",
    conditions: Conditions | None = None,
    *,
    score: ScoreJobs | None = None,
    choose_nodes: ChooseNodes | None = None,
    order_by: Knowledge = "requested",
    plan_by: Knowledge = "requested",
    kill: bool = False,
    drop_unplaceable: bool = False,
) -> DetailedSimulation:
    """Schedule the jobs of `trace` on its nodes under `conditions`.

    `policy` is written as `tiresias+skip@best-fit`. `score` orders the waiting jobs instead of the policy's order;
    `choose_nodes` places them instead of its placement, which works with the backfillings none and skip. Both are
    called at every decision. The other options are those of `simulate_placed`.

    Raises InputError as `detailed_jobs_of` does, if a job fits on no empty machine unless `drop_unplaceable`
    leaves such jobs out, and if failures come so fast that jobs cannot end.
    """
    if isinstance(policy, str):
        policy = ClusterPolicy.parse(policy)
    if choose_nodes is not None and policy.backfilling == "easy":
        raise UsageError("Nodes cannot be chosen from outside under EASY", expected="the backfilling none or skip")
    require_numba()
    conditions = conditions or Conditions()
    jobs, nodes = detailed_jobs_of(trace, conditions, order_by=order_by, plan_by=plan_by)
    fits = placeable(jobs.placed, nodes)
    dropped = int((~fits).sum())
    if dropped and not drop_unplaceable:
        raise unplaceable(trace.jobs["job_id"][int(np.argmin(fits))], dropped)
    if dropped:
        kept = trace.with_jobs(trace.jobs.filter(fits))
        result = simulate_detailed(
            kept, policy, conditions, score=score, choose_nodes=choose_nodes, order_by=order_by, plan_by=plan_by,
            kill=kill,
        )  # fmt: skip
        return replace(result, dropped=dropped)
    run = _Run(trace, jobs, nodes, policy, conditions, kill)
    begin = time.perf_counter()
    engine = run.to_the_end(score, choose_nodes)
    return run.result(engine, time.perf_counter() - begin)


@dataclass(frozen=True)
class _Run:
    trace: Trace
    jobs: DetailedJobs
    nodes: Nodes
    policy: ClusterPolicy
    conditions: Conditions
    kill: bool

    @property
    def begin_ms(self) -> int:
        return int(self.jobs.placed.jobs.submit_ms.min())

    def to_the_end(self, score: ScoreJobs | None, choose_nodes: ChooseNodes | None) -> Engine:
        """Run with failures drawn far enough; they are the same however far that is."""
        base = self.jobs.placed.jobs
        horizon_ms = int(base.submit_ms.max()) + 4 * int(base.run_ms.max()) + 7 * 86_400_000
        for _ in range(_MOST_TRIES):
            engine = self._engine(horizon_ms)
            _drive(engine, score, choose_nodes)
            if engine.now_ms < horizon_ms or not self._fails():
                return engine
            horizon_ms += 2 * (horizon_ms - self.begin_ms)
        raise InputError(
            "Jobs do not come to an end: nodes fail faster than they can be run",
            remedy="Let jobs save checkpoints, or make failures rarer",
        )

    def _fails(self) -> bool:
        failures = self.conditions.failures
        return failures.node_mtbf_h is not None or failures.rack_mtbf_h is not None

    def _engine(self, horizon_ms: int) -> Engine:
        from presage.simulator.detailed.engine import Decisions, Engine

        order, table = self.policy.order, self.conditions.throughput
        decisions = Decisions(
            order=order,
            backfilling=self.policy.backfilling,
            placement=self.policy.placement,
            preempts=isinstance(order, ClusterOrder) and order.preempts,
            kill=self.kill,
        )
        speeds = node_speeds(table, self.trace.nodes) if table else None
        capacity = machine_size_of(self.jobs.placed, self.nodes)
        return Engine(self.jobs, self.nodes, decisions, self._happenings(horizon_ms), speeds, table, capacity)

    def _happenings(self, horizon_ms: int) -> Records:
        from presage.simulator.detailed import _state as parts

        names = dict(zip(self.trace.nodes["node_id"], range(len(self.nodes)), strict=True))
        numbers = dict(zip(self.trace.jobs["job_id"], range(len(self.jobs)), strict=True))
        rows = []
        for outage in draw_outages(self.conditions.failures, self.nodes.rack, self.begin_ms, horizon_ms):
            rows += [(outage.from_ms, parts.FAIL, outage.node, 0), (outage.to_ms, parts.REPAIR, outage.node, 0)]
        for drain in self.conditions.drains:
            for name in drain.nodes:
                node = _known(names, name, "drained node")
                rows.append((self._instant(drain.from_s), parts.DRAIN, node, 0))
                if drain.to_s is not None:
                    rows.append((self._instant(drain.to_s), parts.RESUME, node, 0))
        for override in self.conditions.overrides:
            job = _known(numbers, override.job, "job with a priority of its own")
            rows.append((self._instant(override.at_s), parts.PRIORITIZE, job, override.priority))
        return np.array(sorted(rows), parts.HAPPENING)

    def _instant(self, seconds: float) -> int:
        return self.begin_ms + round(seconds * 1000)

    def result(self, engine: Engine, engine_s: float) -> DetailedSimulation:
        records, stretches = engine.jobs, engine.stretches()
        ended = records["status"] == DONE
        if not ended.any():
            raise InputError("No job of the trace could start", remedy="Look at its dependencies and nodes")
        capacity = machine_size_of(self.jobs.placed, self.nodes)
        base = self.jobs.placed.select(np.flatnonzero(ended)).jobs
        finished = records[ended]
        lasting = replace(base, run_ms=finished["end"] - finished["first_start"])
        metrics = measure(lasting, finished["first_start"], capacity)
        held_ms = ((stretches["end"] - stretches["start"]) * records["size"][stretches["job"]]).sum()
        metrics = replace(metrics, utilization=float(held_ms) / 1000 / (capacity * metrics.makespan_s))
        deadlines = self.trace.jobs["deadline_ms"].to_numpy()
        disruptions = Disruptions(
            preemptions=int(records["preemptions"].sum()),
            node_failures=int(records["failures"].sum()),
            lost_cpu_s=float((records["lost"] / FULL / 1000 * records["size"]).sum()),
            never_started=int((~ended).sum()),
            missed_deadlines=int((ended & (records["end"] > deadlines)).sum()),
        )
        conditions = self.conditions.model_dump(mode="json", exclude_defaults=True)
        facts = {"policy": str(self.policy), "kill": self.kill, "conditions": conditions}
        schedule = detailed_trace(self.trace, engine, stretches, facts)
        return DetailedSimulation(str(self.policy), schedule, metrics, disruptions, 0, engine_s)


def _drive(engine: Engine, score: ScoreJobs | None, choose_nodes: ChooseNodes | None) -> None:
    if score is None and choose_nodes is None:
        engine.run()
        return
    while engine.advance():
        scores = score(engine) if score is not None else None
        if choose_nodes is None:
            engine.decide(scores)
            continue
        for job in engine.line(scores):
            nodes = choose_nodes(engine, int(job))
            if nodes is not None:
                engine.start(int(job), np.asarray(nodes, np.int64))
            elif not engine.skips:
                break


def _known(numbers: dict[Any, int], name: str, what: str) -> int:
    if name not in numbers:
        raise InputError(f"The trace does not have the {what} {name!r}")
    return numbers[name]
