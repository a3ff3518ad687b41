"""Which waiting job goes next, on a machine with pooled processors: `presage/BatchOrder-v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from presage.environments import _observing
from presage.environments.objectives import Objective
from presage.environments.workloads import Windows
from presage.errors import UsageError
from presage.simulator import choices
from presage.simulator.metrics import measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.environments.workloads import Episode, Workload

    Floats = NDArray[np.float32]
    Mask = NDArray[np.bool_]

SEMANTICS = {"standard": choices.STANDARD, "commit": choices.COMMIT}
BACKFILL = {"none": choices.NONE, "arrival": choices.BY_ARRIVAL, "order": choices.BY_CHOICE}
"""Which jobs may start before the chosen one that does not fit: none, those that came first, those chosen next."""
SLOTS = 128
HIGHEST = 4.0
TRIES = 100
"""Episodes drawn until one has a choice."""


class BatchOrderVector(VectorEnv):
    """Many machines in one compiled call.

    Observations are (machines, slots, features): what is seen of the jobs that have waited longest, in the order
    in which they came; rows without a job are zero. `infos["action_mask"]` says which may be chosen. An episode
    begins on an empty machine and is over when its last job has started; the machine then begins the next one
    within the same step, and `infos["final_info"]` tells how the schedule was: metrics by name, NaN where none
    ended.

    The reward of a step is that of the jobs that started in it, as shares of the episode: the sum over an episode
    is the objective's value of the whole schedule.
    """

    def __init__(
        self,
        workload: Workload | None = None,
        num_envs: int = 64,
        *,
        slots: int = SLOTS,
        objective: str | Objective = "bounded_slowdown",
        semantics: str = "standard",
        backfill: str | None = None,
        autoreset: bool = True,
    ) -> None:
        if semantics not in SEMANTICS:
            raise UsageError(f"There are no semantics {semantics!r}", expected=f"one of {', '.join(SEMANTICS)}")
        backfill = backfill or ("order" if semantics == "standard" else "arrival")
        if backfill not in BACKFILL or (semantics == "commit" and backfill == "order"):
            raise UsageError(
                f"The semantics {semantics!r} have no backfilling {backfill!r}",
                expected="none, arrival, or under the standard semantics order",
            )
        self.workload = workload = workload or Windows.generated()
        mode = AutoresetMode.SAME_STEP if autoreset else AutoresetMode.DISABLED
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self._autoreset = autoreset
        self.objective = Objective.parse(objective)
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(0.0, HIGHEST, (slots, len(_observing.FEATURES)), np.float32)
        self.single_action_space = spaces.Discrete(slots)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rules = (SEMANTICS[semantics], BACKFILL[backfill])
        self._machines = choices.new_machines(num_envs, workload.jobs)
        self._known = _observing.nothing_known(num_envs, workload.jobs)
        self._machines.prices[:] = self.objective.prices
        self._episodes: list[Episode] = []
        self._seen = np.zeros((num_envs, slots, len(_observing.FEATURES)), np.float32)
        self._mask = np.zeros((num_envs, slots), np.bool_)
        self._costs = np.zeros(num_envs)
        self._done = np.zeros(num_envs, np.bool_)
        self._generators = [np.random.default_rng() for _ in range(num_envs)]

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode on every machine; one seed makes all of them repeatable."""
        if seed is not None:
            seeds = [seed + k for k in range(self.num_envs)] if isinstance(seed, int) else seed
            self._generators = [np.random.default_rng(each) for each in seeds]
        self._episodes = [self._begin(at) for at in range(self.num_envs)]
        return self._seen.copy(), self._infos()

    def step(self, actions: NDArray[np.int64]) -> tuple[Floats, NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Start, on every machine, the job in the slot chosen, or reserve for it if it does not fit."""
        chosen = np.asarray(actions, np.int64)
        facts = self._machines.facts
        was_over = facts[:, choices.STARTED] == facts[:, choices.JOBS]
        _observing.step_all(
            self._machines, self._known, chosen, *self._rules, self._seen, self._mask, self._costs, self._done
        )
        rewards = -self._costs
        infos: dict[str, Any] = {}
        if (ended := self._done & ~was_over).any():
            infos = self._finish(rewards, ended)
        return (
            self._seen.copy(),
            rewards,
            self._done.copy(),
            np.zeros(self.num_envs, np.bool_),
            self._infos() | infos,
        )

    def start_ms(self, at: int) -> NDArray[np.int64]:
        """Return when each job of a machine's present episode started, -1 where it waits or has not come yet."""
        return self._machines.start[at, : len(self._episodes[at].jobs)].copy()

    def action_masks(self) -> Mask:
        """Return which slots may be chosen on each machine."""
        return self._mask.copy()

    def _infos(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks()}

    def _finish(self, rewards: NDArray[np.float64], ended: Mask) -> dict[str, Any]:
        """Give what only the end of an episode tells, and begin anew."""
        nothing_waits = np.zeros_like(self._seen)
        final: dict[str, NDArray[np.float64]] = {}
        for at in np.flatnonzero(ended).tolist():
            episode, start_ms = self._episodes[at], self.start_ms(at)
            rewards[at] += self.objective.bonus(episode, start_ms)
            for name, value in measure(episode.jobs, start_ms, episode.processors).to_dict().items():
                final.setdefault(name, np.full(self.num_envs, np.nan))[at] = value
            if self._autoreset:
                self._episodes[at] = self._begin(at)
        return {"final_obs": nothing_waits, "_final_obs": ended, "final_info": final, "_final_info": ended}

    def _begin(self, at: int) -> Episode:
        """Begin an episode that has a choice; those that have none are passed over."""
        for _ in range(TRIES):
            episode = self.workload.draw(self._generators[at])
            machines, jobs = self._machines, episode.jobs
            count = len(jobs)
            for name, values in (
                ("submit", jobs.submit_ms), ("run", jobs.run_ms), ("plan", jobs.plan_ms),
                ("limit", jobs.limit_ms), ("size", jobs.processors),
            ):  # fmt: skip
                getattr(machines, name)[at, :count] = values
            _observing.write_known(self._known, at, jobs.estimate_ms / 1000, jobs.processors / episode.processors)
            machines.deadline[at] = choices.NO_DEADLINE
            if episode.deadline_ms is not None:
                machines.deadline[at, :count] = episode.deadline_ms
            if choices.begin(machines, at, count, episode.processors, self._mask.shape[1], *self._rules):
                _observing.observe(machines, self._known, at, self._seen[at], self._mask[at])
                return episode
        raise UsageError(
            f"{TRIES} episodes in a row have nothing to choose", remedy="Take longer episodes, or a higher load"
        )


class BatchOrder(gymnasium.Env):
    """One machine; see `BatchOrderVector` for what is observed, chosen and rewarded.

    `info["action_mask"]`, also `action_masks()`, says which slots may be chosen. When an episode is over, `info`
    has the metrics of its schedule.
    """

    def __init__(self, workload: Workload | None = None, **settings: Any) -> None:
        self._vector = BatchOrderVector(workload, 1, autoreset=False, **settings)
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode; the same seed gives the same one."""
        super().reset(seed=seed)
        seen, _ = self._vector.reset(seed=seed)
        return seen[0], {"action_mask": self.action_masks()}

    def step(self, action: int) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Start the job in the slot chosen, or reserve for it if it does not fit."""
        seen, rewards, done, _, infos = self._vector.step(np.array([action]))
        info: dict[str, Any] = {"action_mask": self.action_masks()}
        if "final_info" in infos:
            info |= {name: float(values[0]) for name, values in infos["final_info"].items()}
        return seen[0], float(rewards[0]), bool(done[0]), False, info

    def action_masks(self) -> Mask:
        """Return which slots may be chosen, as sb3-contrib asks for it."""
        mask: Mask = self._vector.action_masks()[0]
        return mask
