"""Who goes next, and where: pure decisions that know nothing of time passing or of simulation."""

from __future__ import annotations

from presage.policies.backfilling import BACKFILLINGS, Backfilling, PeriodicBackfill
from presage.policies.cluster_orders import CLUSTER_ORDERS, ClusterOrder
from presage.policies.cluster_policy import ClusterPolicy
from presage.policies.orders import ORDERS, DynamicOrder, JobView, Order, StaticOrder
from presage.policies.placements import (
    PLACED_BACKFILLINGS,
    PLACEMENTS,
    PlacedBackfilling,
    PlacedPolicy,
    Placement,
)
from presage.policies.policy import Policy
from presage.policies.scorer import Scorer

__all__ = [
    "BACKFILLINGS",
    "CLUSTER_ORDERS",
    "ORDERS",
    "PLACED_BACKFILLINGS",
    "PLACEMENTS",
    "Backfilling",
    "ClusterOrder",
    "ClusterPolicy",
    "DynamicOrder",
    "JobView",
    "Order",
    "PeriodicBackfill",
    "PlacedBackfilling",
    "PlacedPolicy",
    "Placement",
    "Policy",
    "Scorer",
    "StaticOrder",
]
