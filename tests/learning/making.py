"""Small cases of our own making, for tests of what is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from presage.learning.cases import Case
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.jobs import jobs_of
from presage.traces.workloads import make_model


def make_case(
    *, seed: int = 0, jobs: int = 600, load: float = 0.9, users: int = 12, processors: int = 64, noise: float = 0.5
) -> Case:
    """Return generated jobs with forecasts that are off by a factor of about exp(`noise`)."""
    settings = {"users": users, "load": load, "processors": processors, "estimate": "modal"}
    trace = make_model("lublin", settings).generate(jobs, seed=seed)
    of_trace = jobs_of(trace, kill=True)
    # Two forecasts of the same runs, so that the expected and the typical run are not the same.
    factors = np.exp(np.random.default_rng(seed).normal(0, noise, (2, len(of_trace))))
    expected, typical = (
        RunForecasts.certain(np.minimum(of_trace.run_ms / 1000 * factor, of_trace.limit_ms / 1000))
        for factor in factors
    )
    forecasts = replace(expected, inverse=typical.inverse)
    user = trace.jobs["user"].rank("dense").to_numpy().astype(np.int64) - 1
    return Case(f"made-{seed}", of_trace, processors, user, forecasts)
