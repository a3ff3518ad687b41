"""All plans for a job: every option, what the strategies come to, and the front of time and cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from presage.planner.constraints import UNCONSTRAINED, Constraints
from presage.planner.crossing import USUAL_COUNTS, Counts, cross
from presage.planner.options import USUAL, Assumptions, Option, Variant
from presage.planner.pareto import front
from presage.planner.strategies import Proposal, propose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.clusters.systems import System
    from presage.planner.estimates import Estimates
    from presage.planner.plan import Plan, Strategy


@dataclass(frozen=True)
class Plans:
    """What there is to choose from."""

    options: tuple[Option, ...]
    proposals: tuple[Proposal, ...]
    """Of all strategies, also of those that found nothing."""
    front: tuple[Option, ...]
    """Of median completion and median cost."""
    assumptions: Assumptions

    def plan(self, strategy: Strategy) -> Plan | None:
        """Return the plan of a strategy, None if it found none."""
        return next((each.plan for each in self.proposals if each.strategy is strategy), None)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as it is told to machines; the front as positions among the options."""
        assumed = asdict(self.assumptions)
        assumed["now"] = self.assumptions.now.isoformat() if self.assumptions.now else None
        positions = {id(option): index for index, option in enumerate(self.options)}
        return {
            "options": [option.as_dict() for option in self.options],
            "strategies": [proposal.as_dict() for proposal in self.proposals],
            "front": [positions[id(option)] for option in self.front],
            "assumptions": assumed,
        }


def make_plans(
    variants: Sequence[Variant],
    systems: Sequence[System],
    estimates: Estimates,
    *,
    name: str = "job",
    counts: Counts = USUAL_COUNTS,
    constraints: Constraints = UNCONSTRAINED,
    assumptions: Assumptions = USUAL,
    progress: Callable[[int, int, str], None] | None = None,
) -> Plans:
    """Return the plans of a job across systems. Raises UsageError if there is no place, or too many options."""
    options = cross(
        variants, systems, estimates,
        counts=counts, constraints=constraints, assumptions=assumptions, progress=progress,
    )  # fmt: skip
    return Plans(tuple(options), propose(options, constraints, name=name), tuple(front(options)), assumptions)
