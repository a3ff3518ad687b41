"""What a policy does with a live queue on nodes: who starts now and where, and who is expected to start when.

As in `next_starts`, everybody is taken to run to his limit, and nobody else to come.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError
from presage.simulator.jobs import Jobs
from presage.simulator.nodes import ANY_TYPE, Nodes, PlacedJobs
from presage.simulator.placed import Schedule, ordered, prepared, schedule_of
from presage.simulator.requirements import require_numba

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.policies.placements import PlacedPolicy
    from presage.simulator.jobs import IntArray

_MILLI = 1000


@dataclass(frozen=True)
class NodesNow:
    """Nodes at an instant, with the jobs that run on them. Raises InputError if these do not fit there."""

    now_ms: int
    nodes: Nodes
    running: PlacedJobs
    """`jobs.submit_ms` is when each began, `jobs.run_ms` how long it may run; whole GPUs only."""
    places: IntArray
    """The node of each member, job by job."""

    def __post_init__(self) -> None:
        for name, free in self.free.items():
            worst = int(np.argmin(free))
            if free[worst] < 0:
                raise InputError(
                    f"Running jobs hold more {name} of node number {worst} than it has",
                    expected="jobs that fit on the nodes they run on",
                )

    @property
    def free(self) -> dict[str, IntArray]:
        """What nobody holds of each node."""
        had = {"processors": self.nodes.cpu_milli, "memory": self.nodes.mem_mib, "GPUs": self.nodes.gpus}
        each = {"processors": self.running.cpu_milli, "memory": self.running.mem_mib, "GPUs": self.running.gpus}
        return {name: had[name] - self._held(each[name]) for name in had}

    @property
    def ends_ms(self) -> IntArray:
        """When each running job is expected to end; one that passed its limit, at the next instant."""
        ends_ms: IntArray = np.maximum(self.running.jobs.submit_ms + self.running.jobs.run_ms, self.now_ms + 1)
        return ends_ms

    def _held(self, of_member: IntArray) -> IntArray:
        held = np.zeros(len(self.nodes), np.int64)
        np.add.at(held, self.places, np.repeat(of_member, self.running.tasks))
        return held


def next_placements(
    machine: NodesNow, waiting: PlacedJobs, policy: PlacedPolicy, order: IntArray | None = None
) -> Schedule:
    """Return when and where each waiting job starts; `machine.now_ms` for those that start at once.

    Every job must want a processor and fit on the empty machine, as `placeable` says. `order` are the places of
    the jobs, first things first, if somebody else than the policy's rule orders them. Raises InputError.
    """
    from presage.simulator import _placed, _resuming

    require_numba()
    if not len(waiting):
        return Schedule(*(np.zeros(size, np.int64) for size in (0, 1, 0, 0)))
    if not waiting.cpu_milli.all():
        raise InputError("A waiting job wants no processor", expected="jobs that want one or more on each node")
    by_submit = np.argsort(waiting.jobs.submit_ms, kind="stable")
    early, places = _early(machine)
    shift_ms = 1 - min(int(early.jobs.submit_ms.min()), int(waiting.jobs.submit_ms.min()), machine.now_ms - 1)
    jobs = _shifted(_joined(early, _arrived(waiting.select(by_submit), machine.now_ms)), shift_ms)
    rule, rank = ordered(jobs, policy) if order is None else _ranked(order, by_submit, len(early))
    simulation = prepared(jobs, machine.nodes, policy, rule, rank)
    simulation.jobs[_placed.START, : len(early)] = jobs.jobs.submit_ms[: len(early)]
    simulation.places.node[: len(places)] = places
    simulation.places.gpus[: len(places)] = _masks(early, places, machine.nodes)
    _resuming.resume(simulation, len(early))
    _placed.run_placed(simulation)
    return _of_queue(schedule_of(simulation), len(early), by_submit, waiting.tasks, shift_ms)


def _early(machine: NodesNow) -> tuple[PlacedJobs, IntArray]:
    """Return the jobs that run, and fillers that hold every processor that is free until now; and their nodes.

    So nobody starts before now, and those who wait have waited since they came.
    """
    free = machine.free["processors"]
    idle = np.flatnonzero(free)
    runs = machine.running.jobs
    begin_ms = min([machine.now_ms - 1, *runs.submit_ms.tolist()])
    running = _with_lengths(machine.running, machine.ends_ms - runs.submit_ms)
    zeros = np.zeros(len(idle), np.int64)
    length_ms = np.full(len(idle), machine.now_ms - begin_ms, np.int64)
    held = Jobs(zeros + begin_ms, *(length_ms,) * 4, np.maximum(free[idle] // _MILLI, 1))
    fillers = PlacedJobs(held, zeros + 1, free[idle], zeros, zeros, zeros, zeros + ANY_TYPE, zeros)
    return _joined(running, fillers), np.concatenate([machine.places, idle])


def _arrived(waiting: PlacedJobs, now_ms: int) -> PlacedJobs:
    jobs = replace(waiting.jobs, submit_ms=np.minimum(waiting.jobs.submit_ms, now_ms))
    return replace(waiting, jobs=jobs)


def _with_lengths(placed: PlacedJobs, length_ms: IntArray) -> PlacedJobs:
    jobs = replace(placed.jobs, run_ms=length_ms, limit_ms=length_ms, estimate_ms=length_ms, plan_ms=length_ms)
    return replace(placed, jobs=jobs)


def _joined(one: PlacedJobs, other: PlacedJobs) -> PlacedJobs:
    names = [field.name for field in fields(PlacedJobs) if field.name != "jobs"]
    of_jobs = [field.name for field in fields(Jobs) if field.name != "origin_ms"]
    jobs = replace(one.jobs, **{name: _both(one.jobs, other.jobs, name) for name in of_jobs})
    return replace(one, jobs=jobs, **{name: _both(one, other, name) for name in names})


def _both(one: object, other: object, name: str) -> Any:
    return np.concatenate([getattr(one, name), getattr(other, name)])


def _shifted(placed: PlacedJobs, by_ms: int) -> PlacedJobs:
    """Return the jobs on a clock that is above 0; rules that use the submit second still know the other."""
    jobs = replace(placed.jobs, submit_ms=placed.jobs.submit_ms + by_ms, origin_ms=by_ms)
    return replace(placed, jobs=jobs)


def _ranked(order: IntArray, by_submit: IntArray, before: int) -> tuple[int, IntArray]:
    """Return the engine's code for an order that does not change, and the ranks of all jobs."""
    from presage.simulator._pooled import STATIC

    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return STATIC, np.concatenate([np.arange(before), before + rank[by_submit]])


def _masks(early: PlacedJobs, places: IntArray, nodes: Nodes) -> NDArray[np.int64]:
    """Return which GPUs of its node each member holds: nobody said which, so the first that are left."""
    wanted = np.repeat(early.gpus, early.tasks)
    masks = np.zeros(len(places), np.int64)
    taken = np.zeros(len(nodes), np.int64)
    for member in np.flatnonzero(wanted):
        node = places[member]
        masks[member] = ((1 << int(wanted[member])) - 1) << int(taken[node])
        taken[node] += wanted[member]
    return masks


def _of_queue(whole: Schedule, before: int, by_submit: IntArray, tasks: IntArray, shift_ms: int) -> Schedule:
    """Return the part of a schedule that is about the queue, in the queue's own order and on its own clock."""
    starts = np.empty(len(by_submit), np.int64)
    starts[by_submit] = whole.start_ms[before:] - shift_ms
    first = np.concatenate([[0], np.cumsum(tasks)]).astype(np.int64)
    node, gpus = np.empty(first[-1], np.int64), np.empty(first[-1], np.int64)
    for at, job in enumerate(by_submit):
        begin = whole.first[before + at]
        node[first[job] : first[job + 1]] = whole.node[begin : begin + tasks[job]]
        gpus[first[job] : first[job + 1]] = whole.gpus[begin : begin + tasks[job]]
    return Schedule(starts, first, node, gpus)
