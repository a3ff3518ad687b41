"""What would happen: a schedule for every job of a trace under a policy, exactly and fast.

Needs the extra `simulate`.
"""

from __future__ import annotations

from presage.simulator.jobs import Jobs, jobs_of
from presage.simulator.metrics import Metrics, measure
from presage.simulator.simulation import Simulation, simulate

__all__ = ["Jobs", "Metrics", "Simulation", "jobs_of", "measure", "simulate"]
