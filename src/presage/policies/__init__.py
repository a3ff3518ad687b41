"""Who goes next, and where: pure decisions that know nothing of time passing or of simulation."""

from __future__ import annotations

from presage.policies.backfilling import BACKFILLINGS, Backfilling
from presage.policies.orders import ORDERS, DynamicOrder, JobView, Order, StaticOrder
from presage.policies.placements import (
    PLACED_BACKFILLINGS,
    PLACEMENTS,
    PlacedBackfilling,
    PlacedPolicy,
    Placement,
)
from presage.policies.policy import Policy

__all__ = [
    "BACKFILLINGS",
    "ORDERS",
    "PLACED_BACKFILLINGS",
    "PLACEMENTS",
    "Backfilling",
    "DynamicOrder",
    "JobView",
    "Order",
    "PlacedBackfilling",
    "PlacedPolicy",
    "Placement",
    "Policy",
    "StaticOrder",
]
