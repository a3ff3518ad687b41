"""The options that nothing beats in both completion time and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from presage.planner.options import Option


def front(options: Iterable[Option]) -> list[Option]:
    """Return the front of median completion and median cost, from the soonest to the cheapest.

    Of options that are equal in both, the first stays. Amounts in different currencies do not compare: each
    currency has a front of its own, one behind the other.
    """
    by_currency: dict[str, list[tuple[float, float, Option]]] = {}
    for option in options:
        if option.fits and option.completion is not None and option.cost is not None:
            known = (option.completion.p50, option.cost.p50, option)
            by_currency.setdefault(option.currency, []).append(known)
    return [option for each in by_currency.values() for option in _front(each)]


def _front(known: list[tuple[float, float, Option]]) -> list[Option]:
    kept: list[Option] = []
    cheapest: float | None = None
    for _, cost, option in sorted(known, key=lambda entry: entry[:2]):
        if cheapest is None or cost < cheapest:
            kept.append(option)
            cheapest = cost
    return kept
