"""The simulator as Gymnasium environments, to learn decisions in. Needs the extra `learn`.

Importing this module registers them: `gymnasium.make("presage/BatchOrder-v1")`.
"""

from __future__ import annotations

from presage.errors import MissingDependencyError

try:
    import gymnasium

    from presage.environments._observing import FEATURES
    from presage.environments.batch_order import BatchOrder, BatchOrderVector
    from presage.environments.objectives import Objective
    from presage.environments.workloads import Episode, Mixed, Windows, Workload
except ModuleNotFoundError as missing:
    if missing.name not in ("numba", "gymnasium"):
        raise
    raise MissingDependencyError(missing.name, extra="learn", purpose="Learning in environments") from None

__all__ = ["FEATURES", "BatchOrder", "BatchOrderVector", "Episode", "Mixed", "Objective", "Windows", "Workload"]

gymnasium.register(
    "presage/BatchOrder-v1",
    entry_point="presage.environments.batch_order:BatchOrder",
    vector_entry_point="presage.environments.batch_order:BatchOrderVector",
    disable_env_checker=True,  # it asks for actions that are masked
)
