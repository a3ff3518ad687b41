"""Backfilling at intervals as plain as can be, to compare the engine with: every tick, every job, no shortcuts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from .reference import Job

Score = Callable[[Job, int], float]
Kept = tuple[int, int, frozenset[int]]


@dataclass
class Settings:
    """The settings of the engine, in milliseconds."""

    interval: int = 30_000
    depth: int = 500
    window: int = 86_400_000
    resolution: int = 60_000
    precision: int = 30_000
    main_depth: int = 100
    main_interval: int = 60_000
    main_gap: int = 3_000
    poll: int = 1_000
    release: int = 0


@dataclass
class PeriodicCluster:
    """The state of the reference scheduler, which looks at every `quantum` of time."""

    capacity: int
    score: Score
    settings: Settings
    quantum: int = 1_000
    waiting: list[Job] = field(default_factory=list)
    running: dict[int, set[int]] = field(default_factory=dict)
    """The nodes of every running job, by its number."""
    cycles: list[int] = field(default_factory=list)

    def simulate(self, jobs: list[Job]) -> list[int]:
        self.jobs = jobs
        paces, origin = self.settings, jobs[0].submit
        arriving = list(jobs)
        asked = news = steady = cut = False
        last_pass = last_cycle = last_news = -(1 << 60)
        now = origin
        while arriving or self.waiting:
            changed = self.end(now)
            while arriving and arriving[0].submit <= now:
                self.waiting.append(arriving.pop(0))
                changed = True
            asked, news = asked or changed, news or changed
            last_news = now if changed else last_news
            tick = (now - origin) % paces.poll == 0
            quick = asked and tick and now >= last_pass + paces.main_gap
            full = cut and (now - origin) % paces.main_interval == 0
            if quick or full:
                depth = len(self.waiting) if full else paces.main_depth
                before = len(self.waiting)
                if self.start_from_the_front(now, depth):
                    news, last_news = True, now
                cut = before - len(self.waiting) == depth < before
            if quick:
                asked, last_pass = False, now
            due = now >= last_cycle + paces.interval
            if due and (steady or (tick and news)):
                self.cycles.append(now)
                left = bool(self.waiting)
                started = self.start_in_places(now) if news else False
                news = started or last_news > now - paces.poll
                last_news = now if started else last_news
                last_cycle, steady = now, left and bool(self.waiting)
            now += self.quantum
        return [job.start for job in jobs]

    def end(self, now: int) -> bool:
        over = [n for n in self.running if self.jobs[n].start + self.jobs[n].run + self.settings.release <= now]
        for number in over:
            del self.running[number]
        return bool(over)

    def line(self, now: int) -> list[Job]:
        return sorted(self.waiting, key=lambda job: (self.score(job, now), job.submit, job.number))

    @property
    def idle(self) -> set[int]:
        return set(range(self.capacity)).difference(*self.running.values())

    def begin(self, job: Job, now: int, nodes: set[int]) -> None:
        job.start, job.planned_end = now, now + job.plan
        self.waiting.remove(job)
        self.running[job.number] = nodes

    def start_from_the_front(self, now: int, depth: int) -> bool:
        started = False
        for job in self.line(now)[:depth]:
            if job.size > len(self.idle):
                break
            self.begin(job, now, neighbours(self.idle, job.size))
            started = True
        return started

    def start_in_places(self, now: int) -> bool:
        for number in self.running:
            job = self.jobs[number]
            if job.planned_end <= now:
                again = min(job.limit, 2 * (now - job.start) + 60_000)
                job.planned_end = max(job.start + again, now + 1)
        kept: list[Kept] = []
        started = False
        for job in self.line(now)[: self.settings.depth]:
            place = self.find_place(job, now, kept)
            if place is None:
                continue
            begin, nodes = place
            kept.append((max(self.rounded(begin), now), self.rounded(begin + job.plan), frozenset(nodes)))
            if begin == now:
                self.begin(job, now, nodes)
                started = True
        return started

    def find_place(self, job: Job, now: int, kept: list[Kept]) -> tuple[int, set[int]] | None:
        start_from = now
        while start_from <= now + self.settings.window:
            usable = set(range(self.capacity)) - taken(kept, start_from, start_from + job.plan)
            later = self.given_back(kept, start_from, start_from + job.plan, now)
            ready, free = self.when_free(job.size, usable, now)
            if later is not None and (ready is None or max(ready, start_from) > later):
                start_from = later
                continue
            if ready is None or max(ready, start_from) > now + self.settings.window:
                return None
            begin, nodes = max(ready, start_from), neighbours(free, job.size)
            in_the_way = taken(kept, self.rounded(begin), self.rounded(begin + job.plan))
            if begin == start_from or not nodes & in_the_way:
                return begin, nodes
            start_from = begin
        return None

    def given_back(self, kept: list[Kept], begin: int, end: int, now: int) -> int | None:
        """Return the first instant after `begin`, of a stretch that begins before `end`, that gives nodes back."""
        instants = sorted(
            {now, *(instant for first, last, _ in kept if last > first for instant in (first, last))}
        )
        for first, last in itertools.pairwise(instants):
            if first < end and last > begin and taken(kept, first, first + 1) - taken(kept, last, last + 1):
                return last
        return None

    def when_free(self, wanted: int, usable: set[int], now: int) -> tuple[int | None, set[int]]:
        free = usable & self.idle
        if len(free) >= wanted:
            return now, free
        ending = sorted(self.running, key=lambda number: self.jobs[number].planned_end)
        groups = 0
        while ending:
            groups += 1
            first = last = None
            while ending:
                number = ending.pop(0)
                if not self.running[number] & usable:
                    continue
                last = self.jobs[number].planned_end
                first = last if first is None else first
                free |= self.running[number] & usable
                close = max(first + groups * self.settings.precision, last)
                if ending and self.jobs[ending[0]].planned_end > close:
                    break
            if last is not None and len(free) >= wanted:
                return last, free
        return None, free

    def rounded(self, instant: int) -> int:
        return instant // self.settings.resolution * self.settings.resolution


def taken(kept: list[Kept], begin: int, end: int) -> set[int]:
    """Return the nodes that are kept at some time between two instants."""
    return {node for first, last, nodes in kept if first < end and last > begin and last > first for node in nodes}


def neighbours(free: set[int], wanted: int) -> set[int]:
    """Return the smallest run of free nodes that is enough, or else the largest and so on."""
    runs: list[list[int]] = []
    for node in sorted(free):
        if runs and runs[-1][-1] == node - 1:
            runs[-1].append(node)
        else:
            runs.append([node])
    chosen: set[int] = set()
    while len(chosen) < wanted:
        missing = wanted - len(chosen)
        enough = [run for run in runs if len(run) >= missing]
        best = min(enough, key=len) if enough else max(runs, key=len)
        runs.remove(best)
        chosen.update(best[:missing])
    return chosen
