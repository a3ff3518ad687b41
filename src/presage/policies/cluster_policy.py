"""A whole policy for the detailed simulator: any order, a backfilling and a placement."""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass

from presage.errors import UnknownNameError, UsageError
from presage.policies.cluster_orders import CLUSTER_ORDERS, ClusterOrder
from presage.policies.orders import ORDERS, Fcfs, Order
from presage.policies.placements import PLACED_BACKFILLINGS, PLACEMENTS
from presage.policies.settings import changed_settings, parse_settings


@dataclass(frozen=True)
class ClusterPolicy:
    """An order with its settings, and names of registered kinds; `str(policy)` is what `parse` takes."""

    order: Order = field(default_factory=Fcfs)
    name: str = "fcfs"
    """What the order is called."""
    backfilling: str = "none"
    placement: str = "first-fit"

    def __post_init__(self) -> None:
        PLACED_BACKFILLINGS.spec(self.backfilling)
        PLACEMENTS.spec(self.placement)

    @classmethod
    def parse(cls, text: str) -> ClusterPolicy:
        """Return the policy written as `tiresias:first_s=600+skip@best-fit`; the order alone is enough.

        Orders that need the whole cluster say what backfilling and placement they have if none is named. Raises
        UnknownNameError or UsageError.
        """
        queue, at, placement = text.strip().lower().partition("@")
        described, plus, backfilling = queue.partition("+")
        name, colon, settings = described.partition(":")
        if (plus and not backfilling) or (at and not placement):
            raise UsageError(
                f"The policy {text!r} lacks a name behind '+' or '@'",
                expected="ORDER, ORDER+BACKFILLING or ORDER+BACKFILLING@PLACEMENT, like tiresias+skip@best-fit",
            )
        order = _order(name, settings if colon else None)
        usual = order if isinstance(order, ClusterOrder) else ClusterOrder()
        return cls(order, name, backfilling or usual.backfilling, placement or usual.placement)

    def __str__(self) -> str:
        settings = changed_settings(self.order) if is_dataclass(self.order) else ""
        described = f"{self.name}:{settings}" if settings else self.name
        return f"{described}+{self.backfilling}@{self.placement}"


def _order(name: str, settings: str | None) -> Order:
    if name in ORDERS:
        if settings is not None:
            raise UsageError(f"The order {name!r} has no settings", expected="ORDER+BACKFILLING@PLACEMENT")
        return ORDERS.get(name)()
    if name not in CLUSTER_ORDERS:
        raise UnknownNameError("ordering rule", name, [*ORDERS, *CLUSTER_ORDERS])
    kind = CLUSTER_ORDERS.get(name)
    return kind() if settings is None else parse_settings(kind, settings, f"The order {name!r}")
