"""Machines that show what a scorer reads of the queue, pass by pass, as the engine of learned orders goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from presage.learning._machines_for_sb3 import MeasuredOrder
from presage.learning.case_windows import ForecastEpisode
from presage.learning.decisions import user_shares
from presage.learning.networks import READS, ROW_IS_THERE, STILL_WAITS
from presage.policies.queue_decision import Queue
from presage.policies.queue_scorer import OF_THE_JOB
from presage.simulator._moments import FREE, NOW, WAITING
from presage.simulator.guided import schedule_guided

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.environments import Episode, Workload
    from presage.simulator.guided import Decider

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Seen = NDArray[np.float32]


@dataclass(frozen=True)
class _Pass:
    """All that is chosen at one instant of an episode."""

    episode: ForecastEpisode
    now_ms: int
    jobs: Ints
    """Who waited when it began, by row."""
    is_overdue: bool
    """Whether the first of them has waited longer than the guard allows."""


class ScoredOrder(MeasuredOrder):
    """Machines on which an action is a row: one of the jobs that waited when the pass began.

    What is read of the jobs stays as it was then, because the engine scores a queue once per pass: whoever always
    takes the lowest score of a scorer makes the schedule that the engine makes with it. Under a guard, a job that
    has waited too long is the only one that may be chosen first. Rewards are shares of what `measured_by`, who has
    the same guard, costs in the same episode.
    """

    def __init__(self, workload: Workload, num_envs: int, *, measured_by: Decider) -> None:
        rows = workload.jobs  # so that nobody who waits is out of sight
        super().__init__(workload, num_envs, slots=rows)
        self._decider = measured_by
        self._passes: list[_Pass | None] = [None] * num_envs
        self._reads = np.zeros((num_envs, rows, len(READS)), np.float32)
        self._may = np.zeros((num_envs, rows), np.bool_)
        self._nothing = np.zeros_like(self._reads)
        self.single_observation_space = spaces.Box(-np.inf, np.inf, self._reads.shape[1:], np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def _measure_by(self, episode: Episode) -> Ints:
        assert isinstance(episode, ForecastEpisode)  # noqa: S101  (the workload gives no others)
        return schedule_guided(
            episode.jobs, episode.processors, self._decider, [episode.forecasts], users=episode.users
        )

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        """Begin an episode on every machine; one seed makes all of them repeatable."""
        super().reset(seed=seed, options=options)
        self._read_all()
        return self._reads.copy(), {"action_mask": self.action_masks()}

    def step(self, actions: Ints) -> tuple[Seen, NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Follow one choice on every machine."""
        places = np.array([self._place_of(at, int(row)) for at, row in enumerate(actions)])
        _, rewards, done, cut, infos = super().step(places)
        self._read_all()
        return self._reads.copy(), rewards, done, cut, infos | {"action_mask": self.action_masks()}

    def action_masks(self) -> Mask:
        """Return which rows may be chosen on each machine."""
        return self._may.copy()

    def _waiting(self, at: int) -> Ints:
        """Return who waits, in the order of their submits, which is that of their numbers."""
        waiting: Ints = self._machines.queue[at, : self._machines.facts[at, WAITING]]
        return waiting

    def _place_of(self, at: int, row: int) -> int:
        """Return where in the queue the job of a row is; of a row without one, where nobody is."""
        present = self._passes[at]
        if present is None or row >= len(present.jobs):
            return len(self._may[at])
        return int(np.searchsorted(self._waiting(at), present.jobs[row]))

    def _read_all(self) -> None:
        for at in np.flatnonzero(~self._done).tolist():
            self._read(at)

    def _read(self, at: int) -> None:
        """Write what is seen of a machine that waits for a choice, and what may be chosen."""
        present, waiting, now_ms = self._passes[at], self._waiting(at), int(self._machines.facts[at, NOW])
        begins = present is None or present.episode is not self._episodes[at] or present.now_ms != now_ms
        if present is None or begins:
            present = self._begin_pass(at, waiting.copy(), now_ms)
        rows = np.searchsorted(present.jobs, waiting)
        self._reads[at, :, STILL_WAITS] = 0
        self._reads[at, rows, STILL_WAITS] = 1
        self._may[at] = False
        self._may[at, rows] = self._mask[at, : len(rows)]
        if begins and present.is_overdue:
            self._may[at, 1:] = False

    def _begin_pass(self, at: int, waiting: Ints, now_ms: int) -> _Pass:
        """Read the queue; its first job is the oldest."""
        episode = self._episodes[at]
        assert isinstance(episode, ForecastEpisode)  # noqa: S101  (the workload gives no others)
        jobs, start_ms = episode.jobs, self.start_ms(at)
        end_ms = np.where(start_ms < 0, now_ms + 1, start_ms + jobs.run_ms)
        queue = Queue(
            (now_ms - jobs.submit_ms[waiting]) / 1000, jobs.limit_ms[waiting] / 1000, jobs.processors[waiting],
            user_shares(jobs, episode.users, end_ms, now_ms)[episode.users[waiting]],
            int(self._machines.facts[at, FREE]), episode.processors,
        )  # fmt: skip
        of_jobs, of_queue = queue.reads(episode.forecasts.select(waiting))
        self._reads[at] = 0
        self._reads[at, : len(waiting), : len(OF_THE_JOB)] = of_jobs
        self._reads[at, : len(waiting), len(OF_THE_JOB) : ROW_IS_THERE] = of_queue
        self._reads[at, : len(waiting), ROW_IS_THERE] = 1
        self._passes[at] = begun = _Pass(episode, now_ms, waiting, self._is_overdue(queue))
        return begun

    def _is_overdue(self, queue: Queue) -> bool:
        guard = self._decider.guard
        return guard is not None and bool(queue.waited_s[0] > guard.base_s + guard.backlog * queue.backlog_s)
