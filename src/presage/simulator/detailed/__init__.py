"""A cluster in which things happen: failures, drains, preemption, dependencies, speeds that depend on places.

The engines of `presage.simulator` are many times faster and know none of this; without conditions all agree.
"""

from __future__ import annotations

from presage.simulator.detailed.conditions import (
    Checkpoints,
    Conditions,
    Drain,
    Failures,
    Override,
    read_conditions,
)
from presage.simulator.detailed.simulation import DetailedSimulation, Disruptions, simulate_detailed
from presage.simulator.detailed.throughput import KindSpeeds, Throughput

__all__ = [
    "Checkpoints",
    "Conditions",
    "DetailedSimulation",
    "Disruptions",
    "Drain",
    "Failures",
    "KindSpeeds",
    "Override",
    "Throughput",
    "read_conditions",
    "simulate_detailed",
]
