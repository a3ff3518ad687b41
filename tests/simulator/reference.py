"""A scheduler as plain as can be, to compare the engine with: every instant, every job, no shortcuts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Job:
    """One job; times in milliseconds."""

    number: int
    submit: int
    run: int
    plan: int
    limit: int
    size: int
    start: int = -1
    planned_end: int = -1


Score = Callable[[Job, int], float]

SCORES: dict[str, Score] = {
    "fcfs": lambda job, now: job.submit,
    "sjf": lambda job, now: job.plan,
    "ljf": lambda job, now: -job.plan,
    "saf": lambda job, now: job.plan * job.size,
    "laf": lambda job, now: -job.plan * job.size,
    "sqf": lambda job, now: _run(job) * max(_run(job), 10) * job.size,
    "f1": lambda job, now: math.log10(_run(job)) * job.size + 870 * _log(job),
    "f2": lambda job, now: math.sqrt(_run(job)) * job.size + 25_600 * _log(job),
    "f3": lambda job, now: _run(job) * job.size + 6_860_000 * _log(job),
    "f4": lambda job, now: _run(job) * math.sqrt(job.size) + 530_000 * _log(job),
    "wfp3": lambda job, now: -(((now - job.submit) / 1000 / _run(job)) ** 3) * job.size,
    "unicep": lambda job, now: -((now - job.submit) / 1000 + 1e-15) / (math.log2(job.size + 1e-15) * _run(job)),
    "lxf": lambda job, now: -((now - job.submit) / 1000 + _run(job)) / _run(job),
}


def _run(job: Job) -> float:
    return max(job.plan / 1000, 1.0)


def _log(job: Job) -> float:
    return math.log10(job.submit / 1000 if job.submit > 0 else 0.1)


@dataclass
class Cluster:
    """The state of the reference scheduler."""

    capacity: int
    score: Score
    backfilling: str
    semantics: str = "instant"
    waiting: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    most_used: int = 0
    chosen: Job | None = None
    reserved: int = 0

    @property
    def free(self) -> int:
        return self.capacity - sum(job.size for job in self.running)

    def simulate(self, jobs: list[Job]) -> list[int]:
        arriving = list(jobs)
        while arriving or self.running:
            now = min([job.submit for job in arriving[:1]] + [job.start + job.run for job in self.running])
            ended = [job for job in self.running if job.start + job.run == now]
            arrived = [job for job in arriving if job.submit == now]
            arriving = arriving[len(arrived) :]
            if self.semantics == "instant":
                self.running = [job for job in self.running if job not in ended]
                self.waiting += arrived
                self.renew_plans(now)
                self.decide(now)
            else:
                self.simulate_events(arrived, sorted(ended, key=lambda job: job.number), now)
            self.most_used = max(self.most_used, self.capacity - self.free)
        return [job.start for job in jobs]

    def simulate_events(self, arrived: list[Job], ended: list[Job], now: int) -> None:
        if self.semantics == "event":
            self.running = [job for job in self.running if job not in ended or job.planned_end != now]
        for job in arrived:
            self.waiting.append(job)
            self.renew_plans(now)
            self.react(now)
        for job in ended:
            if job in self.running:
                self.running.remove(job)
            self.renew_plans(now)
            self.react(now)

    def react(self, now: int) -> None:
        if self.semantics == "event":
            self.decide(now)
            return
        while self.waiting:
            if self.chosen is None:
                self.chosen = min(self.waiting, key=lambda job: (self.score(job, now), job.submit, job.number))
                if self.chosen.size > self.free:
                    self.reserved, _ = self.reservation(self.chosen)
            if self.chosen.size > self.free:
                break
            self.begin(self.chosen, now)
            self.chosen = None
        if self.backfilling == "easy":
            for job in list(self.waiting):
                if job.size <= self.free and now + job.plan < self.reserved:
                    self.begin(job, now)

    def renew_plans(self, now: int) -> None:
        for job in self.running:
            if job.planned_end <= now:
                again = min(job.limit, 2 * (now - job.start) + 60_000)
                job.planned_end = max(job.start + again, now + 1)

    def decide(self, now: int) -> None:
        line = sorted(self.waiting, key=lambda job: (self.score(job, now), job.submit, job.number))
        if self.backfilling == "conservative":
            self.decide_conservatively(line, now)
            return
        while line and line[0].size <= self.free:
            self.begin(line.pop(0), now)
        if not line or self.backfilling == "none":
            return
        head, *others = line
        shadow, extra = self.reservation(head)
        if self.backfilling == "easy-sjbf":
            others.sort(key=lambda job: job.plan)
        for job in others:
            if job.size > self.free:
                continue
            if now + job.plan <= shadow:
                self.begin(job, now)
            elif job.size <= extra:
                extra -= job.size
                self.begin(job, now)

    def reservation(self, head: Job) -> tuple[int, int]:
        for shadow in sorted({job.planned_end for job in self.running}):
            free = self.free + sum(job.size for job in self.running if job.planned_end <= shadow)
            if free >= head.size:
                return shadow, free - head.size
        raise AssertionError("the job is larger than the machine")

    def decide_conservatively(self, line: list[Job], now: int) -> None:
        taken = [(now, job.planned_end, job.size) for job in self.running]
        for job in line:
            begin = self.earliest(taken, job, now)
            taken.append((begin, begin + job.plan, job.size))
            if begin == now:
                self.begin(job, now)

    def earliest(self, taken: list[tuple[int, int, int]], job: Job, now: int) -> int:
        for begin in sorted({now, *(end for _, end, _ in taken), *(start for start, _, _ in taken)}):
            instants = {begin, *(start for start, _, _ in taken if begin < start < begin + job.plan)}
            if all(self.used(taken, instant) + job.size <= self.capacity for instant in instants):
                return begin
        raise AssertionError("there is room at the end of everything")

    def used(self, taken: list[tuple[int, int, int]], instant: int) -> int:
        return sum(size for start, end, size in taken if start <= instant < end)

    def begin(self, job: Job, now: int) -> None:
        job.start = now
        job.planned_end = now + job.plan
        self.waiting.remove(job)
        self.running.append(job)
