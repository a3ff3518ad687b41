"""Machines that wait for choices, as stable-baselines3 wants to see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from presage.environments import BatchOrderVector
from presage.policies import Policy
from presage.simulator.metrics import measure
from presage.simulator.pooled import schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.environments import Episode
    from presage.learning.networks import ChoosingNetwork

    Mask = NDArray[np.bool_]
    Seen = NDArray[np.float32]

YARDSTICK = Policy.parse("saf+easy")


class MeasuredOrder(BatchOrderVector):
    """Rewards are shares of what a rule's schedule of the same episode costs.

    The bounded slowdowns of two windows of one log may differ a hundredfold: without this only the worst would
    count.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._units = np.ones(self.num_envs)

    def _draw(self, at: int, rng: np.random.Generator) -> bool:
        has_choice = super()._draw(at, rng)
        episode = self._episodes[at]
        if has_choice and episode is not None:
            start_ms = self._measure_by(episode)
            self._units[at] = measure(episode.jobs, start_ms, episode.processors).mean_bounded_slowdown
        return has_choice

    def _measure_by(self, episode: Episode) -> NDArray[np.int64]:
        """Return when each job starts by the rule that others are measured by."""
        return schedule(episode.jobs, episode.processors, YARDSTICK)

    def _follow(self, actions: NDArray[np.int64]) -> None:
        super()._follow(actions)
        self._costs /= self._units


class MachinesForSb3(VecEnv):
    """Many machines in one compiled call, with masks where sb3-contrib asks for them."""

    def __init__(self, vector: BatchOrderVector) -> None:
        self._vector = vector
        self._actions = np.zeros(vector.num_envs, np.int64)
        self._totals = np.zeros(vector.num_envs)
        self._lengths = np.zeros(vector.num_envs, np.int64)
        super().__init__(vector.num_envs, vector.single_observation_space, vector.single_action_space)

    def reset(self) -> Seen:
        seen, _ = self._vector.reset(seed=list(self._seeds))
        self._reset_seeds()
        self._totals[:] = self._lengths[:] = 0
        return seen

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Seen, NDArray[np.float32], Mask, list[dict[str, Any]]]:
        seen, rewards, done, _, infos = self._vector.step(self._actions)
        self._totals += rewards
        self._lengths += 1
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for at in np.flatnonzero(done).tolist():
            told[at] = {
                "terminal_observation": infos["final_obs"][at],
                "episode": {"r": float(self._totals[at]), "l": int(self._lengths[at]), "t": 0.0},
                "bounded_slowdown": float(infos["final_info"]["mean_bounded_slowdown"][at]),
            }
            self._totals[at] = self._lengths[at] = 0
        return seen, rewards.astype(np.float32), done, told

    def close(self) -> None:
        self._vector.close()

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **settings: Any) -> list[Any]:
        """Return what a method says of each machine; it has to answer for all of them at once."""
        of_all = getattr(self._vector, method_name)(*arguments, **settings)
        return [of_all[at] for at in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self._vector, attr_name)] * len(self._list(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self._vector, attr_name, value)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        return [False] * len(self._list(indices))

    def _list(self, indices: Any) -> Sequence[int]:
        return list(self._get_indices(indices))


class QueuePolicy(MaskableActorCriticPolicy):
    """A network of the queue as sb3-contrib's PPO trains it: it reads what is observed and gives logits itself."""

    def __init__(self, *arguments: Any, network: ChoosingNetwork, **settings: Any) -> None:
        self._network = [network]  # in a list, since no module may be kept before all is set up
        super().__init__(*arguments, features_extractor_class=_AsTheyAre, **settings)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = _Parts(self._network[0])

    def _build(self, lr_schedule: Any) -> None:
        self._build_mlp_extractor()
        self.action_net = self.value_net = nn.Identity()
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)


class _AsTheyAre(BaseFeaturesExtractor):
    """Observations, which are numbers of one size already."""

    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space, features_dim=1)

    def forward(self, seen: Any) -> Any:
        return seen


class _Parts(nn.Module):
    """What a policy asks for: logits and values together, or one of both."""

    def __init__(self, network: ChoosingNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, seen: Any) -> Any:
        return self.network(seen)

    def forward_actor(self, seen: Any) -> Any:
        return self.network(seen)[0]

    def forward_critic(self, seen: Any) -> Any:
        return self.network(seen)[1]
