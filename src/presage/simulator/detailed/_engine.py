"""What happens to jobs and nodes: ends, failures, arrivals, starts and interruptions.

At one instant jobs end first, then things happen to nodes and priorities in the order given, then jobs become
eligible, then decisions are made (`_decisions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from presage.simulator._cluster import GPU, give_back, update_tree
from presage.simulator._structures import NEVER
from presage.simulator.detailed._compiling import compiled, lean
from presage.simulator.detailed._heap import discard, first_instant, pop, push
from presage.simulator.detailed._orders import QSSF, STATIC, arrival_score, settle_usage
from presage.simulator.detailed._speeds import count_tenants, rate_of
from presage.simulator.detailed._state import (
    AFTER_END,
    AFTER_NOT_OK,
    AFTER_OK,
    AFTER_START,
    AHEAD,
    COMPLETED,
    DONE,
    DRAIN,
    FAIL,
    FULL,
    HOPELESS,
    LOGGED,
    NEXT_HAPPENING,
    NODE_FAILED,
    NOW,
    OFFLINE,
    PREEMPTED,
    PRIORITIZE,
    RELEASES,
    RUNNING,
    TIMED_OUT,
    TIMER,
    WAITERS,
    WAITING,
    Cluster,
    want_members,
)

if TYPE_CHECKING:
    from presage.simulator.detailed._state import Ints, Records


@compiled
def advance(cluster: Cluster) -> bool:
    """Go to the next instant and let everything happen but decisions; return False if nothing is left."""
    clock, ends, arrivals, happenings = cluster.clock, cluster.ends, cluster.arrivals, cluster.happenings
    happening = clock[NEXT_HAPPENING]
    now = min(first_instant(ends), first_instant(arrivals), clock[TIMER])
    unfinished = ends.length[0] + arrivals.length[0] + clock[WAITERS] > 0
    if happening < len(happenings) and unfinished:
        now = min(now, happenings[happening].instant)
    if now == NEVER:
        return False
    clock[NOW] = now
    clock[TIMER] = NEVER
    while first_instant(ends) <= now:
        _end(cluster, pop(ends), now)
    while happening < len(happenings) and happenings[happening].instant <= now:
        news = happenings[happening]
        _happen(cluster, news.what, news.target, news.value, now)
        happening += 1
    clock[NEXT_HAPPENING] = happening
    while first_instant(arrivals) <= now:
        _arrive(cluster, pop(arrivals), now)
    return True


@compiled
def begin(cluster: Cluster) -> None:
    """Let the jobs that wait for no other be known to arrive."""
    for job in range(len(cluster.jobs)):
        if cluster.jobs[job].unmet == 0:
            push(cluster.arrivals, job, cluster.jobs[job].submit)


@lean
def start(cluster: Cluster, job: int, members: int, now: int) -> None:
    """Let a waiting job run on the places that were taken for it; the queue still lists it."""
    jobs = cluster.jobs
    jobs[job].status = RUNNING
    jobs[job].members = members
    jobs[job].start = now
    jobs[job].since = now
    if jobs[job].first_start < 0:
        jobs[job].first_start = now
        _release_dependents(cluster, job, now, AFTER_START)
    first = jobs[job].first_member
    for member in range(first, first + members):
        _link(cluster, member)
    _hold(cluster, job, 1, now)
    _set_rate(cluster, job, now)
    jobs[job].planned_end = now + _planned_ms(jobs, job)
    if cluster.rules.shares:
        _pace_neighbours(cluster, job, now)


@lean
def _planned_ms(jobs: Records, job: int) -> int:
    """Return how long a job is planned to run from now on: its plan, less what is known to be done of it."""
    left = jobs[job].plan * FULL - jobs[job].work + jobs[job].left
    return int(max(1, -(-left // jobs[job].rate)))


@lean
def preempt(cluster: Cluster, job: int, now: int) -> None:
    """Interrupt a running job for another; it goes on from here if it can save, else from the beginning."""
    jobs = cluster.jobs
    _account(jobs, job, now)
    rest = min(jobs[job].left, jobs[job].rest)
    kept = rest if jobs[job].checkpoint > 0 else jobs[job].work
    jobs[job].preemptions += 1
    _interrupt(cluster, job, now, PREEMPTED, kept, kept - rest)


@lean
def _fail(cluster: Cluster, job: int, now: int) -> None:
    """Interrupt a job whose node failed: it goes on from its last checkpoint, or from the beginning."""
    jobs = cluster.jobs
    _account(jobs, job, now)
    work, every = jobs[job].work, jobs[job].checkpoint
    rest = min(jobs[job].left, jobs[job].rest)
    kept = work
    if every > 0:
        kept = min(work - (work - rest) // every * every, jobs[job].rest)
    jobs[job].failures += 1
    _interrupt(cluster, job, now, NODE_FAILED, kept, kept - rest)


@lean
def _interrupt(cluster: Cluster, job: int, now: int, how: int, rest: int, lost: int) -> None:
    """Put a running job back into the queue with `rest` work left."""
    jobs = cluster.jobs
    _stop(cluster, job, now, how)
    jobs[job].lost += lost
    jobs[job].rest = rest
    jobs[job].left = rest + jobs[job].restart
    jobs[job].status = WAITING
    join_queue(cluster, job)


@lean
def _end(cluster: Cluster, job: int, now: int) -> None:
    jobs = cluster.jobs
    _account(jobs, job, now)
    completed = jobs[job].left <= 0
    _stop(cluster, job, now, COMPLETED if completed else TIMED_OUT)
    jobs[job].status = DONE
    jobs[job].end = now
    user = jobs[job].user
    cluster.users[user].past_run_s += (now - jobs[job].start) / 1000
    cluster.users[user].past_jobs += 1
    succeeded = completed and jobs[job].succeeds != 0
    _release_dependents(cluster, job, now, AFTER_OK if succeeded else AFTER_NOT_OK)


@lean
def _release_dependents(cluster: Cluster, job: int, now: int, news: int) -> None:
    """Let those go that waited for this news of a job, and give up those that wait for news that never comes."""
    edges = cluster.edges
    for edge in range(cluster.jobs[job].first_edge, cluster.jobs[job].last_edge):
        kind = edges[edge].kind
        if kind == news or (kind == AFTER_END and news != AFTER_START):
            _meet_edge(cluster, edges[edge].job, now + edges[edge].delay)
        elif news != AFTER_START and kind != AFTER_START:
            _give_up(cluster, edges[edge].job)


@lean
def _meet_edge(cluster: Cluster, job: int, instant: int) -> None:
    jobs = cluster.jobs
    if jobs[job].status != AHEAD:
        return
    jobs[job].eligible = max(jobs[job].eligible, instant)
    jobs[job].unmet -= 1
    if jobs[job].unmet == 0:
        push(cluster.arrivals, job, jobs[job].eligible)


@lean
def _give_up(cluster: Cluster, job: int) -> None:
    """A job that can never start, and so all that wait for anything of it."""
    jobs, doomed = cluster.jobs, cluster.scratch
    if jobs[job].status != AHEAD:
        return
    doomed[0] = job
    jobs[job].status = HOPELESS
    count = 1
    while count > 0:
        count -= 1
        lost = doomed[count]
        for edge in range(jobs[lost].first_edge, jobs[lost].last_edge):
            dependent = cluster.edges[edge].job
            if jobs[dependent].status == AHEAD:
                jobs[dependent].status = HOPELESS
                doomed[count] = dependent
                count += 1


@lean
def _happen(cluster: Cluster, what: int, target: int, value: int, now: int) -> None:
    nodes = cluster.nodes
    if what == PRIORITIZE:
        cluster.jobs[target].boost = value
        if cluster.jobs[target].status == WAITING:
            _leave_queue(cluster, target)
            join_queue(cluster, target)
    elif what in (FAIL, DRAIN):
        if nodes[target].away == 0:
            _set_online(cluster, target, False)
        nodes[target].away += 1
        while what == FAIL and nodes[target].first_here >= 0:
            _fail(cluster, cluster.members[nodes[target].first_here].job, now)
    else:
        nodes[target].away -= 1
        if nodes[target].away == 0:
            _set_online(cluster, target, True)
            cluster.clock[RELEASES] += 1


@lean
def _set_online(cluster: Cluster, node: int, online: bool) -> None:
    cluster.free.cpu[node] += OFFLINE if online else -OFFLINE
    cluster.free.version[node] += 1
    update_tree(cluster.machine, cluster.free, node)


@lean
def _arrive(cluster: Cluster, job: int, now: int) -> None:
    jobs = cluster.jobs
    jobs[job].status = WAITING
    jobs[job].eligible = now
    if cluster.rules.order == QSSF:
        jobs[job].score = arrival_score(jobs, cluster.users, job)
    join_queue(cluster, job)


@lean
def join_queue(cluster: Cluster, job: int) -> None:
    """Add a waiting job to the queue, which is kept in order if the order is static, else by number."""
    jobs, queue = cluster.jobs, cluster.queue
    is_static = cluster.rules.order == STATIC
    at = cluster.clock[WAITERS]
    while at > 0:
        other = queue[at - 1]
        later = jobs[other].rank > jobs[job].rank if is_static else other > job
        if is_static and jobs[other].boost != jobs[job].boost:
            later = jobs[other].boost < jobs[job].boost
        if not later:
            break
        queue[at] = other
        at -= 1
    queue[at] = job
    cluster.clock[WAITERS] += 1


@lean
def _leave_queue(cluster: Cluster, job: int) -> None:
    queue = cluster.queue
    at = 0
    while queue[at] != job:
        at += 1
    cluster.clock[WAITERS] -= 1
    for place in range(at, cluster.clock[WAITERS]):
        queue[place] = queue[place + 1]


@compiled
def close_ranks(jobs: Records, queue: Ints, clock: Ints) -> None:
    """Drop from the queue those that started."""
    kept = 0
    for at in range(clock[WAITERS]):
        if jobs[queue[at]].status == WAITING:
            queue[kept] = queue[at]
            kept += 1
    clock[WAITERS] = kept


@lean
def _stop(cluster: Cluster, job: int, now: int, how: int) -> None:
    """Take a job off its places and write down the stretch of running."""
    jobs, log, clock = cluster.jobs, cluster.log, cluster.clock
    discard(cluster.ends, job)
    want = want_members(jobs, job, jobs[job].members)
    first = jobs[job].first_member
    for member in range(first, first + jobs[job].members):
        _unlink(cluster, member)
        give_back(cluster.machine, cluster.free, cluster.member_node[member], want, cluster.member_gpus[member])
    clock[RELEASES] += 1
    _hold(cluster, job, -1, now)
    stretch = log[clock[LOGGED]]
    stretch.job, stretch.start, stretch.end, stretch.how = job, jobs[job].start, now, how
    clock[LOGGED] += 1
    if cluster.rules.shares:
        _pace_neighbours(cluster, job, now)


@lean
def _hold(cluster: Cluster, job: int, sign: int, now: int) -> None:
    """Count what a user holds."""
    one = cluster.jobs[job]
    settle_usage(cluster.users, one.user, now, cluster.rules)
    user = cluster.users[one.user]
    members = sign * one.members
    user.cpu += members * one.cpu
    user.mem += members * one.mem
    user.gpu += members * (one.gpus * GPU + one.share)
    user.size += sign * one.size


@lean
def _link(cluster: Cluster, member: int) -> None:
    members, node = cluster.members, cluster.member_node[member]
    following = cluster.nodes[node].first_here
    members[member].next_here = following
    members[member].previous_here = -1
    if following >= 0:
        members[following].previous_here = member
    cluster.nodes[node].first_here = member
    cluster.nodes[node].crowd += 1
    count_tenants(cluster.tenants, cluster.machine.first_gpu[node], cluster.member_gpus[member], 1)


@lean
def _unlink(cluster: Cluster, member: int) -> None:
    members, node = cluster.members, cluster.member_node[member]
    before, following = members[member].previous_here, members[member].next_here
    if before >= 0:
        members[before].next_here = following
    else:
        cluster.nodes[node].first_here = following
    if following >= 0:
        members[following].previous_here = before
    cluster.nodes[node].crowd -= 1
    count_tenants(cluster.tenants, cluster.machine.first_gpu[node], cluster.member_gpus[member], -1)


@lean
def _account(jobs: Records, job: int, now: int) -> None:
    """Count the work that a running job has done until now."""
    elapsed = now - jobs[job].since
    jobs[job].left = max(0, jobs[job].left - elapsed * jobs[job].rate)
    jobs[job].attained += elapsed * jobs[job].size
    jobs[job].since = now


@lean
def _set_rate(cluster: Cluster, job: int, now: int) -> None:
    """Compute how fast a running job goes where it is, and so when it ends."""
    jobs = cluster.jobs
    rate = rate_of(cluster, job)
    jobs[job].rate = rate
    end = now + (jobs[job].left + rate - 1) // rate
    if cluster.rules.kills:
        end = min(end, jobs[job].start + jobs[job].limit)
    push(cluster.ends, job, end)


@lean
def _pace_neighbours(cluster: Cluster, job: int, now: int) -> None:
    """Compute anew how fast those go that share nodes with a job which came or went."""
    first = cluster.jobs[job].first_member
    for member in range(first, first + cluster.jobs[job].members):
        other = cluster.nodes[cluster.member_node[member]].first_here
        while other >= 0:
            neighbour = cluster.members[other].job
            if neighbour != job:
                _account(cluster.jobs, neighbour, now)
                _set_rate(cluster, neighbour, now)
            other = cluster.members[other].next_here
