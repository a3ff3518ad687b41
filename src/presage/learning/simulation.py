"""A whole trace under a policy that goes by forecasts: the schedule as a trace, with its metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.learning.cases import FEWEST_JOBS
from presage.learning.evaluation import name_of, starts_of
from presage.simulator.metrics import Metrics, measure
from presage.simulator.schedules import as_trace
from presage.simulator.semantics import Semantics
from presage.traces.manifest import Machine

if TYPE_CHECKING:
    from presage.learning.cases import Case
    from presage.learning.evaluation import AnyPolicy
    from presage.traces import Trace


@dataclass(frozen=True)
class ForecastSimulation:
    """What came out of one run, as of `simulate`."""

    policy: str
    processors: int
    trace: Trace
    """The jobs with simulated starts, ends and waits; a trace like any other."""
    metrics: Metrics
    engine_s: float
    """How long the engine took, forecasts not counted."""
    by_requests: float
    """The share of the time for which a policy that watches itself went by requests."""
    semantics: Semantics = Semantics.INSTANT

    @property
    def jobs_per_s(self) -> float:
        """How many jobs the engine scheduled per second."""
        return self.metrics.jobs / self.engine_s


def simulate_by_forecasts(trace: Trace, case: Case, policy: AnyPolicy) -> ForecastSimulation:
    """Schedule all jobs of a trace, of which `case` is what `case_of` made; jobs end at their limits.

    The order goes by forecasts, and EASY backfilling by requests, as in `evaluate_policy`.
    """
    starts_of(case.select(slice(FEWEST_JOBS)), policy)  # so that compiling is not measured
    begin = time.perf_counter()
    start_ms, by_requests = starts_of(case, policy)
    engine_s = time.perf_counter() - begin
    name = name_of(policy)
    facts = {"policy": name, "processors": case.processors, "kill": True, "semantics": Semantics.INSTANT.value}
    scheduled = as_trace(trace, case.jobs, start_ms, Machine(cpus=case.processors), facts)
    metrics = measure(case.jobs, start_ms, case.processors)
    return ForecastSimulation(name, case.processors, scheduled, metrics, engine_s, by_requests)
