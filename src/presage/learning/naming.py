"""Policies by what people call them: a learned one by name or file, a rule with or without a guard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import UnknownNameError, UsageError
from presage.learning.learned_policy import SHIPPED, LearnedPolicy
from presage.learning.recommendation import PolicyStore
from presage.policies import ORDERS
from presage.policies.queue_scorer import GUARDS
from presage.simulator.guided import Decider

if TYPE_CHECKING:
    from presage.policies.queue_scorer import Guard


def policy_named(text: str) -> LearnedPolicy | Decider:
    """Return `default`, `index`, the policy in a file or a store, or a rule as `saf` or `saf/A`, all with EASY.

    Raises InputError for a file that is no policy, UnknownNameError with the closest match for any other name.
    """
    if Path(text).is_dir():
        return PolicyStore(text).current()
    if text in SHIPPED or Path(text).suffix == ".safetensors" or Path(text).is_file():
        return LearnedPolicy.load(text)
    order, _, guard = text.partition("/")
    order = order.removesuffix("+easy")
    if order not in ORDERS:
        raise UnknownNameError("policy", order, [*SHIPPED, *ORDERS])
    return Decider(order, _guard(guard))


def _guard(name: str) -> Guard | None:
    if name in ("", "-"):
        return None
    if name not in GUARDS:
        raise UsageError(f"There is no guard {name!r}", expected=f"one of {', '.join(GUARDS)}, like saf/A")
    return GUARDS[name]
