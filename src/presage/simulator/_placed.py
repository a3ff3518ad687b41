"""The event engine on nodes: jobs in, start times and places out, integer milliseconds.

At one instant all ends come first, then all arrivals, then one pass of decisions, as on pooled processors; running
jobs that outlive their plan are planned anew in the same way. A pass starts jobs in order while all their members
fit. What happens at the first job that does not fit is the backfilling:

* NONE: the pass is over.
* SKIP: it is passed over; every later job that fits starts.
* EASY: it gets a reservation. On a copy of the free state the running jobs are released by planned end, all of one
  millisecond together, until it fits; that is the shadow time, and the placement rule says which places it would
  take then. A later job that fits now starts if it is planned to end by the shadow time. If not, it starts where
  the rule finds room in what is free now and also free at the shadow time beside the reserved places, if it does.

Nothing becomes free between two ends, so jobs of a shape that did not fit are not tried again before the next end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._cluster import Free, Machine, change, give_back, total_room
from presage.simulator._compiling import compiled, inner, lean
from presage.simulator._demands import Demands as Demands
from presage.simulator._demands import Places as Places
from presage.simulator._demands import want_of as want_of
from presage.simulator._placements import place
from presage.simulator._pooled import STATIC, in_order
from presage.simulator._shadow import Shadow, begin, finish, plan_anew, reserve
from presage.simulator._structures import pop_end, push_end
from presage.simulator._waiting import (
    ANY_PLAN,
    OPEN,
    SHUT,
    Waiting,
    first_in_line,
    first_of_shape,
    join,
    leave,
    may_hold,
    next_of_shape,
    reopen,
    shut,
    tidy,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator._fragmentation import Typical

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

# Codes of presage.policies.
NONE, EASY, SKIP = 0, 1, 2
# What came of trying to start a job.
STARTED, NO_ROOM, TOO_LONG = 0, 1, 2


class Simulation(NamedTuple):
    """All that the engine works with. Every job must fit on the empty machine; `free` must be all of it."""

    submit: Ints
    run: Ints
    plan: Ints
    limit: Ints
    estimate_s: Floats
    size: Ints
    rule: int
    """The code of a dynamic order, or STATIC to go by rank."""
    backfilling: int
    placement: int
    demands: Demands
    machine: Machine
    free: Free
    typical: Typical
    waiting: Waiting
    shadow: Shadow
    """Only for EASY."""
    boxed: Ints
    """By shape: whether its jobs do not fit beside the reservation."""
    ends: Ints
    """A heap of the running jobs by end."""
    ending: Ints
    """The jobs of the heap; behind it those that have just ended."""
    running: Ints
    """The length of the heap."""
    ended: Ints
    """How many jobs have ended."""
    ranks: Ints
    """A heap for backfilling: the first candidate of each shape by rank."""
    candidates: Ints
    """The jobs of the heap."""
    queue: Ints
    """For dynamic orders the waiting jobs in order of arrival."""
    start: Ints
    places: Places


@compiled
def fitting(machine: Machine, free: Free, demands: Demands) -> Flags:
    """Return for each job whether all its members fit into what is free."""
    fits = np.empty(len(demands.tasks), np.bool_)
    known = np.full(len(demands.tasks), -1, np.int64)
    for job in range(len(fits)):
        shape = demands.shape[job]
        if known[shape] < 0:
            want = want_of(demands, job)
            known[shape] = 1 if total_room(machine, free, want) >= want.tasks else 0
        fits[job] = known[shape] == 1
    return fits


@lean
def occupy(machine: Machine, free: Free, demands: Demands, places: Places, jobs: Ints) -> None:
    """Take the places of some jobs out of what is free; the tree is left as it is."""
    for job in jobs:
        want = want_of(demands, job)
        for member in range(places.first[job], places.first[job + 1]):
            change(machine, free, places.node[member], want, places.gpus[member], -1)


@compiled
def run_placed(sim: Simulation) -> None:
    """Fill `start` and `places`."""
    if sim.rule == STATIC:
        _run_by_rank(sim)
        return
    arrived = 0
    queued = 0
    while arrived < len(sim.submit) or sim.running[0] > 0:
        now, first, ended = _next_instant(sim, arrived), arrived, sim.ended[0]
        arrived = _advance(sim, arrived, now)
        for job in range(first, arrived):
            sim.queue[queued] = job
            queued += 1
        # Without an end, jobs that were passed over still do not fit: only the newcomers are looked at.
        only_new = sim.backfilling == SKIP and sim.ended[0] == ended
        line = np.arange(first, arrived) if only_new else sim.queue[:queued]
        line = in_order(line, now, sim.submit, sim.estimate_s, sim.size, sim.waiting.rank, sim.rule)
        _decide_in_line(sim, line, now)
        # The queue stays in submit order, so that a stable sort breaks ties by it.
        kept = 0
        for at in range(queued):
            if sim.waiting.queued[sim.queue[at]]:
                sim.queue[kept] = sim.queue[at]
                kept += 1
        queued = kept


@inner
def _run_by_rank(sim: Simulation) -> None:
    arrived = 0
    while arrived < len(sim.submit) or sim.running[0] > 0:
        now = _next_instant(sim, arrived)
        arrived = _advance(sim, arrived, now)
        _decide(sim, now)


@inner
def _next_instant(sim: Simulation, arrived: int) -> int:
    if sim.running[0] > 0 and (arrived >= len(sim.submit) or sim.ends[0] <= sim.submit[arrived]):
        return int(sim.ends[0])
    return int(sim.submit[arrived])


@inner
def _advance(sim: Simulation, arrived: int, now: int) -> int:
    """Let the jobs end that end now, plan anew, let the next jobs arrive; return how many have arrived."""
    if sim.running[0] > 0 and sim.ends[0] <= now:
        _end_jobs(sim, now)
    if sim.backfilling == EASY:
        plan_anew(sim.shadow, sim.machine, sim.free, sim.demands, sim.places, now, sim.start, sim.limit)
    while arrived < len(sim.submit) and sim.submit[arrived] <= now:
        join(sim.waiting, arrived, sim.plan[arrived])
        arrived += 1
    return arrived


@inner
def _end_jobs(sim: Simulation, now: int) -> None:
    """Give back what the jobs that end now have, and note which shapes may fit again."""
    ends, ending, running, places, waiting, tree = (
        sim.ends, sim.ending, sim.running, sim.places, sim.waiting, sim.free.tree,
    )  # fmt: skip
    before = running[0]
    while running[0] > 0 and ends[0] <= now:
        job = ending[0]
        running[0] -= 1
        sim.ended[0] += 1
        pop_end(ends, ending, running[0])
        ending[running[0]] = job
        want = want_of(sim.demands, job)
        for member in range(places.first[job], places.first[job + 1]):
            give_back(sim.machine, sim.free, places.node[member], want, places.gpus[member])
        if sim.backfilling == EASY:
            finish(sim.shadow, sim.machine, sim.free, sim.demands, places, job)
    last = -1
    for at in range(running[0], before):
        for member in range(places.first[ending[at]], places.first[ending[at] + 1]):
            node = places.node[member]
            if node != last:
                reopen(waiting, tree, node)
                if sim.backfilling == EASY:
                    _unbox(waiting, sim.boxed, sim.shadow.both.tree, node)
            last = node


@inner
def _unbox(waiting: Waiting, boxed: Ints, tree: Ints, node: int) -> None:
    """Note that there may be more room on a node beside the reservation."""
    opened, wants = waiting.opened, waiting.wants
    leaf = len(tree) // 2 + node
    for at in range(1, opened[0] + 1):
        if boxed[opened[at]] and may_hold(tree, leaf, wants, opened[at]):
            boxed[opened[at]] = 0


@inner
def _decide(sim: Simulation, now: int) -> None:
    """Make one pass by ranks that never change."""
    waiting = sim.waiting
    shadow_ms = now
    if sim.backfilling != SKIP:
        job = first_in_line(waiting)
        while (
            job >= 0 and waiting.state[waiting.shape[job]] != SHUT and _try(sim, job, now, now, False) == STARTED
        ):
            job = first_in_line(waiting)
        if job < 0 or sim.backfilling == NONE:
            return
        _shut_full(waiting, sim.boxed, sim.machine, sim.free, sim.demands)
        if tidy(waiting) == 0:
            return
        shadow_ms = _reserve(sim, job)
    _backfill(sim, now, shadow_ms)


@inner
def _reserve(sim: Simulation, head: int) -> int:
    """Return the shadow time of the first job that does not fit; bring up to date who fits beside it."""
    shadow_ms = reserve(
        sim.shadow, sim.placement, sim.machine, sim.free, sim.demands, sim.places, sim.typical, head
    )
    grown = sim.shadow.grown
    for at in range(1, grown[0] + 1):
        _unbox(sim.waiting, sim.boxed, sim.shadow.both.tree, grown[at])
    grown[0] = 0
    return shadow_ms


@inner
def _shut_full(waiting: Waiting, boxed: Ints, machine: Machine, free: Free, demands: Demands) -> None:
    """Shut the open shapes that do not fit at all, so that nothing need be reserved if no shape does."""
    for at in range(1, waiting.opened[0] + 1):
        shape = waiting.opened[at]
        if waiting.state[shape] == OPEN and not boxed[shape]:
            want = want_of(demands, waiting.job_in[waiting.first_slot[shape]])
            if total_room(machine, free, want) < want.tasks:
                shut(waiting, shape)


@inner
def _backfill(sim: Simulation, now: int, shadow_ms: int) -> None:
    """Try the waiting jobs of open shapes by rank."""
    waiting = sim.waiting
    shapes = tidy(waiting)
    ranks, jobs = sim.ranks, sim.candidates
    count = 0
    for at in range(1, shapes + 1):
        shape = waiting.opened[at]
        job = first_of_shape(waiting, shape, shadow_ms - now if sim.boxed[shape] else ANY_PLAN)
        if job >= 0:
            push_end(ranks, jobs, count, waiting.rank[job], job)
            count += 1
    while count > 0:
        job = jobs[0]
        shape = waiting.shape[job]
        count -= 1
        pop_end(ranks, jobs, count)
        if _try(sim, job, now, shadow_ms, True) != NO_ROOM:
            most = shadow_ms - now if sim.boxed[shape] else ANY_PLAN
            job = next_of_shape(waiting, shape, waiting.slot[job] + 1, most)
            if job >= 0:
                push_end(ranks, jobs, count, waiting.rank[job], job)
                count += 1


@inner
def _decide_in_line(sim: Simulation, line: Ints, now: int) -> None:
    """Make one pass over jobs in a given order."""
    waiting = sim.waiting
    backfills = sim.backfilling == SKIP
    shadow_ms = now
    for job in line:
        shape = waiting.shape[job]
        if backfills and (waiting.state[shape] == SHUT or _is_too_long(sim, job, now, shadow_ms)):
            continue
        if waiting.state[shape] != SHUT and _try(sim, job, now, shadow_ms, backfills) == STARTED:
            continue
        if sim.backfilling == NONE:
            return
        if not backfills:
            backfills = True
            _shut_full(waiting, sim.boxed, sim.machine, sim.free, sim.demands)
            if tidy(waiting) == 0:
                return
            shadow_ms = _reserve(sim, job)


@inner
def _is_too_long(sim: Simulation, job: int, now: int, shadow_ms: int) -> bool:
    """Return whether a job is known not to fit beside the reservation, and does not end before it."""
    return bool(sim.boxed[sim.waiting.shape[job]] and now + sim.plan[job] > shadow_ms)


@inner
def _try(sim: Simulation, job: int, now: int, shadow_ms: int, backfills: bool) -> int:
    """Start a job if it fits, and if it leaves the reservation its places; else note that its shape does not."""
    machine, places, waiting = sim.machine, sim.places, sim.waiting
    shape = waiting.shape[job]
    want = want_of(sim.demands, job)
    nodes = places.node[places.first[job] : places.first[job + 1]]
    gpus = places.gpus[places.first[job] : places.first[job + 1]]
    beside = backfills and sim.backfilling == EASY and now + sim.plan[job] > shadow_ms
    if beside:
        if not place(sim.placement, machine, sim.shadow.both, want, shape, sim.typical, nodes, gpus):
            sim.boxed[shape] = 1
            return TOO_LONG
    elif not place(sim.placement, machine, sim.free, want, shape, sim.typical, nodes, gpus):
        shut(waiting, shape)
        return NO_ROOM
    sim.start[job] = now
    push_end(sim.ends, sim.ending, sim.running[0], now + sim.run[job], job)
    sim.running[0] += 1
    leave(waiting, job)
    if sim.backfilling == EASY:
        begin(sim.shadow, machine, sim.free, sim.demands, places, job, now + sim.plan[job], beside)
    return STARTED
