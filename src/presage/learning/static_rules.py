"""The best that a rule without forecasts can do: what a learned policy must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from presage.learning.outcomes import Outcome
from presage.policies.queue_scorer import GUARDS
from presage.simulator.guided import Decider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from presage.learning.cases import Case

RULES = ("fcfs", "sjf", "saf", "sqf", "f1", "f2", "f3", "f4", "wfp3", "unicep", "lxf")
HIGH_LOAD = 0.9
FIRST_COME = Decider("fcfs", None)


def label(decider: Decider) -> str:
    """Return a rule and its guard as `saf/A`; without a guard `saf/-`."""
    named = [name for name, guard in GUARDS.items() if guard == decider.guard]
    order = decider.order if isinstance(decider.order, str) else "learned"
    return f"{order}/{named[0] if named else '-'}"


def static_deciders() -> list[Decider]:
    """Return all rules with each guard and with none."""
    return [Decider(rule, guard) for rule in RULES for guard in (None, *GUARDS.values())]


def loads(case: Case) -> list[Case]:
    """Return a case as it is and at a high load: a pick must be good at both."""
    return [case, case.at_load(HIGH_LOAD)]


def best_static(train: Case, deciders: Sequence[Decider] | None = None) -> Decider:
    """Return the rule with the lowest bounded slowdown (by its logarithm, over `loads`) of those that are safe."""
    total: dict[int, float] = {}
    deciders = static_deciders() if deciders is None else deciders
    for case in loads(train):
        first_come = Outcome.of(case, case.run(FIRST_COME, "requested"))
        for at, decider in enumerate(deciders):
            outcome = Outcome.of(case, case.run(decider, "requested"))
            cost = np.log(outcome.slowdown) if outcome.is_safe(first_come) else np.inf
            total[at] = total.get(at, 0.0) + float(cost)
    return deciders[min(total, key=total.__getitem__)]
