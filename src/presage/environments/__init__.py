"""The simulator as Gymnasium environments, to learn decisions in. Needs the extra `learn`.

Importing this module registers them: `gymnasium.make("presage/BatchOrder-v1")`.
"""

from __future__ import annotations

from presage.environments.requirements import require_learn

require_learn()

import gymnasium  # noqa: E402

from presage.environments._batch import FEATURES  # noqa: E402
from presage.environments.batch_order import BatchOrder, BatchOrderVector  # noqa: E402
from presage.environments.objectives import Objective  # noqa: E402
from presage.environments.workloads import Episode, Mixed, Windows, Workload  # noqa: E402

__all__ = ["FEATURES", "BatchOrder", "BatchOrderVector", "Episode", "Mixed", "Objective", "Windows", "Workload"]

gymnasium.register(
    "presage/BatchOrder-v1",
    entry_point="presage.environments.batch_order:BatchOrder",
    vector_entry_point="presage.environments.batch_order:BatchOrderVector",
    disable_env_checker=True,  # it asks for actions that are masked
)
