"""Who goes next, and where: pure decisions that know nothing of time passing or of simulation."""

from __future__ import annotations

from presage.policies.backfilling import BACKFILLINGS, Backfilling
from presage.policies.orders import ORDERS, DynamicOrder, JobView, Order, StaticOrder
from presage.policies.policy import Policy

__all__ = [
    "BACKFILLINGS",
    "ORDERS",
    "Backfilling",
    "DynamicOrder",
    "JobView",
    "Order",
    "Policy",
    "StaticOrder",
]
