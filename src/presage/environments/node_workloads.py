"""Where the episodes of environments on nodes come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from presage.environments.workloads import (
    Episode,
    at_load,
    check_share,
    deadlines,
    overrides,
    stretch,
    user_codes,
)
from presage.errors import UsageError
from presage.simulator.nodes import placed_jobs_of
from presage.simulator.placed import machine_size_of, placeable, unplaceable
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.environments.failures import NodeChanges, NodeFailures
    from presage.simulator.jobs import Knowledge
    from presage.simulator.nodes import Nodes, PlacedJobs
    from presage.traces import Trace


@dataclass(frozen=True)
class PlacedEpisode(Episode):
    """Gangs on a cluster of empty nodes, where whole nodes fail. Raises UsageError for failures that cannot be."""

    wants: PlacedJobs = field(kw_only=True)
    nodes: int = field(kw_only=True)
    node_changes: NodeChanges | None = None
    """When nodes fail and come back; None: never."""

    def __post_init__(self) -> None:
        if self.changes is not None:
            raise UsageError("Nodes fail as a whole", expected="node_changes instead of changes")
        if self.node_changes is not None:
            self.node_changes.check(self.nodes)


class NodeWorkload(ABC):
    """A source of episodes on one cluster. The same generator state gives the same episode."""

    jobs: int
    """The most that an episode has."""
    nodes: Nodes
    """Of the cluster, the same in all episodes."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> PlacedEpisode:
        """Return the next episode."""

    def typical(self) -> PlacedJobs:
        """Return the jobs that fragmentation is judged by."""
        return self.draw(np.random.default_rng(0)).wants


@dataclass(frozen=True)
class NodeWindows(NodeWorkload):
    """Stretches of consecutive jobs of a trace with nodes, from anywhere between `first` and `last` of it.

    With `load`, arrivals come so much faster or slower that they would keep this share of the cluster's GPUs (of
    its processors, where no job wants GPUs) busy. `order_by` says what is known of run times, as in `jobs_of`.
    Jobs end at their limits. Raises InputError if the trace has no nodes, fewer jobs than an episode, or jobs that
    fit on no empty cluster, unless `drop_unplaceable` leaves those out.
    """

    trace: Trace
    jobs: int = 256
    first: float = 0.0
    last: float = 1.0
    load: float | None = None
    order_by: Knowledge = "requested"
    deadline_factor: float | None = None
    """A job is late if it ends later than so many times its limit after its submit; None: no deadlines."""
    failures: NodeFailures | None = None
    override_share: float = 0.0
    """This share of the jobs, drawn anew for each episode, goes before all others."""
    drop_unplaceable: bool = False
    nodes: Nodes = field(init=False, repr=False, compare=False)
    all_jobs: PlacedJobs = field(init=False, repr=False, compare=False)
    """What episodes are drawn from."""
    _users: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_share(self.override_share)
        jobs, nodes = placed_jobs_of(self.trace, order_by=self.order_by, kill=True)
        fits = placeable(jobs, nodes)
        if not fits.all() and not self.drop_unplaceable:
            raise unplaceable(self.trace.jobs["job_id"][int(np.argmin(fits))], int((~fits).sum()))
        rows = np.flatnonzero(fits)
        rows = rows[stretch(self.first, self.last, self.jobs, self.load, len(rows))]
        chosen = jobs.select(rows)
        for name, value in (
            ("nodes", nodes), ("all_jobs", chosen), ("_users", user_codes(self.trace)[rows]),
            ("_size", machine_size_of(jobs, nodes)),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @classmethod
    def generated(
        cls, *, nodes: int = 16, jobs: int = 256, of: int = 20_000, load: float | None = 0.9, seed: int = 0
    ) -> NodeWindows:
        """Return windows of a trace of `of` jobs that the model of GPU clusters makes for so many nodes."""
        return cls(make_model("gpu-cluster", {"nodes": nodes}).generate(of, seed=seed), jobs=jobs, load=load)

    def typical(self) -> PlacedJobs:
        return self.all_jobs

    def draw(self, rng: np.random.Generator) -> PlacedEpisode:
        begin = int(rng.integers(len(self.all_jobs) - self.jobs + 1))
        wants = self.all_jobs.select(np.arange(begin, begin + self.jobs))
        if self.load is not None:
            wants = replace(wants, jobs=at_load(wants.jobs, _amounts(wants), self._size, self.load))
        submit_ms, count = wants.jobs.submit_ms, len(self.nodes)
        return PlacedEpisode(
            wants.jobs,
            self._size,
            self._users[begin : begin + self.jobs],
            deadlines(wants.jobs, self.deadline_factor),
            override=overrides(rng, self.jobs, self.override_share),
            wants=wants,
            nodes=count,
            node_changes=None if self.failures is None else self.failures.draw(rng, submit_ms, count),
        )


def _amounts(wants: PlacedJobs) -> NDArray[np.float64]:
    """Return what jobs hold of that which the size of the machine counts: GPUs, or else processors."""
    gpus = (wants.gpus + wants.gpu_milli / 1000) * wants.tasks
    amounts: NDArray[np.float64] = gpus if gpus.any() else wants.cpu_milli / 1000 * wants.tasks
    return amounts
