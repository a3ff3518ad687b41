"""Policies by what people call them: a learned one by name or file, a rule with or without a guard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import InputError, UnknownNameError, UsageError
from presage.learning.evaluation import LOOK_AHEAD
from presage.learning.learned_policy import SHIPPED, LearnedPolicy
from presage.learning.recommendation import PolicyStore
from presage.policies import ORDERS
from presage.policies.queue_scorer import GUARDS
from presage.simulator.guided import Decider
from presage.simulator.look_ahead import LookAhead

if TYPE_CHECKING:
    from presage.learning.evaluation import AnyPolicy


BY_FORECASTS = (*SHIPPED, LOOK_AHEAD)
"""Names of policies that need forecasts."""


def policy_named(text: str) -> AnyPolicy:
    """Return `default`, `index`, `look-ahead`, the policy in a file or a store, or a rule as `saf` or `saf/A`.

    All are with EASY backfilling. A name is what it says wherever one stands: `./saf` is the file of that name.

    Raises InputError for a file or a folder that holds no policy, UsageError for a guard that is not there or
    cannot be chosen, UnknownNameError with the closest match for any other name.
    """
    if text in SHIPPED:
        return LearnedPolicy.load(text)
    if text == LOOK_AHEAD:
        return LookAhead()
    order, _, guard = text.partition("/")
    order = order.removesuffix("+easy")
    if order in ORDERS and guard in ("", "-", *GUARDS):
        return Decider(order, GUARDS.get(guard))
    if Path(text).suffix == ".safetensors" or Path(text).exists():
        return policy_at(Path(text))
    if order in ORDERS:
        raise UsageError(f"There is no guard {guard!r}", expected=f"one of {', '.join(GUARDS)}, like saf/A")
    if order in BY_FORECASTS:
        raise UsageError(f"{order} has its own guard and backfilling", remedy=f"Say {order} alone")
    raise UnknownNameError("policy", order, [*BY_FORECASTS, *ORDERS])


def policy_at(place: Path) -> LearnedPolicy:
    """Return the policy in a file, or the one in use in a store. Raises InputError if there is none."""
    if not place.is_dir():
        return LearnedPolicy.load(place)
    store = PolicyStore(place)
    if not store.is_one():
        raise InputError(
            f"The folder {str(place)!r} holds no policies",
            expected="one that `presage policy train --store` wrote to, or an empty one",
        )
    return store.current()
