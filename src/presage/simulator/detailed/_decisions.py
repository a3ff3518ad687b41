"""One pass of decisions: who starts now, who is interrupted for it, and what is reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.simulator._cluster import (
    Free,
    Want,
    build_tree,
    change,
    copy_amounts,
    give_back,
    meet,
    pick_gpus,
    room_on,
    take,
    total_room,
    update_tree,
)
from presage.simulator._placed import EASY, NONE, SKIP
from presage.simulator._placements import place
from presage.simulator._structures import NEVER, renewed_end
from presage.simulator.detailed._compiling import compiled, inner, lean
from presage.simulator.detailed._engine import advance, close_ranks, preempt, start
from presage.simulator.detailed._orders import DRF, LAS, VOLCANO, in_order, next_level_at, score
from presage.simulator.detailed._state import (
    LOGGED,
    NOW,
    RELEASES,
    RUNNING,
    TIMER,
    WAITERS,
    Cluster,
    Thoughts,
    want_members,
)

if TYPE_CHECKING:
    from presage.simulator.detailed._state import Floats, Ints, Records


_REMEMBERED = 64
"""How many jobs that could not start in the place of others a pass remembers."""


@compiled
def run(cluster: Cluster, thoughts: Thoughts) -> bool:
    """Run on; return False if it is over, True if the log has to be emptied first."""
    clock = cluster.clock
    room = len(cluster.log) - 2 * len(cluster.jobs)
    while clock[LOGGED] < room:
        if not advance(cluster):
            return False
        decide(cluster, thoughts, in_order(cluster, _worth_a_try(cluster)))
    return True


@inner
def _worth_a_try(cluster: Cluster) -> Ints:
    """Return the waiting jobs, without those that cannot start if leaving them out changes nothing for others."""
    jobs, refused, releases = cluster.jobs, cluster.refused, cluster.clock[RELEASES]
    queue = cluster.queue[: cluster.clock[WAITERS]]
    if cluster.rules.backfilling != SKIP or cluster.rules.preempts:
        return queue
    left = np.empty(len(queue), np.int64)
    count = 0
    for job in queue:
        if refused[jobs[job].shape] != releases:
            left[count] = job
            count += 1
    return left[:count]


@compiled
def decide(cluster: Cluster, thoughts: Thoughts, line: Ints) -> None:
    """Start whoever may start, looking at the waiting jobs in the order of `line`."""
    rules, clock, jobs, refused = cluster.rules, cluster.clock, cluster.jobs, cluster.refused
    now = clock[NOW]
    line = line.copy()
    if rules.backfilling == EASY:
        _plan_anew(cluster, now)
    # Whoever gets something has a larger share afterwards, so the line changes with every start.
    by_share = rules.order in (DRF, VOLCANO)
    victims, urgencies = _interruptible(cluster, rules.preempts)
    # What cannot start in the place of others cannot do so later in the pass, and neither can what wants more:
    # what is free or could be only shrinks.
    futile = np.empty(_REMEMBERED, np.int64)
    failed = 0
    at = 0
    while at < len(line):
        job = line[at]
        shape = jobs[job].shape
        at += 1
        started = refused[shape] != clock[RELEASES] and _start_if_it_fits(cluster, thoughts, job, now)
        if not started and len(victims) > 0 and not _wants_more(jobs, futile[:failed], job):
            started = _start_instead(cluster, thoughts, job, victims, urgencies, now)
            if not started and failed < _REMEMBERED:
                futile[failed] = job
                failed += 1
        if started:
            if by_share:
                line[at:] = in_order(cluster, np.sort(line[at:]))
        elif rules.backfilling == NONE:
            break
        elif rules.backfilling == EASY:
            _backfill(cluster, thoughts, job, line[at:], now)
            break
    close_ranks(jobs, cluster.queue, clock)
    if rules.order == LAS and clock[WAITERS] > 0:
        clock[TIMER] = next_level_at(cluster)


@inner
def _start_if_it_fits(cluster: Cluster, thoughts: Thoughts, job: int, now: int) -> bool:
    """Start a job with as many members as fit, at least those it needs."""
    jobs, refused, releases = cluster.jobs, cluster.refused, cluster.clock[RELEASES]
    shape, least, members = jobs[job].shape, jobs[job].least, jobs[job].tasks
    if least < members:
        members = total_room(cluster.machine, cluster.free, want_members(jobs, job, members))
    if members < least or not _place(cluster, thoughts, cluster.free, job, members):
        refused[shape] = releases
        return False
    start(cluster, job, members, now)
    return True


@inner
def _place(cluster: Cluster, thoughts: Thoughts, free: Free, job: int, members: int) -> bool:
    """Find places for members of a job and take them, or return False."""
    one = cluster.jobs[job]
    nodes = cluster.member_node[one.first_member : one.first_member + members]
    gpus = cluster.member_gpus[one.first_member : one.first_member + members]
    want = want_members(cluster.jobs, job, members)
    return place(cluster.rules.placement, cluster.machine, free, want, one.shape, thoughts.typical, nodes, gpus)


@lean
def _wants_more(jobs: Records, others: Ints, job: int) -> bool:
    """Return whether a job wants at least as much, as many and as special nodes as one of the others."""
    one = jobs[job]
    for other in others:
        less = jobs[other]
        if (
            one.least >= less.least
            and one.cpu >= less.cpu
            and one.mem >= less.mem
            and one.gpus >= less.gpus
            and one.share >= less.share
            and (one.types & ~less.types) == 0
            and (less.features & ~one.features) == 0
        ):
            return True
    return False


@inner
def _interruptible(cluster: Cluster, any_is: bool) -> tuple[Ints, Floats]:
    """Return the running jobs that may be interrupted, the least urgent first, and their scores."""
    jobs = cluster.jobs
    running = np.sort(cluster.ends.jobs[: cluster.ends.length[0] if any_is else 0])
    kept = 0
    for job in running:
        if jobs[job].preemptible:
            running[kept] = job
            kept += 1
    scores = np.empty(kept, np.float64)
    boosts = np.empty(kept, np.int64)
    for at in range(kept):
        scores[at] = score(cluster, running[at])
        boosts[at] = jobs[running[at]].boost
    line = np.argsort(-scores, kind="mergesort")
    line = line[np.argsort(boosts[line], kind="mergesort")]
    return running[line], scores[line]


@inner
def _start_instead(
    cluster: Cluster, thoughts: Thoughts, job: int, victims: Ints, urgencies: Floats, now: int
) -> bool:
    """Start a job in the place of running ones that are less urgent, the least urgent first; as few as will do."""
    jobs, spare = cluster.jobs, thoughts.spare
    below = _count_below(jobs, victims, urgencies, jobs[job].boost, score(cluster, job))
    if below == 0:
        return False
    want = want_members(jobs, job, jobs[job].least)
    copy_amounts(cluster.free, spare)
    fits = total_room(cluster.machine, cluster.free, want)
    tried = 0
    while fits < want.tasks and tried < below:
        if jobs[victims[tried]].status == RUNNING:
            fits += _move(cluster, spare, victims[tried], want, 1)
        tried += 1
    if fits < want.tasks:
        return False
    # Those that turn out not to be in the way are spared, the most urgent first.
    for at in range(tried - 1, -1, -1):
        if jobs[victims[at]].status == RUNNING:
            fits += _move(cluster, spare, victims[at], want, -1)
            if fits < want.tasks:
                fits += _move(cluster, spare, victims[at], want, 1)
                preempt(cluster, victims[at], now)
    return bool(_start_if_it_fits(cluster, thoughts, job, now))


@lean
def _count_below(jobs: Records, victims: Ints, urgencies: Floats, boost: int, own: float) -> int:
    """Return how many of the victims, the least urgent first, are less urgent than a job with this score."""
    at = 0
    while at < len(victims):
        other = jobs[victims[at]].boost
        if other > boost or (other == boost and urgencies[at] <= own):
            break
        at += 1
    return at


@lean
def _move(cluster: Cluster, free: Free, other: int, want: Want, sign: int) -> int:
    """Take a job off (1) or put it on (-1) a copy of the cluster; return how many more members then fit."""
    machine, nodes = cluster.machine, cluster.member_node
    one = cluster.jobs[other]
    held = want_members(cluster.jobs, other, one.members)
    more = 0
    for member in range(one.first_member, one.first_member + one.members):
        node = nodes[member]
        online = free.cpu[node] >= 0
        if online:
            more -= room_on(machine, free, node, want)
        change(machine, free, node, held, cluster.member_gpus[member], sign)
        if online:
            more += room_on(machine, free, node, want)
    return more


@lean
def _plan_anew(cluster: Cluster, now: int) -> None:
    """Give running jobs that outlived their plan a new one."""
    jobs, ends = cluster.jobs, cluster.ends
    for at in range(ends.length[0]):
        one = jobs[ends.jobs[at]]
        if one.planned_end <= now:
            one.planned_end = renewed_end(now, one.start, one.limit)


@inner
def _backfill(cluster: Cluster, thoughts: Thoughts, head: int, line: Ints, now: int) -> None:
    """Start jobs of `line` that leave the first job that does not fit the places reserved for it."""
    jobs, machine, free, refused = cluster.jobs, cluster.machine, cluster.free, cluster.refused
    spare, both, releases = thoughts.spare, thoughts.both, cluster.clock[RELEASES]
    shadow = _reserve(cluster, thoughts, head, now)
    too_long = np.zeros(len(refused), np.bool_)
    for job in line:
        shape, members, first = jobs[job].shape, jobs[job].tasks, jobs[job].first_member
        if refused[shape] == releases:
            continue
        want = want_members(jobs, job, members)
        if total_room(machine, free, want) < members:
            refused[shape] = releases
            continue
        nodes = cluster.member_node[first : first + members]
        if now + jobs[job].plan <= shadow:
            _place(cluster, thoughts, free, job, members)
            for node in nodes:
                meet(machine, free, spare, both, node, node + 1)
                update_tree(machine, both, node)
        elif too_long[shape] or not _place(cluster, thoughts, both, job, members):
            too_long[shape] = True
            continue
        else:
            for member in range(first, first + members):
                gpus = cluster.member_gpus[member]
                take(machine, free, cluster.member_node[member], want, gpus)
                change(machine, spare, cluster.member_node[member], want, gpus, -1)
        start(cluster, job, members, now)


@inner
def _reserve(cluster: Cluster, thoughts: Thoughts, head: int, now: int) -> int:
    """Return when `head` is to start; set `spare` to what is free then beside it, `both` to what is now too.

    If it cannot start on the nodes that are there, nothing is reserved and the answer is NEVER.
    """
    jobs, machine, free, spare, both = cluster.jobs, cluster.machine, cluster.free, thoughts.spare, thoughts.both
    least = jobs[head].least
    want = want_members(jobs, head, least)
    copy_amounts(free, spare)
    running = cluster.ends.jobs[: cluster.ends.length[0]].copy()
    planned = np.empty(len(running), np.int64)
    for at in range(len(running)):
        planned[at] = jobs[running[at]].planned_end
    line = np.argsort(planned, kind="mergesort")
    fits = total_room(machine, free, want)
    shadow = now
    at = 0
    while fits < least and at < len(line):
        shadow = planned[line[at]]
        while at < len(line) and planned[line[at]] == shadow:
            fits += _move(cluster, spare, running[line[at]], want, 1)
            at += 1
    if fits < least:
        shadow = NEVER
    build_tree(machine, spare)
    if shadow != NEVER:
        nodes = np.empty(least, np.int64)
        gpus = np.empty(least, np.int64)
        place(cluster.rules.placement, machine, spare, want, jobs[head].shape, thoughts.typical, nodes, gpus)
    meet(machine, free, spare, both, 0, len(free.cpu))
    build_tree(machine, both)
    return shadow


@compiled
def start_at(cluster: Cluster, job: int, nodes: Ints) -> bool:
    """Start a waiting job with one member on each entry of `nodes`; if they do not fit, change nothing."""
    machine, free = cluster.machine, cluster.free
    want = want_members(cluster.jobs, job, len(nodes))
    first = cluster.jobs[job].first_member
    for member in range(first, first + len(nodes)):
        node = nodes[member - first]
        if free.cpu[node] < 0 or room_on(machine, free, node, want) < 1:
            for placed in range(first, member):
                give_back(machine, free, cluster.member_node[placed], want, cluster.member_gpus[placed])
            return False
        cluster.member_node[member] = node
        cluster.member_gpus[member] = pick_gpus(machine, free, node, want)
        take(machine, free, node, want, cluster.member_gpus[member])
    start(cluster, job, len(nodes), cluster.clock[NOW])
    return True
