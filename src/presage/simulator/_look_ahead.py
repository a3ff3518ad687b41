"""The event loop that looks ahead: several orders are replayed with forecast run times, and the best is followed.

Otherwise as `_guided`, of which it is the same with one order. Times are integer milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.simulator._compiling import compiled, inner, nested
from presage.simulator._guided import Rules, Work, count_use, put_first, score_queue, start_best
from presage.simulator._replays import CUT_OFF, Scene, cost_of, growth_of, new_scene, replay
from presage.simulator._structures import (
    NEVER,
    begin_running,
    close_ranks,
    end_first,
    insert_running,
    renew_plans,
    renewed_end,
    smallest_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

DECIDED, ASKED, AGREED, CUT, LOOKS, COUNTS = range(6)
DAY_MS = 86_400_000
NOBODY = -1
_CHANCES = 1 << 48
_LESS = 1 - 1e-9
"""Costs that differ by less are equal: sums in another order are."""


class Candidates(NamedTuple):
    """Several orders of the queue, as `Rules` has one; the first is followed where nobody looks ahead."""

    rule: Ints
    weights: Floats
    units: Ints
    """Where the hidden units of each begin; one more number than candidates."""
    hidden: Floats
    out: Floats
    attention: Floats
    rank: Ints
    """(candidates, sources, jobs)"""
    by_arrival: NDArray[np.bool_]
    """Who comes last goes last."""


class Looking(NamedTuple):
    """When and how far to look ahead."""

    exponent: float
    margin: float
    every_ms: int
    fewest: int
    deepest: int
    most_looks: int
    gives_up: bool
    """Whether a replay ends as soon as it is known to lose."""
    asks_always: bool
    """Whether also where all candidates start the same jobs."""
    arrivals: int
    """How many jobs may come; the work has so many spare rows at its end."""
    seed: int
    run: Ints
    """(sources, jobs): what is forecast."""
    guard_ms: float
    guard_backlog: float
    since_ms: Ints
    source: Ints


class Present(NamedTuple):
    """What a decision knows besides jobs and rules."""

    now: int
    free: int
    capacity: int
    source: int
    usage: Floats
    used_at: Ints
    total: Floats
    planned: Ints
    """The planned ends of running jobs in order."""
    holding: Ints
    running: int
    start: Ints
    arrived: int
    """Jobs before this one have come."""


@compiled
def run_looking_ahead(
    work: Work, candidates: Candidates, looking: Looking, capacity: int, start: Ints, counts: Ints, wins: Ints
) -> None:
    """Fill `start` as `run_guided` does, by the best of several orders, and count how it came about."""
    count = len(work.submit) - looking.arrivals
    ends, ending = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    planned, holding = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    planned_end = np.empty(count, np.int64)
    queue = np.empty(count, np.int64)
    queued = np.ones(count, np.bool_)
    usage = np.zeros(work.user.max() + 1)
    used_at = np.zeros(len(usage), np.int64)
    total = np.zeros(2)
    # Not the literal, for which numba would compile `next_scores` once more.
    nobody = int(np.int64(NOBODY))
    epoch, follows, asks_at = -1, nobody, work.submit[0]
    running = waiting = arrived = 0
    free = capacity
    while arrived < count or running > 0:
        next_is_end = running > 0 and (arrived >= count or ends[0] <= work.submit[arrived])
        now = ends[0] if next_is_end else work.submit[arrived]
        while running > 0 and ends[0] <= now:
            running -= 1
            job = end_first(ends, ending, planned, holding, planned_end, running)
            free += work.size[job]
            count_use(usage, used_at, total, work.user[job], float(work.run[job]) * work.size[job], now)
        renew_plans(planned, holding, planned_end, running, now, start, work.limit)
        while arrived < count and work.submit[arrived] <= now:
            queue[waiting] = arrived
            waiting += 1
            arrived += 1
        while epoch + 1 < len(looking.since_ms) and looking.since_ms[epoch + 1] <= now:
            epoch += 1
        if smallest_of(queue, waiting, work.size) > free:
            continue
        present = _present(
            now, free, capacity, looking.source[epoch] if epoch >= 0 else 0, usage, used_at, total,
            planned, holding, running, start, arrived,
        )  # fmt: skip
        asked = counts[ASKED]
        if now >= asks_at:
            follows = nobody
        scores, follows = next_scores(work, candidates, looking, queue[:waiting], present, follows, counts, wins)
        if counts[ASKED] > asked:
            asks_at = now + looking.every_ms
        for at in start_best(queue[:waiting], scores, now, work, planned, holding, running, free):
            job = queue[at]
            start[job] = now
            free -= work.size[job]
            end, planned_for = now + work.run[job], now + work.plan[job]
            begin_running(ends, ending, planned, holding, planned_end, running, job, end, planned_for)
            running += 1
            queued[job] = False
        waiting = close_ranks(queue, queued, waiting)


@nested
def _present(
    now: int,
    free: int,
    capacity: int,
    source: int,
    usage: Floats,
    used_at: Ints,
    total: Floats,
    planned: Ints,
    holding: Ints,
    running: int,
    start: Ints,
    arrived: int,
) -> Present:
    """Return the present; made in the loop it could hold literals, for which numba compiles all once more."""
    return Present(now, free, capacity, source, usage, used_at, total, planned, holding, running, start, arrived)


@compiled
def next_scores(
    work: Work,
    candidates: Candidates,
    looking: Looking,
    queue: Ints,
    present: Present,
    follows: int,
    counts: Ints,
    wins: Ints,
) -> tuple[Floats, int]:
    """Return the scores of the queue by the candidate that is followed, and who that is.

    A candidate that `follows` names is followed without a look ahead. A short queue goes by the first.
    """
    counts[DECIDED] += 1
    short = len(queue) < looking.fewest
    looks = not short and follows == NOBODY
    first = 0 if short or looks else follows
    many = len(candidates.rule) if looks else 1
    scores = np.empty((many, len(queue)))
    for at in range(many):
        rules = _rules(candidates, looking, first + at)
        scores[at] = _scores(work, candidates.rank[first + at], rules, queue, present)
        put_first(work, rules, queue, present.now, present.capacity, scores[at])
    if not looks:
        return scores[0], follows
    if not looking.asks_always and _all_agree(work, scores, queue, present):
        counts[AGREED] += 1
        return scores[0], NOBODY
    counts[ASKED] += 1
    best = _cheapest(work, candidates, looking, scores, queue, present, counts)
    wins[best] += 1
    return scores[best], best


@nested
def _scores(work: Work, rank: Ints, rules: Rules, queue: Ints, present: Present) -> Floats:
    ranked = Work(
        work.submit, work.run, work.plan, work.limit, work.size, work.user, work.urgent, work.estimate_s,
        rank, work.known, work.inverse,
    )  # fmt: skip
    return score_queue(
        ranked, rules, queue, present.now, present.free, present.capacity,
        present.source, present.usage, present.used_at, present.total,
    )  # fmt: skip


@nested
def _rules(candidates: Candidates, looking: Looking, which: int) -> Rules:
    first, last = candidates.units[which], candidates.units[which + 1]
    return Rules(
        candidates.rule[which], candidates.weights[which], candidates.hidden[first:last],
        candidates.out[first:last], candidates.attention[which], looking.guard_ms, looking.guard_backlog,
        looking.since_ms, looking.source,
    )  # fmt: skip


@nested
def _all_agree(work: Work, scores: Floats, queue: Ints, present: Present) -> bool:
    """Return whether all candidates start the same jobs now: then it does not matter who is followed."""
    by_first = np.zeros(len(queue), np.bool_)
    many = 0
    for which in range(len(scores)):
        starts = start_best(
            queue,
            scores[which],
            present.now,
            work,
            present.planned,
            present.holding,
            present.running,
            present.free,
        )
        if which == 0:
            by_first[starts] = True
            many = len(starts)
        elif len(starts) != many or not by_first[starts].all():
            return False
    return True


@nested
def _scene(work: Work, looking: Looking, queue: Ints, taking_part: Ints, waiting: int, present: Present) -> Scene:
    """Return who waits, who may come, and who runs, for replays."""
    coming = looking.arrivals
    scene = new_scene(waiting, coming, present.running)
    source, now = present.source, present.now
    for place in range(len(queue)):
        at, job = taking_part[place], queue[place]
        if at == NOBODY:
            continue
        _put_job(work, looking, scene, at, job, source)
        scene.submit[at] = work.submit[job]
        waited = now - scene.submit[at]
        scene.before[at] = cost_of(waited, scene.inverse[at], looking.exponent)
        scene.growth[at] = growth_of(waited, scene.inverse[at], looking.exponent)
    for k in range(present.running):
        job, at = present.holding[k], waiting + coming + k
        begun = present.start[job]
        end = begun + looking.run[source, job]
        if end <= now:
            end = renewed_end(now, begun, work.limit[job])
        scene.size[at] = work.size[job]
        scene.planned_end[at] = max(present.planned[k], end)
        insert_running(scene.ends, scene.ending, k, end, at)
        insert_running(scene.planned, scene.holding, k, scene.planned_end[at], at)
    return scene


@inner
def _put_job(work: Work, looking: Looking, scene: Scene, at: int, job: int, source: int) -> None:
    scene.size[at] = work.size[job]
    scene.run[at] = looking.run[source, job]
    scene.plan[at] = max(work.plan[job], scene.run[at])
    scene.inverse[at] = work.inverse[source, job]


@nested
def _draw_arrivals(work: Work, candidates: Candidates, looking: Looking, scene: Scene, present: Present) -> None:
    """Let jobs come as in the last day: any of those that came then, as often as they did.

    To be ranked they stand in the spare rows, as if they came now.
    """
    first = int(np.searchsorted(work.submit[: present.arrived], present.now - DAY_MS))
    first = min(first, present.arrived - 1)
    gap_ms = DAY_MS / (present.arrived - first)
    spare = len(work.submit) - looking.arrivals
    chance, time = looking.seed + present.now, float(present.now)
    for coming in range(looking.arrivals):
        chance = _next_chance(chance)
        time -= np.log(1.0 - chance / _CHANCES) * gap_ms
        chance = _next_chance(chance)
        model = first + int(chance / _CHANCES * (present.arrived - first))
        row, at = spare + coming, scene.waiting + coming
        work.submit[row], work.size[row], work.user[row] = present.now, work.size[model], work.user[model]
        source = present.source
        work.estimate_s[source, row] = work.estimate_s[source, model]
        work.inverse[source, row] = work.inverse[source, model]
        for k in range(work.known.shape[2]):
            work.known[source, row, k] = work.known[source, model, k]
        for which in range(len(candidates.rule)):
            rank = candidates.rank[which, source, model]
            candidates.rank[which, source, row] = NEVER if candidates.by_arrival[which] else rank
        _put_job(work, looking, scene, at, model, present.source)
        scene.submit[at] = int(time)
        scene.before[at] = 1.0


@inner
def _next_chance(chance: int) -> int:
    """Return the next of a row of random numbers below `_CHANCES` (the generator of drand48)."""
    return (chance * 25_214_903_917 + 11) & (_CHANCES - 1)


@nested
def _cheapest(
    work: Work,
    candidates: Candidates,
    looking: Looking,
    scores: Floats,
    queue: Ints,
    present: Present,
    counts: Ints,
) -> int:
    """Return the candidate whose replay costs least; others must undercut the first by the margin."""
    places = np.argsort(scores[0], kind="mergesort")
    taking_part = np.full(len(queue), NOBODY)
    taking_part[places[: looking.deepest]] = 0
    taken = 0
    for place in range(len(queue)):
        if taking_part[place] != NOBODY:
            taking_part[place] = taken
            taken += 1
    scene = _scene(work, looking, queue, taking_part, taken, present)
    _draw_arrivals(work, candidates, looking, scene, present)
    spare = np.arange(len(work.submit) - scene.coming, len(work.submit))
    order, known = np.empty(taken, np.int64), np.empty(taken + scene.coming)
    best, bar, looks = 0, np.inf, 0
    for which in range(len(scores)):
        if which > 0:
            places = np.argsort(scores[which], kind="mergesort")
        found = 0
        for place in places:
            if taking_part[place] != NOBODY:
                order[found] = taking_part[place]
                known[order[found]] = scores[which, place]
                found += 1
        if scene.coming > 0:
            rules = _rules(candidates, looking, which)
            known[taken:] = _scores(work, candidates.rank[which], rules, spare, present)
        cost, took = replay(
            scene, order, known, present.now, present.free, looking.exponent,
            bar if looking.gives_up else np.inf, looking.most_looks - looks,
        )  # fmt: skip
        looks += took
        if cost == CUT_OFF:
            counts[CUT] += 1
            break
        if cost < bar:
            best, bar = which, cost * (min(1 - looking.margin, _LESS) if which == 0 else _LESS)
    counts[LOOKS] += looks
    return best
