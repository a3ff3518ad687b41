"""Environments on nodes: how episodes get to their clusters, and how they are judged."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from presage.environments import _observing
from presage.environments._outcomes import outcome
from presage.environments._vector import MachinesVector
from presage.environments.node_workloads import NodeWindows
from presage.environments.objectives import Objective
from presage.simulator import _cluster, _inputs, _moments, _node_moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.environments.node_workloads import NodeWorkload, PlacedEpisode
    from presage.simulator._node_moments import Clusters


class NodesVector(MachinesVector):
    """Clusters with a queue of gangs each; see `PlacementVector` for what is common."""

    def __init__(
        self,
        workload: NodeWorkload,
        num_envs: int,
        *,
        observed: tuple[int, int],
        actions: int,
        slots: int,
        objective: str | Objective,
        autoreset: bool,
    ) -> None:
        super().__init__(num_envs, observed, actions, autoreset=autoreset)
        self.workload = workload
        self.objective = Objective.parse(objective)
        self._machine = _inputs.machine_of(workload.nodes)
        self._typical = _inputs.typical_of(workload.typical())
        self._clusters = _node_moments.new_clusters(num_envs, self._machine, workload.jobs, slots)
        self._clusters.prices[: len(self.objective.prices)] = self.objective.prices
        self._known = _observing.nothing_known(num_envs, workload.jobs)
        self._empty = _cluster.all_free(self._machine, False)
        self._episodes: list[PlacedEpisode | None] = [None] * num_envs

    def start_ms(self, at: int) -> NDArray[np.int64]:
        """Return when each job of a cluster's present episode started, -1 where it waits or has not come yet."""
        return self._clusters.start[at, : self._clusters.facts[at, _node_moments.JOBS]].copy()

    def nodes_of(self, at: int) -> NDArray[np.int64]:
        """Return the node of each member that has been placed in a cluster's present episode, job by job."""
        members = self._clusters.first[at, self._clusters.facts[at, _node_moments.JOBS]]
        return self._clusters.node[at, :members].copy()

    @abstractmethod
    def _start(self, at: int, jobs: int, changes: int) -> bool:
        """Bring a cluster to its first choice and write what is seen; return whether there is any."""

    def _draw(self, at: int, rng: np.random.Generator) -> bool:
        self._episodes[at] = episode = self.workload.draw(rng)
        clusters = self._clusters = write_episode(self._clusters, at, episode)
        for name in _cluster.Free._fields:
            if name != "real":
                getattr(clusters, name)[at] = getattr(self._empty, name)
        jobs = episode.jobs
        share = jobs.processors / episode.processors
        _observing.write_known(self._known, at, jobs.estimate_ms / 1000, share)
        changes = episode.node_changes
        return self._start(at, len(jobs), 0 if changes is None else len(changes.at_ms))

    def _conclude(self, at: int) -> tuple[float, dict[str, float]]:
        episode, start_ms = self._episodes[at], self.start_ms(at)
        assert episode is not None  # noqa: S101  (a cluster without an episode has none that could end)
        return outcome(self.objective, episode, start_ms, int(self._clusters.facts[at, _node_moments.KILLS]))


def default_workload(workload: NodeWorkload | None) -> NodeWorkload:
    """Return the workload, or one that a model makes."""
    return NodeWindows.generated() if workload is None else workload


def write_episode(clusters: Clusters, at: int, episode: PlacedEpisode) -> Clusters:
    """Write an episode to a cluster; return the clusters, with more room if it needs some."""
    jobs, wants, count = episode.jobs, episode.wants, len(episode.jobs)
    for name, values in (
        ("submit", jobs.submit_ms), ("run", jobs.run_ms), ("plan", jobs.plan_ms), ("limit", jobs.limit_ms),
        ("tasks", wants.tasks), ("want_cpu", wants.cpu_milli), ("want_mem", wants.mem_mib),
        ("want_gpus", wants.gpus), ("want_share", wants.gpu_milli), ("want_types", wants.gpu_types),
        ("want_features", wants.features),
    ):  # fmt: skip
        getattr(clusters, name)[at, :count] = values
    clusters.override[at, :count] = 0 if episode.override is None else episode.override
    clusters.deadline[at, :count] = _moments.NO_DEADLINE
    if episode.deadline_ms is not None:
        clusters.deadline[at, :count] = episode.deadline_ms
    clusters.first[at, : count + 1] = _inputs.offsets(wants.tasks)
    clusters = _with_room(clusters, int(wants.tasks.sum()), "node", "held")
    if (changes := episode.node_changes) is not None:
        length = len(changes.at_ms)
        clusters = _with_room(clusters, length, "change_at", "change_node", "change_by")
        clusters.change_at[at, :length] = changes.at_ms
        clusters.change_node[at, :length] = changes.node
        clusters.change_by[at, :length] = changes.by
    return clusters


def _with_room(clusters: Clusters, length: int, *names: str) -> Clusters:
    """Return clusters in which these arrays have room for so many entries each."""
    lacking = length - getattr(clusters, names[0]).shape[1]
    if lacking <= 0:
        return clusters
    wider = ((0, 0), (0, 2 * lacking))
    return clusters._replace(**{name: np.pad(getattr(clusters, name), wider) for name in names})
