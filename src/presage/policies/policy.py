"""A whole policy: an order and a backfilling, as one value with a name."""

from __future__ import annotations

from dataclasses import dataclass, field

from presage.errors import UsageError
from presage.policies.backfilling import BACKFILLINGS, PeriodicBackfill
from presage.policies.orders import ORDERS


@dataclass(frozen=True)
class Policy:
    """Names of registered kinds; `str(policy)` is what `parse` takes.

    The backfilling may be given with settings behind a colon, which then go to `periodic`. Raises
    UnknownNameError, or UsageError if a backfilling that has no settings gets some.
    """

    order: str = "fcfs"
    backfilling: str = "none"
    periodic: PeriodicBackfill = field(default_factory=PeriodicBackfill)
    """Settings, for the backfilling `periodic` alone."""

    def __post_init__(self) -> None:
        name, colon, settings = self.backfilling.partition(":")
        ORDERS.spec(self.order)
        BACKFILLINGS.spec(name)
        if name != "periodic" and (colon or self.periodic != PeriodicBackfill()):
            raise UsageError(
                f"The backfilling {name!r} has no settings", expected="settings behind 'periodic' alone"
            )
        if colon:
            object.__setattr__(self, "backfilling", name)
            object.__setattr__(self, "periodic", PeriodicBackfill.parse(settings))

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Return the policy written as `sjf`, `sjf+easy` or `fcfs+periodic:interval_s=60,depth=200`.

        Raises UnknownNameError or UsageError.
        """
        order, plus, backfilling = text.strip().lower().partition("+")
        if plus and not backfilling:
            raise UsageError(
                f"The policy {text!r} ends in '+'", expected="ORDER or ORDER+BACKFILLING, like sjf+easy"
            )
        return cls(order, backfilling or "none")

    def __str__(self) -> str:
        if self.backfilling == "none":
            return self.order
        settings = str(self.periodic)
        return f"{self.order}+{self.backfilling}{':' if settings else ''}{settings}"
