"""When to submit the successor of a running job: `presage/SubmitTime-v1`, after Mirage (Ding et al., SC 2023)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from presage.environments import _awaiting
from presage.environments._queues import changes_of, overridden, write_episode
from presage.environments._vector import MachinesVector, SingleMachine
from presage.environments.workloads import Windows
from presage.errors import UsageError
from presage.simulator import _moments, submissions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.environments.workloads import Episode, Workload

HOUR_S = 3600.0
JOBS_OF_CHAIN = 2


class SubmitTimeVector(MachinesVector):
    """Many machines in one compiled call.

    On each a job of a chain of two runs among the jobs of others, and will end at its limit. The machine goes by
    `fcfs+easy`. Every `interval_s` somebody decides whether the second job, which is like the first, is submitted
    now (1) or not yet (0); when the first ends it is submitted in any case. The episode is over then, since all
    that follows is known: the reward is minus `interruption_price` for every hour between the end of the first and
    the start of the second, or minus `overlap_price` for every hour in which both run, because the second has
    nothing to go on with before the first has ended.

    The first job comes when `warm_up` of the jobs of an episode have come; decisions begin when it starts. Its
    size is that of a job of the episode unless `processors` says it; its limit is drawn between two `limits_s`,
    evenly on a logarithmic scale.

    Where processors fail, jobs that are killed wait again in their old places. If the first of the chain is
    killed, that is its end, and the second, which goes on from there, is submitted at once. A second that is
    killed while it waits for the first to end is started once more; the episode lasts until the second runs and
    the first has ended. Jobs of others that have an override go before the chain.

    Observations are (machines, features), see `SUBMIT_FEATURES`; both actions are always possible.
    `infos["final_info"]` has `interruption_h`, `overlap_h`, `wait_s` (of the second job, until its last start),
    `lead_s` (how long before the end of the first it was submitted), `kills` (how often a job, of whomever, was
    killed) and `cut_short_h` (how much sooner than by its limit the first ended).
    """

    def __init__(
        self,
        workload: Workload | None = None,
        num_envs: int = 64,
        *,
        interval_s: float = 600.0,
        limits_s: tuple[float, float] = (2 * HOUR_S, 12 * HOUR_S),
        processors: int | None = None,
        warm_up: float = 0.25,
        interruption_price: float = 1.0,
        overlap_price: float = 1.0,
        autoreset: bool = True,
    ) -> None:
        _check(interval_s, limits_s, warm_up)
        super().__init__(num_envs, (len(_awaiting.SUBMIT_FEATURES),), 2, autoreset=autoreset)
        self.workload = workload = workload or Windows.generated()
        self._interval_ms = round(interval_s * 1000)
        self._limits_s = limits_s
        self._processors = processors
        self._warm_up = warm_up
        self._prices = np.array([interruption_price, overlap_price], np.float64)
        self._machines = _moments.new_machines(num_envs, workload.jobs + JOBS_OF_CHAIN)
        self._chains = np.zeros((num_envs, _awaiting.OVERLAP + 1), np.int64)
        self._mask[:] = True

    def start_ms(self, at: int) -> tuple[int, int]:
        """Return when the two jobs of a chain started; -1 where the second has not yet."""
        first, second = self._chains[at, : _awaiting.SUCCESSOR + 1]
        return int(self._machines.start[at, first]), int(self._machines.start[at, second])

    def _draw(self, at: int, rng: np.random.Generator) -> bool:
        episode = self.workload.draw(rng)
        jobs, count = episode.jobs, len(episode.jobs)
        ranks = 4 * overridden(np.arange(count), episode)
        self._machines = machines = write_episode(self._machines, at, episode, ranks)
        first = submissions.begin_chain(
            machines, at, count, episode.processors, changes_of(episode),
            jobs.submit_ms[int(self._warm_up * count)], self._size(episode, rng), self._limit_ms(rng),
        )  # fmt: skip
        end_ms = machines.start[at, first] + machines.run[at, first]
        self._chains[at] = first, count + 1, end_ms, self._interval_ms, 0
        _awaiting.observe_chain(machines, self._chains, at, self._seen[at])
        return True

    def _size(self, episode: Episode, rng: np.random.Generator) -> int:
        size = self._processors
        if size is None:
            size = int(episode.jobs.processors[rng.integers(len(episode.jobs))])
        if not 1 <= size <= episode.processors:
            raise UsageError(
                f"Jobs of {size:,} processors do not fit on {episode.processors:,}",
                expected="from 1 to all processors of the machine",
            )
        return size

    def _limit_ms(self, rng: np.random.Generator) -> int:
        shortest_s, longest_s = self._limits_s
        return round(math.exp(rng.uniform(math.log(shortest_s), math.log(longest_s))) * 1000)

    def _follow(self, actions: NDArray[np.int64]) -> None:
        _awaiting.step_chains(
            self._machines, self._chains, actions, self._prices, self._seen, self._costs, self._done
        )

    def _conclude(self, at: int) -> tuple[float, dict[str, float]]:
        machines = self._machines
        first, second, end_ms, _, overlap_ms = self._chains[at].tolist()
        start_ms, submit_ms = int(machines.start[at, second]), int(machines.submit[at, second])
        limit_ms = int(machines.start[at, first] + machines.limit[at, first])
        return 0.0, {
            "interruption_h": max(start_ms - end_ms, 0) / 1000 / HOUR_S,
            "overlap_h": overlap_ms / 1000 / HOUR_S,
            "wait_s": (start_ms - submit_ms) / 1000,
            "lead_s": (end_ms - submit_ms) / 1000,
            "kills": float(machines.facts[at, _moments.KILLS]),
            "cut_short_h": (limit_ms - end_ms) / 1000 / HOUR_S,
        }


class SubmitTime(SingleMachine):
    """One machine; see `SubmitTimeVector` for what is observed, chosen and rewarded.

    When an episode is over, `info` has what `final_info` has there.
    """

    kind = SubmitTimeVector


def _check(interval_s: float, limits_s: tuple[float, float], warm_up: float) -> None:
    if not (interval_s > 0 and 0 < limits_s[0] <= limits_s[1] and 0 <= warm_up < 1):
        raise UsageError(
            f"Nobody can decide every {interval_s} s, with limits of {limits_s[0]} to {limits_s[1]} s, "
            f"after {warm_up} of an episode",
            expected="an interval and limits above 0, the smaller limit first, and a share from 0 up to below 1",
        )
