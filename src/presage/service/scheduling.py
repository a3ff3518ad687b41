"""Who of a queue starts now, and where: what comes with a call as arrays, and schedules as decisions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, UsageError
from presage.policies import PLACED_BACKFILLINGS, Policy
from presage.policies.placements import PlacedPolicy
from presage.service.offered import SHIPPED, OfferedPolicies
from presage.service.queues import MOST_GPUS, Decision, Node, WaitingJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.learning.learned_policy import LearnedPolicy
    from presage.service.queues import RunningJob, ScheduleRequest
    from presage.simulator.jobs import Jobs
    from presage.simulator.next_placements import NodesNow
    from presage.simulator.nodes import Nodes, PlacedJobs

    Ints = NDArray[np.int64]

_OFFERED = OfferedPolicies()
_MOST_TASKS = 200_000
_MIB = 1 << 20
_MILLI = 1000


@dataclass(frozen=True)
class Chosen:
    """A policy as it was named. Raises UnknownNameError, UsageError."""

    text: str
    on_nodes: bool
    offered: tuple[str, ...] = SHIPPED
    """Names of learned orders."""
    has_urgent: bool = False
    """Whether some jobs go before the order."""

    @cached_property
    def learned(self) -> str | None:
        """The name of the learned order, if it is one; never a file of this machine."""
        name = self.text.strip().lower().partition("@")[0].partition("+")[0]
        return name if name in self.offered else None

    @cached_property
    def rules(self) -> PlacedPolicy:
        """The policy on nodes; a learned order stands in the place of its rule."""
        if self.learned is None:
            self._check_urgent()
            return PlacedPolicy.parse(self.text)
        queue, at, placement = self.text.strip().lower().partition("@")
        # A learned order is one with EASY backfilling, unless somebody says otherwise.
        backfilling = queue.partition("+")[2] if "+" in queue else "easy"
        return PlacedPolicy.parse(f"fcfs+{backfilling}{at}{placement}")

    @property
    def is_pooled(self) -> bool:
        """Whether the engine for pools of processors knows it, which orders by rules alone."""
        return not self.on_nodes and self.learned is None and not self.has_urgent

    def _check_urgent(self) -> None:
        backfilling = "none" if self.on_nodes else Policy.parse(self.text).backfilling
        if self.has_urgent and backfilling not in PLACED_BACKFILLINGS:
            raise UsageError(
                f"Urgent jobs cannot go first with the backfilling {backfilling} of a pool",
                expected=f"one of {', '.join(each.name for each in PLACED_BACKFILLINGS.specs())}",
            )

    def __str__(self) -> str:
        if not self.on_nodes and self.learned is None:
            return str(Policy.parse(self.text))
        words = str(self.rules)
        words = words if self.learned is None else words.replace(self.rules.order, self.learned, 1)
        return words if self.on_nodes else words.partition("@")[0]


def decide(request: ScheduleRequest, offered: OfferedPolicies = _OFFERED) -> tuple[str, list[Decision], int]:
    """Return the policy's name, what to do with each job, and how many processors stay free.

    The learned policies that may be named are those that are offered. Raises InputError for a queue or a machine
    that cannot be, UnknownNameError, UsageError.
    """
    has_urgent = any(job.urgent for job in request.waiting)
    chosen = Chosen(request.policy, request.nodes is not None, offered.names, has_urgent)
    name = str(chosen)
    _check(request)
    if chosen.is_pooled:
        return name, _decide_pooled(request, Policy.parse(request.policy)), _free(request)
    learned = None if chosen.learned is None else offered.policy(chosen.learned)
    return name, _decide_placed(request, chosen, learned), _free(request)


def free_after(free: int, decisions: Sequence[Decision]) -> int:
    """Return how many processors are free when the jobs that start now have started."""
    return free - sum(each.processors for each in decisions if each.action == "start")


def _free(request: ScheduleRequest) -> int:
    held = sum(_size(job, request) for job in request.running)
    had = request.processors or sum(node.cores - node.used_cores for node in request.nodes or [])
    return had - held


def _size(job: WaitingJob | RunningJob, request: ScheduleRequest) -> int:
    return job.tasks * job.cores if request.nodes is not None else job.processors or 0


def _check(request: ScheduleRequest) -> None:
    seen: set[str] = set()
    jobs: list[WaitingJob | RunningJob] = [*request.running, *request.waiting]
    for job in jobs:
        if job.job_id in seen:
            raise InputError(f"Two jobs have the id {job.job_id!r}", expected="each job once")
        seen.add(job.job_id)
        if (job.processors is None) == (request.nodes is None):
            expected = "processors for jobs of a pool, and tasks and cores for jobs on nodes"
            raise InputError(f"Job {job.job_id!r} does not fit this sort of machine", expected=expected)
    if sum(job.tasks for job in jobs) > _MOST_TASKS:
        raise InputError(f"The jobs have more than {_MOST_TASKS:,} tasks together", expected="fewer")
    names = {node.node_id for node in request.nodes or []}
    if len(names) < len(request.nodes or []):
        raise InputError("Two nodes have the same id", expected="each node once")
    for run in request.running if request.nodes is not None else []:
        if len(run.nodes) != run.tasks or not names.issuperset(run.nodes):
            raise InputError(
                f"Job {run.job_id!r} has {run.tasks} tasks and {len(run.nodes)} nodes, or some that are none",
                expected="the node of each task",
            )


def _decide_pooled(request: ScheduleRequest, policy: Policy) -> list[Decision]:
    from presage.simulator.next_starts import MachineNow, QueueNow, next_starts

    now_ms, size = round(request.now_s * 1000), request.processors or 0
    fits = [(job.processors or 0) <= size for job in request.waiting]
    fitting = [job for job, each in zip(request.waiting, fits, strict=True) if each]
    runs = request.running
    machine = MachineNow(
        now_ms, size, _counts([job.processors or 0 for job in runs]),
        _whole_ms([job.started_s for job in runs]), _whole_ms([job.limit_s for job in runs]),
    )  # fmt: skip
    queue = _queue([job.processors or 0 for job in fitting], fitting)
    seen = QueueNow(queue.submit_ms, queue.limit_ms, queue.processors, queue.estimate_ms)
    starts = next_starts(machine, seen, policy)
    order = _order_now(queue, policy.order, now_ms)
    return _decisions(request, fits, starts, order)


def _decide_placed(request: ScheduleRequest, chosen: Chosen, learned: LearnedPolicy | None) -> list[Decision]:
    from presage.simulator.next_placements import NodesNow, next_placements
    from presage.simulator.placed import placeable
    from presage.simulator.requirements import require_numba

    require_numba()
    pool = Node.model_construct(node_id="", cores=request.processors or 1)
    table = request.nodes or [pool]
    number = {node.node_id: at for at, node in enumerate(table)}
    nodes, types = _nodes(table)
    waiting = _placed(request, request.waiting, types, nodes)
    running = _placed(request, request.running, types, nodes)
    places = [number[name] for job in request.running for name in (job.nodes or [""])]
    machine = NodesNow(round(request.now_s * 1000), nodes, running, _counts(places))
    fits = placeable(waiting, nodes) if len(waiting) else np.zeros(0, np.bool_)
    queue = waiting.select(np.flatnonzero(fits))
    urgent = np.array([job.urgent for job in request.waiting], np.bool_)[np.flatnonzero(fits)]
    if learned is not None:
        order = _learned_order(learned, machine, queue, urgent)
    else:
        order = _order_now(queue.jobs, chosen.rules.order, machine.now_ms)
        order = order[np.argsort(~urgent[order], kind="stable")]
    # Rules whose order changes as time passes know it better than what it is now.
    keeps_order = learned is not None or urgent.any()
    schedule = next_placements(machine, queue, chosen.rules, order if keeps_order else None)
    named = [
        [table[node].node_id for node in schedule.node[schedule.first[at] : schedule.first[at + 1]]]
        for at in range(len(queue))
    ]
    return _decisions(request, fits, schedule.start_ms, order, named if request.nodes is not None else None)


def _decisions(
    request: ScheduleRequest,
    fits: Sequence[bool] | NDArray[np.bool_],
    starts: Ints,
    order: Ints,
    named: list[list[str]] | None = None,
) -> list[Decision]:
    """Return the decisions; `starts`, `order` and `named` are of the jobs that fit."""
    now_ms = round(request.now_s * 1000)
    fitting = [job for job, each in zip(request.waiting, fits, strict=True) if each]
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    decided = []
    for place in np.lexsort((rank, starts)):
        job, begins = fitting[place], bool(starts[place] <= now_ms)
        decided.append(
            Decision(
                job_id=job.job_id,
                action="start" if begins else "wait",
                processors=_size(job, request),
                nodes=named[place] if named is not None and begins else None,
                start_s=float(starts[place]) / 1000,
            )
        )
    never = [job for job, each in zip(request.waiting, fits, strict=True) if not each]
    return decided + [
        Decision(job_id=job.job_id, action="refuse", processors=_size(job, request), start_s=None) for job in never
    ]


def _nodes(table: list[Node]) -> tuple[Nodes, dict[str, int]]:
    """Return nodes as the engine wants them, and the bit of each type of GPU."""
    from presage.simulator.nodes import Nodes

    names = sorted({node.gpu_type for node in table if node.gpu_type is not None and node.gpus})
    if len(names) >= MOST_GPUS:
        raise InputError(f"The nodes have {len(names)} types of GPUs", expected=f"fewer than {MOST_GPUS}")
    types = {name: 2 << at for at, name in enumerate(names)}
    knows_memory = all(node.memory_bytes is not None for node in table)
    memory = [(node.memory_bytes or 0) - node.used_memory_bytes if knows_memory else 0 for node in table]
    racks = {name: at for at, name in enumerate(sorted({node.rack or "" for node in table}))}
    nodes = Nodes(
        cpu_milli=_counts([(node.cores - node.used_cores) * _MILLI for node in table]),
        mem_mib=np.maximum(_counts(memory) // _MIB, 0),
        gpus=_counts([node.gpus - node.used_gpus for node in table]),
        type_bit=_counts([types.get(node.gpu_type or "", 1) for node in table]),
        features=np.zeros(len(table), np.int64),
        rack=_counts([racks[node.rack or ""] for node in table]),
    )
    return nodes, types


def _placed(
    request: ScheduleRequest, jobs: Sequence[WaitingJob | RunningJob], types: dict[str, int], nodes: Nodes
) -> PlacedJobs:
    """Return jobs as the engine wants them; a pool is one node, and a job one task on it."""
    from presage.simulator.nodes import PlacedJobs

    cores = [job.cores if request.nodes is not None else job.processors or 1 for job in jobs]
    tasks = _counts([job.tasks if request.nodes is not None else 1 for job in jobs])
    gpus = _counts([job.gpus for job in jobs])
    wanted = any(job.gpus for job in [*request.running, *request.waiting])
    size = gpus * tasks if wanted else _counts(cores) * tasks
    # A type that no node has is a bit that no node has.
    masks = [_type_mask(job, types) for job in jobs]
    memory = _counts([-(-job.memory_bytes // _MIB) for job in jobs])
    zeros = np.zeros(len(jobs), np.int64)
    return PlacedJobs(
        _queue(np.maximum(size, 1).tolist(), jobs), tasks, _counts(cores) * _MILLI,
        memory if nodes.mem_mib.any() else zeros, gpus, zeros, _counts(masks), zeros,
    )  # fmt: skip


def _type_mask(job: WaitingJob | RunningJob, types: dict[str, int]) -> int:
    from presage.simulator.nodes import ANY_TYPE

    if not isinstance(job, WaitingJob) or job.gpu_type is None or not job.gpus:
        return ANY_TYPE
    return types.get(job.gpu_type, 1 << MOST_GPUS)


def _queue(sizes: list[int], jobs: Sequence[WaitingJob | RunningJob]) -> Jobs:
    from presage.simulator.jobs import Jobs

    begins = _whole_ms([job.submitted_s if isinstance(job, WaitingJob) else job.started_s for job in jobs])
    limit_ms = np.maximum(_whole_ms([job.limit_s for job in jobs]), 1)
    expected_s = [(job.expected_s if isinstance(job, WaitingJob) else None) or job.limit_s for job in jobs]
    expected_ms = np.maximum(_whole_ms(expected_s), 1)
    return Jobs(begins, limit_ms, limit_ms, np.minimum(expected_ms, limit_ms), limit_ms, _counts(sizes))


def _order_now(queue: Jobs, order: str, now_ms: int) -> Ints:
    """Return the places of jobs in the order of a rule."""
    from presage.simulator.next_starts import order_at

    by_submit = np.argsort(queue.submit_ms, kind="stable")
    return by_submit[order_at(queue.select(by_submit), order, now_ms)]


def _learned_order(
    learned: LearnedPolicy, machine: NodesNow, queue: PlacedJobs, urgent: NDArray[np.bool_]
) -> Ints:
    """Return the places of jobs in the order of a learned policy, which goes by what they are expected to run."""
    from presage.policies.queue_decision import Queue
    from presage.policies.run_forecasts import RunForecasts

    jobs = queue.jobs
    by_submit = np.argsort(jobs.submit_ms, kind="stable")
    counts_gpus = bool(queue.gpus.any() or machine.running.gpus.any())
    free, had = machine.free, machine.nodes
    amounts = (free["GPUs"], had.gpus) if counts_gpus else (free["processors"] // _MILLI, had.cpu_milli // _MILLI)
    seen = Queue(
        np.maximum(machine.now_ms - jobs.submit_ms[by_submit], 0) / 1000, jobs.limit_ms[by_submit] / 1000,
        jobs.processors[by_submit], np.zeros(len(jobs)), int(amounts[0].sum()), max(int(amounts[1].sum()), 1),
        urgent[by_submit],
    )  # fmt: skip
    forecasts = RunForecasts.certain(jobs.estimate_ms[by_submit] / 1000)
    return by_submit[learned.order(seen, forecasts)]


def _whole_ms(seconds: list[float]) -> Ints:
    return np.round(np.array(seconds, np.float64) * 1000).astype(np.int64)


def _counts(numbers: Sequence[int]) -> Any:
    return np.array(numbers, np.int64)
