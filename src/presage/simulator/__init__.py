"""What would happen: a schedule for every job of a trace under a policy, exactly and fast.

Needs the extra `simulate`.
"""

from __future__ import annotations

from presage.simulator.comparison import Comparison, Difference, compare
from presage.simulator.jobs import Jobs, jobs_of
from presage.simulator.metrics import Metrics, measure
from presage.simulator.simulation import Simulation, simulate
from presage.simulator.variants import Scenario, Variant
from presage.simulator.whatif import Run, VariantOutcome, WhatIf, what_if

__all__ = [
    "Comparison",
    "Difference",
    "Jobs",
    "Metrics",
    "Run",
    "Scenario",
    "Simulation",
    "Variant",
    "VariantOutcome",
    "WhatIf",
    "compare",
    "jobs_of",
    "measure",
    "simulate",
    "what_if",
]
