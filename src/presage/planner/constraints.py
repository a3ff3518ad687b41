"""What a plan must keep to: a deadline, a budget, some places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.estimators.feasibility import Reason
from presage.planner.places import matches
from presage.units import spell_seconds

if TYPE_CHECKING:
    from presage.estimators.spread import Spread
    from presage.planner.places import Placement


@dataclass(frozen=True)
class Budget:
    """An amount of money or service units; in any currency if none is named."""

    amount: float
    currency: str | None = None


@dataclass(frozen=True)
class Constraints:
    """All that is asked for holds with the chance `confidence`, so by p90 unless somebody says otherwise."""

    deadline_s: float | None = None
    """From now."""
    budget: Budget | None = None
    only: tuple[str, ...] = ()
    """Patterns of places, as `presage.planner.places.matches` has them; empty: all."""
    confidence: float = 0.9

    def allows(self, placement: Placement) -> bool:
        """Return whether a place is among those wanted."""
        names = (placement.system.name, placement.partition.name, placement.node_type.name)
        return not self.only or any(matches(pattern, *names) for pattern in self.only)

    def reasons_against(self, completion: Spread, cost: Spread, currency: str) -> tuple[Reason, ...]:
        """Return why something that ends then and costs that much will not do."""
        return (*self._too_late(completion), *self._too_dear(cost, currency))

    def _too_late(self, completion: Spread) -> tuple[Reason, ...]:
        ends_s = completion.quantile(self.confidence)
        if self.deadline_s is None or ends_s <= self.deadline_s:
            return ()
        chance = 1.0 - completion.chance_above(self.deadline_s)
        words = (
            f"done after {spell_seconds(ends_s)} (with a chance of {self.confidence:.0%}) > the deadline in "
            f"{spell_seconds(self.deadline_s)}, which it meets with a chance of {chance:.0%}"
        )
        return (Reason("deadline", words, ends_s, self.deadline_s),)

    def _too_dear(self, cost: Spread, currency: str) -> tuple[Reason, ...]:
        if self.budget is None:
            return ()
        if self.budget.currency is not None and self.budget.currency != currency:
            return (Reason("currency", f"charged in {currency}, the budget is in {self.budget.currency}"),)
        price = cost.quantile(self.confidence)
        if price <= self.budget.amount:
            return ()
        chance = f"with a chance of {self.confidence:.0%}"
        words = f"{price:.4g} {currency} ({chance}) > the budget of {self.budget.amount:g}"
        return (Reason("budget", words, price, self.budget.amount),)


UNCONSTRAINED = Constraints()
