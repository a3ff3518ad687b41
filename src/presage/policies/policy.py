"""A whole policy: an order and a backfilling, as one value with a name."""

from __future__ import annotations

from dataclasses import dataclass

from presage.errors import UsageError
from presage.policies.backfilling import BACKFILLINGS
from presage.policies.orders import ORDERS


@dataclass(frozen=True)
class Policy:
    """Names of registered kinds; `str(policy)` is what `parse` takes."""

    order: str = "fcfs"
    backfilling: str = "none"

    def __post_init__(self) -> None:
        ORDERS.spec(self.order)
        BACKFILLINGS.spec(self.backfilling)

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Return the policy written as `sjf` or `sjf+easy`. Raises UnknownNameError or UsageError."""
        order, plus, backfilling = text.strip().lower().partition("+")
        if plus and not backfilling:
            raise UsageError(
                f"The policy {text!r} ends in '+'", expected="ORDER or ORDER+BACKFILLING, like sjf+easy"
            )
        return cls(order, backfilling or "none")

    def __str__(self) -> str:
        return self.order if self.backfilling == "none" else f"{self.order}+{self.backfilling}"
