"""A scheduler on nodes as plain as can be, to compare the engine with: every node, every GPU, no shortcuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from .reference import Score


@dataclass
class Job:
    """One gang; times in milliseconds, amounts per member."""

    number: int
    submit: int
    run: int
    plan: int
    limit: int
    size: int
    tasks: int
    cpu: int
    mem: int
    gpus: int
    share: int
    types: int
    features: int
    start: int = -1
    planned_end: int = -1
    places: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)


@dataclass
class Node:
    """What a node has, and what of it is free."""

    number: int
    cpu: int
    mem: int
    gpus: int
    type_bit: int
    features: int
    rack: int
    free_cpu: int = 0
    free_mem: int = 0
    free_gpus: list[int] = field(default_factory=list)
    counted_cpu: int = 0
    counted_mem: int = 0

    def clear(self) -> None:
        self.free_cpu, self.free_mem, self.free_gpus = self.cpu, self.mem, [1000] * self.gpus
        self.counted_cpu = self.counted_mem = 0

    def copy(self) -> Node:
        return replace(self, free_gpus=[*self.free_gpus])

    def has_room(self, job: Job) -> bool:
        return (
            job.cpu <= self.free_cpu
            and job.mem <= self.free_mem
            and job.gpus <= self.free_gpus.count(1000)
            and job.share <= max(self.free_gpus, default=0)
            and (self.type_bit & job.types) != 0
            and (job.features & ~self.features) == 0
        )

    def put(self, job: Job, gpus: tuple[int, ...], sign: int = 1) -> None:
        self.free_cpu -= sign * job.cpu
        self.free_mem -= sign * job.mem
        self.counted_cpu += sign * (job.cpu or 100)
        self.counted_mem += sign * (job.mem or 200)
        for gpu in gpus:
            self.free_gpus[gpu] -= sign * (job.share or 1000)

    def with_member(self, job: Job, gpus: tuple[int, ...]) -> Node:
        changed = self.copy()
        changed.put(job, gpus)
        return changed

    def room(self, job: Job) -> int:
        """How many members fit, by putting one after the other."""
        trial = self.copy()
        count = 0
        while count < 1 << 20 and trial.has_room(job):
            if not (job.cpu or job.mem or job.gpus or job.share):
                return 1 << 20
            trial.put(job, trial.usual_gpus(job))
            count += 1
        return count

    def usual_gpus(self, job: Job) -> tuple[int, ...]:
        if job.share:
            enough = [(free, gpu) for gpu, free in enumerate(self.free_gpus) if free >= job.share]
            return (min(enough)[1],)
        return tuple(gpu for gpu, free in enumerate(self.free_gpus) if free == 1000)[: job.gpus]

    def possible_gpus(self, job: Job) -> list[tuple[int, ...]]:
        if job.share:
            return [(gpu,) for gpu, free in enumerate(self.free_gpus) if free >= job.share]
        return [self.usual_gpus(job)]


Place = tuple[Node, tuple[int, ...]]


@dataclass
class Placer:
    """Where members go, by one rule."""

    rule: str
    workload: list[Job]
    top: tuple[int, int, int]

    def place(self, job: Job, nodes: list[Node]) -> list[tuple[int, tuple[int, ...]]] | None:
        """Put all members on nodes and return where, or change nothing and return None."""
        if sum(min(node.room(job), job.tasks) for node in nodes) < job.tasks:
            return None
        if self.rule == "rack-packing":
            return self.pack(job, nodes)
        places = []
        for _ in range(job.tasks):
            node, gpus = self.best(job, [node for node in nodes if node.has_room(job)])
            node.put(job, gpus)
            places.append((node.number, gpus))
        return places

    def best(self, job: Job, nodes: list[Node]) -> Place:
        if self.rule == "fgd":
            choices = [(node, gpus) for node in nodes for gpus in node.possible_gpus(job)]
            return min(choices, key=lambda choice: (self.growth(job, *choice), choice[0].number, choice[1]))
        scores: dict[str, Callable[[Node], float]] = {
            "first-fit": lambda node: 0,
            "best-fit": lambda node: sum(self.shares(node.free_cpu, node.free_mem, sum(node.free_gpus))),
            "worst-fit": lambda node: -sum(self.shares(node.free_cpu, node.free_mem, sum(node.free_gpus))),
            "dot-product": lambda node: self.product(job, node),
            "kube-default": lambda node: -kube_score(job, node),
        }
        node = min(nodes, key=lambda node: (scores[self.rule](node), node.number))
        return node, node.usual_gpus(job)

    def shares(self, cpu: int, mem: int, gpu: int) -> list[int]:
        return [amount * 1_000_000 // top for amount, top in zip((cpu, mem, gpu), self.top, strict=True)]

    def product(self, job: Job, node: Node) -> int:
        wanted = self.shares(job.cpu, job.mem, job.gpus * 1000 + job.share)
        free = self.shares(node.free_cpu, node.free_mem, sum(node.free_gpus))
        return sum(one * other for one, other in zip(wanted, free, strict=True))

    def growth(self, job: Job, node: Node, gpus: tuple[int, ...]) -> int:
        return self.fragmentation(node.with_member(job, gpus)) - self.fragmentation(node)

    def fragmentation(self, node: Node) -> int:
        total = 0
        for task in self.workload:
            if task.gpus or task.share:
                useless = [free for free in node.free_gpus if free < (task.share or 1000)]
                total += task.tasks * sum(useless if node.has_room(task) else node.free_gpus)
        return total

    def pack(self, job: Job, nodes: list[Node]) -> list[tuple[int, tuple[int, ...]]]:
        places: list[tuple[int, tuple[int, ...]]] = []
        rooms = {node.number: node.room(job) for node in nodes}
        racks: Counter[int] = Counter()
        for node in nodes:
            racks[node.rack] += rooms[node.number]
        while len(places) < job.tasks:
            rack = narrowest(racks, job.tasks - len(places))
            inside = {node.number: rooms[node.number] for node in nodes if node.rack == rack}
            until = min(job.tasks, len(places) + racks.pop(rack))
            while len(places) < until:
                node = nodes[narrowest(inside, until - len(places))]
                for _ in range(min(inside.pop(node.number), until - len(places))):
                    gpus = node.usual_gpus(job)
                    node.put(job, gpus)
                    places.append((node.number, gpus))
        return places


def narrowest(rooms: dict[int, int], wanted: int) -> int:
    """The key with the least room for `wanted`, or else with the most room; the lowest of equals."""
    enough = [(room, key) for key, room in rooms.items() if room >= wanted]
    return min(enough)[1] if enough else min((-room, key) for key, room in rooms.items())[1]


def kube_score(job: Job, node: Node) -> int:
    """LeastAllocated and BalancedAllocation as in the reference manual, two resources of weight 1."""
    pairs = [
        (node.cpu, node.counted_cpu + (job.cpu or 100), node.cpu - node.free_cpu + job.cpu),
        (node.mem, node.counted_mem + (job.mem or 200), node.mem - node.free_mem + job.mem),
    ]
    had = [pair for pair in pairs if pair[0]]
    least = sum((has - counted) * 100 // has if counted <= has else 0 for has, counted, _ in had) // max(
        len(had), 1
    )
    if not (job.cpu or job.mem):
        return least
    shares = [min(real / has, 1.0) for has, _, real in had]
    spread = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
    return least + int((1 - spread) * 100)


@dataclass
class Cluster:
    """The state of the reference scheduler."""

    nodes: list[Node]
    score: Score
    backfilling: str
    placer: Placer
    waiting: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)

    def simulate(self, jobs: list[Job]) -> None:
        """Fill in start and places of every job."""
        for node in self.nodes:
            node.clear()
        arriving = list(jobs)
        while arriving or self.running:
            now = min([job.submit for job in arriving[:1]] + [job.start + job.run for job in self.running])
            for job in [job for job in self.running if job.start + job.run <= now]:
                self.running.remove(job)
                put_all(job, self.nodes, job.places, -1)
            for job in self.running:
                if job.planned_end <= now:
                    again = min(job.limit, 2 * (now - job.start) + 60_000)
                    job.planned_end = max(job.start + again, now + 1)
            while arriving and arriving[0].submit <= now:
                self.waiting.append(arriving.pop(0))
            self.decide(now)

    def decide(self, now: int) -> None:
        line = sorted(self.waiting, key=lambda job: (self.score(job, now), job.submit, job.number))
        if self.backfilling == "skip":
            for job in line:
                self.try_to_begin(job, now)
            return
        while line and self.try_to_begin(line[0], now):
            line.pop(0)
        if line and self.backfilling == "easy":
            self.decide_easily(line[0], line[1:], now)

    def decide_easily(self, head: Job, others: list[Job], now: int) -> None:
        shadow, later = self.reservation(head)
        for job in others:
            if now + job.plan <= shadow:
                self.try_to_begin(job, now)
                continue
            both = [free_in_both(*pair) for pair in zip(self.nodes, later, strict=True)]
            places = self.placer.place(job, both)
            if places is not None:
                put_all(job, self.nodes, places)
                put_all(job, later, places)
                self.begin(job, now, places)

    def reservation(self, head: Job) -> tuple[int, list[Node]]:
        for shadow in sorted({job.planned_end for job in self.running}):
            later = [node.copy() for node in self.nodes]
            for job in self.running:
                if job.planned_end <= shadow:
                    put_all(job, later, job.places, -1)
            if self.placer.place(head, later) is not None:
                return shadow, later
        raise AssertionError("the job does not fit on the empty machine")

    def try_to_begin(self, job: Job, now: int) -> bool:
        places = self.placer.place(job, self.nodes)
        if places is None:
            return False
        self.begin(job, now, places)
        return True

    def begin(self, job: Job, now: int, places: list[tuple[int, tuple[int, ...]]]) -> None:
        job.start, job.planned_end, job.places = now, now + job.plan, places
        self.waiting.remove(job)
        self.running.append(job)


def put_all(job: Job, nodes: list[Node], places: list[tuple[int, tuple[int, ...]]], sign: int = 1) -> None:
    for number, gpus in places:
        nodes[number].put(job, gpus, sign)


def free_in_both(one: Node, other: Node) -> Node:
    node = one.copy()
    node.free_cpu = min(one.free_cpu, other.free_cpu)
    node.free_mem = min(one.free_mem, other.free_mem)
    node.free_gpus = [min(pair) for pair in zip(one.free_gpus, other.free_gpus, strict=True)]
    node.counted_cpu = max(one.counted_cpu, other.counted_cpu)
    node.counted_mem = max(one.counted_mem, other.counted_mem)
    return node
