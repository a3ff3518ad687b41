"""What would happen: a schedule for every job of a trace under a policy, exactly and fast.

Needs the extra `simulate`.
"""

from __future__ import annotations

from presage.simulator.comparison import Comparison, Difference, compare
from presage.simulator.jobs import Jobs, jobs_of
from presage.simulator.metrics import Metrics, measure
from presage.simulator.nodes import Nodes, PlacedJobs, placed_jobs_of
from presage.simulator.placed import PlacedSimulation, gpu_fragmentation, simulate_placed
from presage.simulator.simulation import Simulation, simulate
from presage.simulator.variants import Scenario, Variant
from presage.simulator.whatif import Run, VariantOutcome, WhatIf, what_if

__all__ = [
    "Comparison",
    "Difference",
    "Jobs",
    "Metrics",
    "Nodes",
    "PlacedJobs",
    "PlacedSimulation",
    "Run",
    "Scenario",
    "Simulation",
    "Variant",
    "VariantOutcome",
    "WhatIf",
    "compare",
    "gpu_fragmentation",
    "jobs_of",
    "measure",
    "placed_jobs_of",
    "simulate",
    "simulate_placed",
    "what_if",
]
