from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from presage.foundation.anomalies.injection import furnish
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace
from presage.traces.workloads import make_model

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def steady(count: int = 400, *, users: int = 4, every_s: float = 1800.0) -> list[dict[str, Any]]:
    """Return jobs of users a, b, c… that arrive evenly, wait a minute and run for about an hour."""
    rng = np.random.default_rng(1)
    common = {"limit_s": 7200.0, "outcome": "completed", "partition": "batch"}
    runs_s = np.round(3600 * np.exp(rng.normal(0, 0.1, count))).tolist()
    return [
        make_job(number * every_s, 60, run_s, cpus=4, user="abcdefgh"[number % users], **common)
        for number, run_s in enumerate(runs_s)
    ]


def on_nodes(jobs: list[dict[str, Any]], nodes: int = 20, width: int = 1) -> list[dict[str, Any]]:
    """Return the jobs with neighbouring nodes n000, n001, … drawn for each."""
    rng = np.random.default_rng(2)
    for job in jobs:
        first = int(rng.integers(nodes))
        job["node_list"] = [f"n{(first + each) % nodes:03d}" for each in range(width)]
    return jobs


@pytest.fixture(scope="session")
def furnished() -> Trace:
    """A generated workload of 40 users on 32 nodes; jobs start as they come."""
    model = make_model("lublin", {"processors": 256, "load": 0.5, "users": 40, "estimate": "modal"})
    trace = model.generate(6000, seed=3)
    wait_s = np.random.default_rng(4).exponential(600, len(trace)).round()
    waited = pl.Series("wait_s", wait_s)
    jobs = trace.jobs.with_columns(waited, start_ms=pl.col("submit_ms") + (waited * 1000).cast(pl.Int64))
    return furnish(trace.with_jobs(jobs), nodes=32, cpus_per_node=8, seed=5)


def trace_of(jobs: list[dict[str, Any]], **manifest: Any) -> Trace:
    return make_trace(*jobs, **manifest)
