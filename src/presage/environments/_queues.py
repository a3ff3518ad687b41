"""Environments on pooled processors: how episodes get to their machines, and how they are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.environments import _observing
from presage.environments._outcomes import outcome
from presage.environments._vector import MachinesVector
from presage.environments.objectives import Objective
from presage.environments.workloads import Windows
from presage.simulator import _moments, choices
from presage.simulator.pooled import ranked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.environments.workloads import Episode, Workload
    from presage.simulator._moments import Machines


class QueuesVector(MachinesVector):
    """Machines with a queue each, of whose jobs somebody chooses; `BatchOrderVector` says what is common."""

    def __init__(
        self,
        workload: Workload | None,
        num_envs: int,
        *,
        slots: int,
        features: int,
        actions: int,
        objective: str | Objective,
        rules: tuple[int, int],
        autoreset: bool,
    ) -> None:
        super().__init__(num_envs, (slots, features), actions, autoreset=autoreset)
        self.workload = workload = workload or Windows.generated()
        self.objective = Objective.parse(objective)
        self._slots = slots
        self._rules = rules
        self._machines = _moments.new_machines(num_envs, workload.jobs)
        self._machines.prices[:] = self.objective.prices
        self._known = _observing.nothing_known(num_envs, workload.jobs)
        self._episodes: list[Episode | None] = [None] * num_envs

    def start_ms(self, at: int) -> NDArray[np.int64]:
        """Return when each job of a machine's present episode started, -1 where it waits or has not come yet."""
        episode = self._episodes[at]
        return self._machines.start[at, : 0 if episode is None else len(episode.jobs)].copy()

    def _ranks(self, episode: Episode) -> NDArray[np.int64] | None:
        """Return where each job belongs in the queue, or None if it is the order in which they come."""
        return None

    def _draw(self, at: int, rng: np.random.Generator) -> bool:
        self._episodes[at] = episode = self.workload.draw(rng)
        self._machines = write_episode(self._machines, at, episode, self._ranks(episode))
        jobs = episode.jobs
        _observing.write_known(self._known, at, jobs.estimate_ms / 1000, jobs.processors / episode.processors)
        counts = (len(jobs), episode.processors, self._slots, changes_of(episode))
        if not choices.begin(self._machines, at, *counts, *self._rules):
            return False
        self._observe(at)
        return True

    def _observe(self, at: int) -> None:
        _observing.observe(self._machines, self._known, at, self._seen[at], self._mask[at])

    def _follow(self, actions: NDArray[np.int64]) -> None:
        _observing.step_all(
            self._machines, self._known, actions, *self._rules, self._seen, self._mask, self._costs, self._done
        )

    def _conclude(self, at: int) -> tuple[float, dict[str, float]]:
        episode, start_ms = self._episodes[at], self.start_ms(at)
        assert episode is not None  # noqa: S101  (a machine without an episode has none that could end)
        return outcome(self.objective, episode, start_ms, int(self._machines.facts[at, _moments.KILLS]))


def changes_of(episode: Episode) -> int:
    """Return how many failures and repairs an episode has."""
    return 0 if episode.changes is None else len(episode.changes.at_ms)


def overridden(rank: NDArray[np.int64], episode: Episode) -> NDArray[np.int64]:
    """Return the ranks with the jobs first that have an override."""
    if episode.override is None:
        return rank
    return ranked(np.where(episode.override, 0, 1), ties=rank)[1]


def write_episode(machines: Machines, at: int, episode: Episode, ranks: NDArray[np.int64] | None) -> Machines:
    """Write an episode to a machine; return the machines, with more room if it needs some."""
    jobs = episode.jobs
    count = len(jobs)
    for name, values in (
        ("submit", jobs.submit_ms), ("run", jobs.run_ms), ("plan", jobs.plan_ms),
        ("limit", jobs.limit_ms), ("size", jobs.processors),
    ):  # fmt: skip
        getattr(machines, name)[at, :count] = values
    machines.rank[at, :count] = np.arange(count) if ranks is None else ranks
    machines.override[at, :count] = 0 if episode.override is None else episode.override
    machines.deadline[at, :count] = _moments.NO_DEADLINE
    if episode.deadline_ms is not None:
        machines.deadline[at, :count] = episode.deadline_ms
    if (changes := episode.changes) is not None:
        machines = _with_room(machines, len(changes.at_ms))
        machines.change_at[at, : len(changes.at_ms)] = changes.at_ms
        machines.change_by[at, : len(changes.at_ms)] = changes.by
    return machines


def _with_room(machines: Machines, changes: int) -> Machines:
    """Return machines that have room for so many failures and repairs each."""
    lacking = changes - machines.change_at.shape[1]
    if lacking <= 0:
        return machines
    wider = ((0, 0), (0, 2 * lacking))
    return machines._replace(
        change_at=np.pad(machines.change_at, wider), change_by=np.pad(machines.change_by, wider)
    )
