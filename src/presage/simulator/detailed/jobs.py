"""The jobs of a detailed simulation: what placed jobs have, and who they belong to and depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.simulator.detailed.throughput import FULL, job_kinds, recorded_speeds
from presage.simulator.nodes import MOST_BITS, Nodes, PlacedJobs, placed_jobs_of
from presage.traces.schema import Outcome
from presage.wording import counted

if TYPE_CHECKING:
    from presage.simulator.detailed.conditions import Checkpoints, Conditions
    from presage.simulator.jobs import FloatArray, IntArray, Knowledge
    from presage.traces import Trace

# Codes of the engine.
_EDGE_KINDS = {"after": 0, "afterok": 1, "afternotok": 2, "afterany": 3, "think": 3, "singleton": 3}


@dataclass(frozen=True)
class Edges:
    """Who waits for whom: edges from job j are `first[j]` to `first[j + 1]`."""

    first: IntArray
    job: IntArray
    kind: IntArray
    delay_ms: IntArray

    def held_back(self) -> IntArray:
        """Return for every job how many edges hold it back."""
        return np.bincount(self.job, minlength=len(self.first) - 1).astype(np.int64)


@dataclass(frozen=True)
class DetailedJobs:
    """Arrays of one length, in submit order, besides the edges."""

    placed: PlacedJobs
    work: IntArray
    """Milliseconds at the speed of the log, times FULL, checkpoints included."""
    plan_ms: IntArray
    user: IntArray
    succeeds: IntArray
    priority: IntArray
    """As the trace says, higher first; 0 where it says nothing."""
    qos: FloatArray
    """The same as a share of the highest."""
    preemptible: IntArray
    checkpoint: IntArray
    restart: IntArray
    least: IntArray
    kind: IntArray
    edges: Edges

    def __len__(self) -> int:
        return len(self.user)


def detailed_jobs_of(
    trace: Trace, conditions: Conditions, *, order_by: Knowledge = "requested", plan_by: Knowledge = "requested"
) -> tuple[DetailedJobs, Nodes]:
    """Return the jobs and nodes of a trace under some conditions; options as in `presage.simulator.jobs_of`.

    Partitions bind where the table of nodes knows any. Raises InputError as `placed_jobs_of` does, for jobs of a
    partition that no node has, and for dependencies that run in a circle.
    """
    placed, nodes = placed_jobs_of(trace, order_by=order_by, plan_by=plan_by)
    placed, nodes = _within_partitions(trace, placed, nodes)
    jobs, count = trace.jobs, len(trace.jobs)
    kind = np.zeros(count, np.int64)
    speed = np.ones(count)
    if conditions.throughput is not None:
        kind = job_kinds(conditions.throughput, jobs)
        speed = recorded_speeds(conditions.throughput, jobs, kind)
    stretch, checkpoint, restart = _checkpointing(conditions.checkpoints)
    priority = jobs["priority"].fill_null(0.0).to_numpy()
    tasks = placed.tasks
    return DetailedJobs(
        placed=placed,
        work=np.round(placed.jobs.run_ms * speed * stretch * FULL).astype(np.int64),
        plan_ms=np.round(placed.jobs.plan_ms * stretch).astype(np.int64),
        user=jobs["user"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1,
        succeeds=_succeeds(jobs),
        priority=np.round(priority).astype(np.int64),
        qos=priority / max(priority.max(), 1e-9) if priority.max() > 0 else np.zeros(count),
        preemptible=_preemptible(jobs, conditions.preemptible),
        checkpoint=np.full(count, checkpoint),
        restart=np.full(count, restart),
        least=np.clip(np.ceil(tasks * conditions.least_members), 1, tasks).astype(np.int64),
        kind=kind,
        edges=_edges(trace) if conditions.dependencies else _no_edges(count),
    ), nodes


def _checkpointing(checkpoints: Checkpoints | None) -> tuple[float, int, int]:
    """Return by how much checkpoints stretch a run, and the work between two and after an interruption."""
    if checkpoints is None:
        return 1.0, 0, 0
    period_s = checkpoints.every_s + checkpoints.cost_s
    stretch = period_s / checkpoints.every_s
    return stretch, max(1, round(period_s * 1000 * FULL)), round(checkpoints.restart_s * 1000 * FULL)


def _succeeds(jobs: pl.DataFrame) -> IntArray:
    bad = [Outcome.FAILED, Outcome.CANCELLED, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.NODE_FAILURE]
    failed = jobs["outcome"].cast(pl.String).is_in([outcome.value for outcome in bad]).fill_null(False)
    return (~failed).to_numpy().astype(np.int64)


def _preemptible(jobs: pl.DataFrame, answer: bool | None) -> IntArray:
    if answer is not None:
        return np.full(len(jobs), int(answer))
    return jobs["preemptible"].fill_null(True).to_numpy().astype(np.int64)


def _within_partitions(trace: Trace, placed: PlacedJobs, nodes: Nodes) -> tuple[PlacedJobs, Nodes]:
    """Return jobs and nodes with one more feature per partition."""
    lists = trace.nodes["partitions"].fill_null([]).to_list()
    known = sorted({name for names in lists for name in names})
    named = trace.jobs["partition"]
    if not known or named.null_count() == len(named):
        return placed, nodes
    missing = named.drop_nulls().unique().sort().to_list()
    missing = [name for name in missing if name not in known]
    if missing:
        raise InputError(
            f"Jobs ask for {counted(len(missing), 'partition')} that no node has: {', '.join(missing[:5])}",
            expected=f"one of {', '.join(known[:20])}",
            remedy="Mend the table of nodes, or drop those jobs",
        )
    used = int(np.bitwise_or.reduce(nodes.features) | np.bitwise_or.reduce(placed.features)).bit_length()
    if max(used, 1) + len(known) > MOST_BITS:
        raise InputError(f"The trace has {len(known):,} partitions", expected=f"fewer than {MOST_BITS - used}")
    bits = {name: 1 << (max(used, 1) + number) for number, name in enumerate(known)}
    asked = np.array([bits.get(name, 0) for name in named], np.int64)
    offered = np.array([sum(bits[name] for name in set(names)) for names in lists], np.int64)
    return replace(placed, features=placed.features | asked), replace(nodes, features=nodes.features | offered)


def _no_edges(count: int) -> Edges:
    none = np.zeros(0, np.int64)
    return Edges(np.zeros(count + 1, np.int64), none, none, none)


def _edges(trace: Trace) -> Edges:
    """Return the dependencies among the jobs of a trace; those on jobs that it does not have are met."""
    numbers = trace.jobs.select("job_id").with_row_index("number")
    found = (
        trace.edges.join(numbers, on="job_id")
        .join(numbers.rename({"job_id": "depends_on", "number": "before"}), on="depends_on")
        .sort("before", "number")
    )
    unknown = found.filter(~pl.col("kind").fill_null("afterany").is_in(list(_EDGE_KINDS)))
    if len(unknown):
        raise InputError(
            f"The dependency {unknown['kind'][0]!r} is not one that can be simulated",
            expected=f"one of {', '.join(_EDGE_KINDS)}",
        )
    count = len(trace.jobs)
    before = found["before"].to_numpy().astype(np.int64)
    edges = Edges(
        first=np.concatenate(([0], np.cumsum(np.bincount(before, minlength=count)))).astype(np.int64),
        job=found["number"].to_numpy().astype(np.int64),
        kind=np.array([_EDGE_KINDS[kind or "afterany"] for kind in found["kind"]], np.int64),
        delay_ms=(found["delay_s"].fill_null(0.0).clip(0) * 1000).round().to_numpy().astype(np.int64),
    )
    _refuse_circles(edges, trace)
    return edges


def _refuse_circles(edges: Edges, trace: Trace) -> None:
    held_back = edges.held_back()
    free = np.flatnonzero(held_back == 0).tolist()
    freed = 0
    while free:
        job = free.pop()
        freed += 1
        for dependent in edges.job[edges.first[job] : edges.first[job + 1]].tolist():
            held_back[dependent] -= 1
            if held_back[dependent] == 0:
                free.append(dependent)
    if freed < len(held_back):
        stuck = trace.jobs["job_id"][int(np.argmax(held_back > 0))]
        raise InputError(
            f"Job {stuck} and {counted(len(held_back) - freed - 1, 'other')} wait for each other in a circle",
            expected="dependencies without circles",
        )
