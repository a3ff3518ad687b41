"""A simulated cluster that can be driven step by step: advance to the next instant, look, decide, go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import UsageError
from presage.policies import PLACED_BACKFILLINGS, PLACEMENTS, DynamicOrder, Placement, StaticOrder
from presage.policies.cluster_orders import ClusterOrder
from presage.simulator import _cluster, _inputs, _placed, _structures
from presage.simulator.detailed import _decisions, _engine, _orders
from presage.simulator.detailed import _state as parts
from presage.simulator.detailed._heap import empty_heap
from presage.simulator.detailed.throughput import FULL, Throughput, locality, sharing
from presage.simulator.pooled import job_view, ranked
from presage.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.policies import Order
    from presage.simulator._fragmentation import Typical
    from presage.simulator.detailed.jobs import DetailedJobs
    from presage.simulator.jobs import FloatArray, IntArray
    from presage.simulator.nodes import Nodes

    Records = NDArray[np.void]

_LEAST_LOG = 1024


@dataclass(frozen=True)
class Decisions:
    """How an engine decides by itself."""

    order: Order
    backfilling: str = "none"
    placement: str = "first-fit"
    preempts: bool = False
    kill: bool = False


class Engine:
    """A cluster with its jobs at one instant, before the first job arrives at the beginning.

    `advance` goes to the next instant. Then either `decide` starts jobs by the engine's own rules, in an order of
    the caller's choice if one is given, or the caller starts jobs with `start`. `run` does it all to the end.
    """

    def __init__(
        self,
        jobs: DetailedJobs,
        nodes: Nodes,
        decisions: Decisions,
        happenings: Records | None = None,
        speeds: IntArray | None = None,
        throughput: Throughput | None = None,
        capacity: int = 1,
    ) -> None:
        """`happenings` are records of `_state.HAPPENING` by time; `speeds` are the rows of `throughput` per node.

        `capacity` is what the sizes of running jobs add up to at most.
        """
        self._logs: list[Records] = []
        machine = _inputs.machine_of(nodes)
        table = throughput or Throughput()
        order = decisions.order
        members = int(jobs.placed.tasks.sum())
        self._cluster = parts.Cluster(
            jobs=_job_records(jobs, order),
            users=_user_records(jobs),
            nodes=_node_records(nodes),
            members=_member_records(jobs),
            member_node=np.zeros(members, np.int64),
            member_gpus=np.zeros(members, np.int64),
            tenants=np.zeros(int(nodes.gpus.sum()), np.int64),
            edges=_edge_records(jobs),
            happenings=np.zeros(0, parts.HAPPENING) if happenings is None else happenings,
            # At one instant every job can end and every job can be interrupted.
            log=np.zeros(3 * len(jobs) + _LEAST_LOG, parts.STRETCH),
            queue=np.zeros(2 * len(jobs), np.int64),
            refused=np.full(len(jobs), -1, np.int64),
            scratch=np.zeros(len(jobs), np.int64),
            features=np.zeros(_orders.FEATURES),
            usage=np.zeros(1),
            ends=empty_heap(len(jobs)),
            arrivals=empty_heap(len(jobs)),
            clock=_clock(),
            machine=machine,
            totals=_totals(nodes),
            free=_cluster.all_free(machine, True),
            speeds=parts.Speeds(
                on_node=np.full((1, len(nodes)), FULL) if speeds is None else speeds,
                across=locality(table),
                on_gpu=sharing(table.gpu_sharing),
                beside=sharing(table.node_sharing),
            ),
            rules=parts.Rules(
                order=order.code if isinstance(order, ClusterOrder | DynamicOrder) else _orders.STATIC,
                backfilling=int(PLACED_BACKFILLINGS.get(decisions.backfilling)),
                placement=int(PLACEMENTS.get(decisions.placement)),
                preempts=decisions.preempts,
                kills=decisions.kill,
                shares=bool(table.gpu_sharing or table.node_sharing),
                numbers=order.numbers(capacity) if isinstance(order, ClusterOrder) else np.zeros(1),
            ),
        )
        self._thoughts = parts.Thoughts(
            spare=_cluster.all_free(machine, False),
            both=_cluster.all_free(machine, False),
            typical=_typical(jobs, nodes, decisions.placement),
        )
        _engine.begin(self._cluster)

    @property
    def now_ms(self) -> int:
        """The instant at which the cluster stands."""
        return int(self._cluster.clock[parts.NOW])

    @property
    def waiting(self) -> IntArray:
        """The jobs that wait, by number, in the order of the queue."""
        return self._cluster.queue[: self._cluster.clock[parts.WAITERS]].copy()

    @property
    def running(self) -> IntArray:
        """The jobs that run, by number."""
        ends = self._cluster.ends
        return np.sort(ends.jobs[: ends.length[0]])

    @property
    def jobs(self) -> Records:
        """How all jobs stand, records of `_state.JOB`; to be read only."""
        return self._cluster.jobs

    @property
    def free(self) -> _cluster.Free:
        """What is free on every node; to be read only. A node that takes no jobs has less than no processors."""
        return self._cluster.free

    def advance(self) -> bool:
        """Go to the next instant at which something happens; return False if nothing is left to happen."""
        self._empty_log()
        return bool(_engine.advance(self._cluster))

    def decide(self, scores: FloatArray | None = None) -> None:
        """Start the jobs that may start now by the engine's rules.

        With `scores`, one per waiting job, the lowest goes first instead of the order's choice.
        """
        _decisions.decide(self._cluster, self._thoughts, self.line(scores))

    def line(self, scores: FloatArray | None = None) -> IntArray:
        """Return the waiting jobs with the first to go in front; `scores` as in `decide`."""
        queue = self.waiting
        if scores is None:
            return np.array(_orders.in_order(self._cluster, queue))
        if len(scores) != len(queue):
            raise UsageError(f"There are {len(scores):,} scores for {counted(len(queue), 'waiting job')}")
        return queue[np.lexsort((scores, -self.jobs["boost"][queue]))]

    @property
    def skips(self) -> bool:
        """Whether jobs may pass one that does not fit."""
        return bool(self._cluster.rules.backfilling == _placed.SKIP)

    def start(self, job: int, nodes: IntArray) -> bool:
        """Start a waiting job with one member on each entry of `nodes`; return False if they do not fit there."""
        if len(nodes) != self.jobs[job]["tasks"] or not self._on_machine(nodes):
            raise UsageError(
                f"Job {job} cannot be put on the nodes {nodes.tolist()}",
                expected=f"{self.jobs[job]['tasks']:,} numbers of nodes, one for each member",
            )
        started = bool(_decisions.start_at(self._cluster, job, nodes))
        _engine.close_ranks(self._cluster.jobs, self._cluster.queue, self._cluster.clock)
        return started

    def run(self) -> None:
        """Let everything happen, deciding at every instant."""
        while _decisions.run(self._cluster, self._thoughts):
            self._empty_log()

    def stretches(self) -> Records:
        """Return every stretch of running that is over, records of `_state.STRETCH` in the order they ended."""
        self._empty_log()
        return np.concatenate([np.zeros(0, parts.STRETCH), *self._logs])

    def nodes_of(self, job: int) -> IntArray:
        """Return the nodes of a job's members, as it last ran."""
        first = self.jobs[job]["first_member"]
        return self._cluster.member_node[first : first + self.jobs[job]["members"]]

    def _on_machine(self, nodes: IntArray) -> bool:
        return bool(((nodes >= 0) & (nodes < len(self._cluster.nodes))).all())

    def _empty_log(self) -> None:
        clock = self._cluster.clock
        if clock[parts.LOGGED]:
            self._logs.append(self._cluster.log[: clock[parts.LOGGED]].copy())
            clock[parts.LOGGED] = 0


def _totals(nodes: Nodes) -> IntArray:
    totals = [nodes.cpu_milli.sum(), nodes.mem_mib.sum(), nodes.gpus.sum() * _cluster.GPU]
    return np.maximum(np.array(totals, np.int64), 1)


def _clock() -> IntArray:
    clock = np.zeros(parts.TIMER + 1, np.int64)
    clock[parts.TIMER] = _structures.NEVER
    return clock


def _records(dtype: np.dtype[Any], count: int, columns: dict[str, Any]) -> Records:
    records = np.zeros(count, dtype)
    for name, column in columns.items():
        records[name] = column
    return records


def _job_records(jobs: DetailedJobs, order: Order) -> Records:
    base, placed = jobs.placed.jobs, jobs.placed
    rank: Any = np.arange(len(jobs))
    if isinstance(order, StaticOrder):
        rank = ranked(order.scores(job_view(base)))[1]
    demands = _inputs.demands_of(placed)
    first_edge = jobs.edges.first
    columns = {
        "submit": base.submit_ms, "work": jobs.work, "limit": base.limit_ms, "estimate": base.estimate_ms,
        "plan": jobs.plan_ms, "size": base.processors, "user": jobs.user, "succeeds": jobs.succeeds,
        "preemptible": jobs.preemptible, "checkpoint": jobs.checkpoint, "restart": jobs.restart,
        "kind": jobs.kind, "rank": rank, "first_edge": first_edge[:-1], "last_edge": first_edge[1:],
        **demands._asdict(), "least": jobs.least, "first_member": _inputs.offsets(placed.tasks)[:-1],
        "unmet": jobs.edges.held_back(), "eligible": base.submit_ms, "left": jobs.work, "rest": jobs.work,
        "rate": FULL, "first_start": -1, "start": -1, "end": -1, "score": jobs.qos,
        "boost": jobs.priority if isinstance(order, ClusterOrder) and order.by_priority else 0,
    }  # fmt: skip
    return _records(parts.JOB, len(jobs), columns)


def _user_records(jobs: DetailedJobs) -> Records:
    begin_ms = jobs.placed.jobs.submit_ms.min()
    return _records(parts.USER, int(jobs.user.max()) + 1, {"usage_at": begin_ms})


def _node_records(nodes: Nodes) -> Records:
    return _records(parts.NODE, len(nodes), {"first_here": -1})


def _member_records(jobs: DetailedJobs) -> Records:
    owners = np.repeat(np.arange(len(jobs)), jobs.placed.tasks)
    return _records(parts.MEMBER, len(owners), {"job": owners, "next_here": -1, "previous_here": -1})


def _edge_records(jobs: DetailedJobs) -> Records:
    edges = jobs.edges
    return _records(parts.EDGE, len(edges.job), {"job": edges.job, "kind": edges.kind, "delay": edges.delay_ms})


def _typical(jobs: DetailedJobs, nodes: Nodes, placement: str) -> Typical:
    descends = PLACEMENTS.get(placement) == Placement.FGD
    workload = jobs.placed if descends else jobs.placed.select(np.arange(0))
    return _inputs.typical_of(workload)
