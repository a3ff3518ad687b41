"""The execution plans of a job across systems."""

from __future__ import annotations

from presage.planner.cascades import Night, Overheads
from presage.planner.constraints import Budget, Constraints
from presage.planner.crossing import Counts
from presage.planner.estimates import AskedEstimates, Estimates, Stated, StatedEstimates
from presage.planner.options import Assumptions, Option, Variant
from presage.planner.plan import Leg, Plan, Strategy, parse_plan, read_plan
from presage.planner.planning import Plans, make_plans
from presage.planner.strategies import Proposal, plan_option

__all__ = [
    "AskedEstimates",
    "Assumptions",
    "Budget",
    "Constraints",
    "Counts",
    "Estimates",
    "Leg",
    "Night",
    "Option",
    "Overheads",
    "Plan",
    "Plans",
    "Proposal",
    "Stated",
    "StatedEstimates",
    "Strategy",
    "Variant",
    "make_plans",
    "parse_plan",
    "plan_option",
    "read_plan",
]
