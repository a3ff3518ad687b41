"""What all environments share: many machines that are stepped in one call, and one of them alone."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from presage.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Mask = NDArray[np.bool_]

HIGHEST = 4.0
"""Nothing that is observed is larger."""
TRIES = 100
"""Episodes drawn until one has a choice."""


class MachinesVector(VectorEnv):
    """Many machines in one compiled call.

    `infos["action_mask"]` says what may be chosen on each. A machine whose episode is over begins the next one
    within the same step, and `infos["final_info"]` tells how the last one went: numbers by name, NaN where none
    ended.
    """

    def __init__(self, num_envs: int, observed: tuple[int, ...], actions: int, *, autoreset: bool) -> None:
        if num_envs < 1 or min(observed) < 1:
            raise UsageError(
                f"{num_envs} machines with {observed[0]} rows to be seen are nothing to learn on",
                expected="at least one machine, and at least one slot",
            )
        mode = AutoresetMode.SAME_STEP if autoreset else AutoresetMode.DISABLED
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self._autoreset = autoreset
        self.num_envs = num_envs
        self.single_observation_space = spaces.Box(0.0, HIGHEST, observed, np.float32)
        self.single_action_space = spaces.Discrete(actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._seen = np.zeros((num_envs, *observed), np.float32)
        self._nothing = np.zeros_like(self._seen)
        self._nothing.flags.writeable = False  # handed out at every end
        self._mask = np.zeros((num_envs, actions), np.bool_)
        self._costs = np.zeros(num_envs)
        self._done = np.zeros(num_envs, np.bool_)
        self._generators = [np.random.default_rng() for _ in range(num_envs)]

    @abstractmethod
    def _draw(self, at: int, rng: np.random.Generator) -> bool:
        """Begin a drawn episode on a machine and write what is seen; return whether it has a choice."""

    @abstractmethod
    def _follow(self, actions: NDArray[np.int64]) -> None:
        """Follow one choice on every machine; write what is seen, what it cost and which episodes are over."""

    @abstractmethod
    def _conclude(self, at: int) -> tuple[float, dict[str, float]]:
        """Return what the end of an episode adds to the reward, and what is told of it."""

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Begin an episode on every machine; one seed makes all of them repeatable."""
        if seed is not None:
            seeds = [seed + k for k in range(self.num_envs)] if isinstance(seed, int) else seed
            self._generators = [np.random.default_rng(each) for each in seeds]
        for at in range(self.num_envs):
            self._begin(at)
        return self._seen.copy(), self._infos()

    def step(self, actions: NDArray[np.int64]) -> tuple[Floats, NDArray[np.float64], Mask, Mask, dict[str, Any]]:
        """Follow one choice on every machine.

        One that is not possible counts as the first that is; where an episode is over nothing happens.
        """
        was_over = self._done.copy()
        self._follow(np.asarray(actions, np.int64))
        rewards, done = -self._costs, self._done.copy()
        infos: dict[str, Any] = {}
        if (ended := done & ~was_over).any():
            infos = self._finish(rewards, ended)
        return self._seen.copy(), rewards, done, np.zeros(self.num_envs, np.bool_), self._infos() | infos

    def action_masks(self) -> Mask:
        """Return what may be chosen on each machine."""
        return self._mask.copy()

    def _infos(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks()}

    def _finish(self, rewards: NDArray[np.float64], ended: Mask) -> dict[str, Any]:
        """Give what only the end of an episode tells, and begin anew."""
        final: dict[str, NDArray[np.float64]] = {}
        for at in np.flatnonzero(ended).tolist():
            bonus, told = self._conclude(at)
            rewards[at] += bonus
            for name, value in told.items():
                if name not in final:
                    final[name] = np.full(self.num_envs, np.nan)
                final[name][at] = value
            if self._autoreset:
                self._begin(at)
        return {"final_obs": self._nothing, "_final_obs": ended, "final_info": final, "_final_info": ended}

    def _begin(self, at: int) -> None:
        """Begin an episode that has a choice; those that have none are passed over."""
        self._done[at] = False
        if not any(self._draw(at, self._generators[at]) for _ in range(TRIES)):
            raise UsageError(
                f"{TRIES} episodes in a row have nothing to choose",
                remedy="Take longer episodes, or a higher load",
            )


class SingleMachine(gymnasium.Env):
    """One machine; the class `kind` says what is observed, chosen and rewarded.

    `info["action_mask"]`, also `action_masks()`, says what may be chosen. When an episode is over, `info` also has
    the numbers that tell how it went.
    """

    kind: ClassVar[Callable[..., MachinesVector]]

    def __init__(self, workload: Any = None, **settings: Any) -> None:
        self._vector = type(self).kind(workload, 1, autoreset=False, **settings)
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
        """Follow one choice."""
        seen, rewards, done, _, infos = self._vector.step(np.array([action]))
        info: dict[str, Any] = {"action_mask": self.action_masks()}
        if "final_info" in infos:
            info |= {name: float(values[0]) for name, values in infos["final_info"].items()}
        return seen[0], float(rewards[0]), bool(done[0]), False, info

    def action_masks(self) -> Mask:
        """Return what may be chosen, as sb3-contrib asks for it."""
        mask: Mask = self._vector.action_masks()[0]
        return mask
