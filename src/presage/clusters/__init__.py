"""What there is: systems, partitions, node types, limits, prices."""

from __future__ import annotations

from presage.clusters.charges import ChargeRule, Share, WholeNodes, charged_cores, cost_of
from presage.clusters.gpus import GPU_MODELS, GpuModel, find_gpu
from presage.clusters.shipped import shipped_systems
from presage.clusters.systems import Limits, NodeType, Partition, Scheduler, Staging, System

__all__ = [
    "GPU_MODELS",
    "ChargeRule",
    "GpuModel",
    "Limits",
    "NodeType",
    "Partition",
    "Scheduler",
    "Share",
    "Staging",
    "System",
    "WholeNodes",
    "charged_cores",
    "cost_of",
    "find_gpu",
    "shipped_systems",
]
