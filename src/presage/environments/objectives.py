"""What an episode is worth: quantities of a schedule, and mixtures of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.errors import UnknownNameError, UsageError
from presage.simulator.metrics import bounded_slowdown, jain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from presage.environments.workloads import Episode

PER_JOB = ("bounded_slowdown", "wait", "response", "deadline_misses")
"""Costs that are settled when a job starts, means over jobs: waits and responses in hours, misses as a share."""
AT_THE_END = ("utilization", "throughput", "fairness")
"""Gains that are known when all jobs have started: work over processors x makespan; jobs per hour; Jain's index of
the users' mean bounded slowdowns."""
QUANTITIES = (*PER_JOB, *AT_THE_END)


@dataclass(frozen=True)
class Objective:
    """A weighted mixture: the reward is the gains less the costs, each times its weight."""

    weights: Mapping[str, float]

    @classmethod
    def parse(cls, text: str | Objective) -> Objective:
        """Return the objective written as `bounded_slowdown` or `wait=0.5,fairness=2`.

        Raises UnknownNameError for a quantity that does not exist, UsageError for a weight that is no number.
        """
        if isinstance(text, Objective):
            return text
        weights = {}
        for part in text.split(","):
            name, _, weight = part.strip().partition("=")
            if name not in QUANTITIES:
                raise UnknownNameError("objective", name, QUANTITIES)
            try:
                weights[name] = float(weight or 1.0)
            except ValueError:
                raise UsageError(f"The weight {weight!r} of {name} is no number", expected=f"{name}=0.5") from None
        return cls(weights)

    @property
    def prices(self) -> NDArray[np.float64]:
        """The weights of `PER_JOB`, in that order."""
        return np.array([self.weights.get(name, 0.0) for name in PER_JOB])

    def bonus(self, episode: Episode, start_ms: NDArray[np.int64]) -> float:
        """Return what the end of an episode adds to the reward."""
        total = 0.0
        for name in AT_THE_END:
            if weight := self.weights.get(name, 0.0):
                total += weight * _gain(name, episode, start_ms)
        return total


def _gain(name: str, episode: Episode, start_ms: NDArray[np.int64]) -> float:
    jobs = episode.jobs
    makespan_s = float((start_ms + jobs.run_ms).max() - jobs.submit_ms.min()) / 1000
    if name == "utilization":
        return float((jobs.run_ms / 1000 * jobs.processors).sum()) / (episode.processors * makespan_s)
    if name == "throughput":
        return len(jobs) / (makespan_s / 3600)
    slowdown = bounded_slowdown((start_ms - jobs.submit_ms) / 1000, jobs.run_ms / 1000)
    of_user = np.bincount(episode.users)
    present = of_user > 0  # users are numbered over the whole trace, and few of them are in an episode
    return jain(np.bincount(episode.users, slowdown)[present] / of_user[present])
