"""The simulator as Gymnasium environments, to learn decisions in. Needs the extra `learn`.

Importing this module registers them: `gymnasium.make("presage/BatchOrder-v1")`.
"""

from __future__ import annotations

from presage.errors import MissingDependencyError

try:
    import gymnasium

    from presage.environments._awaiting import SUBMIT_FEATURES
    from presage.environments._observing import BACKFILL_FEATURES, FEATURES
    from presage.environments._placing import KUBE_FEATURES, PLACEMENT_FEATURES
    from presage.environments.backfill import Backfill, BackfillVector
    from presage.environments.batch_order import BatchOrder, BatchOrderVector
    from presage.environments.failures import NodeChanges, NodeFailures, ProcessorChanges, ProcessorFailures
    from presage.environments.kube_cluster import KubeCluster, KubeClusterVector
    from presage.environments.node_workloads import NodeWindows, NodeWorkload, PlacedEpisode
    from presage.environments.objectives import Objective
    from presage.environments.placement import Placement, PlacementVector
    from presage.environments.submit_time import SubmitTime, SubmitTimeVector
    from presage.environments.workloads import Episode, Mixed, Windows, Workload
except ModuleNotFoundError as missing:
    if missing.name not in ("numba", "gymnasium"):
        raise
    raise MissingDependencyError(missing.name, extra="learn", purpose="Learning in environments") from None

__all__ = [
    "BACKFILL_FEATURES",
    "FEATURES",
    "KUBE_FEATURES",
    "PLACEMENT_FEATURES",
    "SUBMIT_FEATURES",
    "Backfill",
    "BackfillVector",
    "BatchOrder",
    "BatchOrderVector",
    "Episode",
    "KubeCluster",
    "KubeClusterVector",
    "Mixed",
    "NodeChanges",
    "NodeFailures",
    "NodeWindows",
    "NodeWorkload",
    "Objective",
    "PlacedEpisode",
    "Placement",
    "PlacementVector",
    "ProcessorChanges",
    "ProcessorFailures",
    "SubmitTime",
    "SubmitTimeVector",
    "Windows",
    "Workload",
]

_MODULES = {
    "BatchOrder": "batch_order",
    "Backfill": "backfill",
    "SubmitTime": "submit_time",
    "Placement": "placement",
    "KubeCluster": "kube_cluster",
}
for _name, _module in _MODULES.items():
    gymnasium.register(
        f"presage/{_name}-v1",
        entry_point=f"presage.environments.{_module}:{_name}",
        vector_entry_point=f"presage.environments.{_module}:{_name}Vector",
        disable_env_checker=True,  # it asks for actions that are masked
    )
