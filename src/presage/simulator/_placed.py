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
    BOXED,
    FIRST_SLOT,
    JOB_IN,
    OPEN_LIST,
    QUEUED,
    RANK,
    SHAPE,
    SHUT,
    SLOT,
    STATE,
    Waiting,
    first_in_line,
    first_of_shape,
    join,
    leave,
    next_of_shape,
    reopen,
    shut,
    tidy,
    unbox,
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


# Rows of `jobs`.
SUBMIT, RUN, PLAN, LIMIT, SIZE, START = 0, 1, 2, 3, 4, 5
# Entries of `counts`: how many jobs run, how many have arrived, and how many have ended.
RUNNING, ARRIVED, ENDED = 0, 1, 2


class Simulation(NamedTuple):
    """All that the engine works with. Every job must fit on the empty machine; `free` must be all of it."""

    jobs: Ints
    """A column per job; START is to be filled in."""
    estimate_s: Floats
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
    ends: Ints
    """A heap of the ends of running jobs, and of the jobs; behind it are those that have just ended."""
    candidates: Ints
    """A heap for backfilling: the rank of the first candidate of each shape, and the job."""
    queue: Ints
    """For dynamic orders the waiting jobs in order of arrival."""
    counts: Ints
    places: Places
    """To be filled in."""


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
    """Fill in when and where the jobs run."""
    if sim.rule == STATIC:
        _run_by_rank(sim)
        return
    counts, jobs, waiting, queue = sim.counts, sim.jobs, sim.waiting, sim.queue
    queued = 0
    while counts[ARRIVED] < len(queue) or counts[RUNNING] > 0:
        first, ended = counts[ARRIVED], counts[ENDED]
        now = _advance(sim)
        for job in range(first, counts[ARRIVED]):
            queue[queued] = job
            queued += 1
        # Without an end, jobs that were passed over still do not fit: only the newcomers are looked at.
        only_new = sim.backfilling == SKIP and counts[ENDED] == ended
        line = np.arange(first, counts[ARRIVED]) if only_new else queue[:queued]
        line = in_order(line, now, jobs[SUBMIT], sim.estimate_s, jobs[SIZE], waiting.jobs[RANK], sim.rule)
        _decide_in_line(sim, line, now)
        # The queue stays in submit order, so that a stable sort breaks ties by it.
        kept = 0
        for at in range(queued):
            if waiting.jobs[QUEUED, queue[at]]:
                queue[kept] = queue[at]
                kept += 1
        queued = kept


@inner
def _run_by_rank(sim: Simulation) -> None:
    while sim.counts[ARRIVED] < len(sim.queue) or sim.counts[RUNNING] > 0:
        _decide(sim, _advance(sim))


@inner
def _advance(sim: Simulation) -> int:
    """Go to the next instant: let jobs end, plan anew, let jobs arrive; return the time."""
    counts, jobs = sim.counts, sim.jobs
    ends = counts[RUNNING] > 0 and (
        counts[ARRIVED] == len(sim.queue) or sim.ends[0, 0] <= jobs[SUBMIT, counts[ARRIVED]]
    )
    now = int(sim.ends[0, 0] if ends else jobs[SUBMIT, counts[ARRIVED]])
    if ends:
        _end_jobs(sim, now)
    if sim.backfilling == EASY:
        plan_anew(sim.shadow, sim.machine, sim.free, sim.demands, sim.places, now, jobs[START], jobs[LIMIT])
    while counts[ARRIVED] < len(sim.queue) and jobs[SUBMIT, counts[ARRIVED]] <= now:
        join(sim.waiting, counts[ARRIVED], jobs[PLAN, counts[ARRIVED]])
        counts[ARRIVED] += 1
    return now


@inner
def _end_jobs(sim: Simulation, now: int) -> None:
    """Give back what the jobs that end now have, and note which shapes may fit again."""
    ends, ending, counts, places = sim.ends[0], sim.ends[1], sim.counts, sim.places
    before = counts[RUNNING]
    while counts[RUNNING] > 0 and ends[0] <= now:
        job = ending[0]
        counts[RUNNING] -= 1
        counts[ENDED] += 1
        pop_end(ends, ending, counts[RUNNING])
        ending[counts[RUNNING]] = job
        want = want_of(sim.demands, job)
        for member in range(places.first[job], places.first[job + 1]):
            give_back(sim.machine, sim.free, places.node[member], want, places.gpus[member])
        if sim.backfilling == EASY:
            finish(sim.shadow, sim.machine, sim.free, sim.demands, places, job)
    last = -1
    for at in range(counts[RUNNING], before):
        for member in range(places.first[ending[at]], places.first[ending[at] + 1]):
            node = places.node[member]
            if node != last:
                reopen(sim.waiting, sim.free.tree, node)
                if sim.backfilling == EASY:
                    unbox(sim.waiting, sim.shadow.both.tree, node)
            last = node


@inner
def _decide(sim: Simulation, now: int) -> None:
    """Make one pass by ranks that never change."""
    waiting = sim.waiting
    shadow_ms = now
    if sim.backfilling != SKIP:
        job = first_in_line(waiting)
        while job >= 0 and not _is_shut(waiting, job) and _try(sim, job, now, now, False) == STARTED:
            job = first_in_line(waiting)
        if job < 0 or sim.backfilling == NONE or not _any_fits(waiting, sim.machine, sim.free, sim.demands):
            return
        shadow_ms = _reserve(sim, job)
    _backfill(sim, now, shadow_ms)


@inner
def _is_shut(waiting: Waiting, job: int) -> bool:
    return bool(waiting.shapes[STATE, waiting.jobs[SHAPE, job]] == SHUT)


@inner
def _any_fits(waiting: Waiting, machine: Machine, free: Free, demands: Demands) -> bool:
    """Shut the open shapes that do not fit; return whether any does, so that it is worth while to reserve."""
    for at in range(1, tidy(waiting) + 1):
        shape = waiting.shapes[OPEN_LIST, at]
        if not waiting.shapes[BOXED, shape]:
            want = want_of(demands, waiting.jobs[JOB_IN, waiting.shapes[FIRST_SLOT, shape]])
            if total_room(machine, free, want) < want.tasks:
                shut(waiting, shape)
    return tidy(waiting) > 0


@inner
def _reserve(sim: Simulation, head: int) -> int:
    """Return the shadow time of the first job that does not fit; bring up to date who fits beside it."""
    shadow = sim.shadow
    shadow_ms = reserve(shadow, sim.placement, sim.machine, sim.free, sim.demands, sim.places, sim.typical, head)
    for at in range(1, shadow.grown[0] + 1):
        unbox(sim.waiting, shadow.both.tree, shadow.grown[at])
    shadow.grown[0] = 0
    return shadow_ms


@inner
def _backfill(sim: Simulation, now: int, shadow_ms: int) -> None:
    """Try the jobs of open shapes by rank; of shapes that are boxed only those that end by the shadow time."""
    waiting, ranks, jobs = sim.waiting, sim.candidates[0], sim.candidates[1]
    boxed = waiting.shapes[BOXED]
    count = 0
    for at in range(1, tidy(waiting) + 1):
        shape = waiting.shapes[OPEN_LIST, at]
        job = first_of_shape(waiting, shape, shadow_ms - now if boxed[shape] else ANY_PLAN)
        if job >= 0:
            push_end(ranks, jobs, count, waiting.jobs[RANK, job], job)
            count += 1
    while count > 0:
        job = jobs[0]
        shape = waiting.jobs[SHAPE, job]
        count -= 1
        pop_end(ranks, jobs, count)
        if _try(sim, job, now, shadow_ms, True) != NO_ROOM:
            most = shadow_ms - now if boxed[shape] else ANY_PLAN
            job = next_of_shape(waiting, shape, waiting.jobs[SLOT, job] + 1, most)
            if job >= 0:
                push_end(ranks, jobs, count, waiting.jobs[RANK, job], job)
                count += 1


@inner
def _decide_in_line(sim: Simulation, line: Ints, now: int) -> None:
    """Make one pass over jobs in a given order."""
    waiting = sim.waiting
    backfills = sim.backfilling == SKIP
    shadow_ms = now
    for job in line:
        if backfills:
            too_long = now + sim.jobs[PLAN, job] > shadow_ms and waiting.shapes[BOXED, waiting.jobs[SHAPE, job]]
            if not _is_shut(waiting, job) and not too_long:
                _try(sim, job, now, shadow_ms, True)
        elif _is_shut(waiting, job) or _try(sim, job, now, shadow_ms, False) != STARTED:
            if sim.backfilling == NONE or not _any_fits(waiting, sim.machine, sim.free, sim.demands):
                return
            shadow_ms = _reserve(sim, job)
            backfills = True


@inner
def _try(sim: Simulation, job: int, now: int, shadow_ms: int, backfills: bool) -> int:
    """Start a job if it fits, and if it leaves the reservation its places; else note that its shape does not."""
    machine, places, waiting, jobs, counts = sim.machine, sim.places, sim.waiting, sim.jobs, sim.counts
    shape = waiting.jobs[SHAPE, job]
    want = want_of(sim.demands, job)
    nodes = places.node[places.first[job] : places.first[job + 1]]
    gpus = places.gpus[places.first[job] : places.first[job + 1]]
    beside = backfills and sim.backfilling == EASY and now + jobs[PLAN, job] > shadow_ms
    if beside:
        if not place(sim.placement, machine, sim.shadow.both, want, shape, sim.typical, nodes, gpus):
            waiting.shapes[BOXED, shape] = 1
            return TOO_LONG
    elif not place(sim.placement, machine, sim.free, want, shape, sim.typical, nodes, gpus):
        shut(waiting, shape)
        return NO_ROOM
    jobs[START, job] = now
    push_end(sim.ends[0], sim.ends[1], counts[RUNNING], now + jobs[RUN, job], job)
    counts[RUNNING] += 1
    leave(waiting, job)
    if sim.backfilling == EASY:
        begin(sim.shadow, machine, sim.free, sim.demands, places, job, now + jobs[PLAN, job], beside)
    return STARTED
