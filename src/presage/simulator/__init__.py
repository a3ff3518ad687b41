"""What would happen: a schedule for every job of a trace under a policy, exactly and fast.

Needs the extra `simulate`.
"""

from __future__ import annotations

from presage.simulator.assessment import Assessment, Estimate, assess
from presage.simulator.comparison import Comparison, Difference, compare
from presage.simulator.equal_nodes import on_equal_nodes
from presage.simulator.jobs import Jobs, jobs_of
from presage.simulator.metrics import Metrics, backlog, measure, queue_length
from presage.simulator.nodes import Nodes, PlacedJobs, placed_jobs_of
from presage.simulator.outlook import Forecast, Outlook, Spread, what_comes
from presage.simulator.partitions import Partition, parse_partitions, partitions_of
from presage.simulator.placed import PlacedSimulation, gpu_fragmentation, simulate_placed
from presage.simulator.present import PresentState, present_state
from presage.simulator.semantics import Semantics
from presage.simulator.simulation import Simulation, simulate
from presage.simulator.variants import Scenario, Variant
from presage.simulator.whatif import Run, VariantOutcome, WhatIf, what_if

__all__ = [
    "Assessment",
    "Comparison",
    "Difference",
    "Estimate",
    "Forecast",
    "Jobs",
    "Metrics",
    "Nodes",
    "Outlook",
    "Partition",
    "PlacedJobs",
    "PlacedSimulation",
    "PresentState",
    "Run",
    "Scenario",
    "Semantics",
    "Simulation",
    "Spread",
    "Variant",
    "VariantOutcome",
    "WhatIf",
    "assess",
    "backlog",
    "compare",
    "gpu_fragmentation",
    "jobs_of",
    "measure",
    "on_equal_nodes",
    "parse_partitions",
    "partitions_of",
    "placed_jobs_of",
    "present_state",
    "queue_length",
    "simulate",
    "simulate_placed",
    "what_comes",
    "what_if",
]
