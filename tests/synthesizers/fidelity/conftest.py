from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from presage.testing.traces import make_job, make_trace
from presage.traces import Trace

SIZES, LIMITS_S = (1.0, 4.0, 16.0, 64.0), (600.0, 3600.0, 14_400.0)


def make_log(jobs: int, seed: int = 0, *, start_s: float = 0.0, **manifest: Any) -> Trace:
    """Return jobs of people who work in sessions and repeat themselves, on a machine of 128 processors."""
    rng = np.random.default_rng(seed)
    rows = []
    now_s = start_s
    while len(rows) < jobs:
        now_s += float(rng.exponential(1800))
        user = int(rng.integers(8))
        size, limit_s = SIZES[user % 4], LIMITS_S[user % 3]
        for _ in range(min(int(rng.geometric(0.3)), jobs - len(rows))):
            now_s += float(rng.integers(5, 120))
            run_s = float(np.rint(min(limit_s, rng.lognormal(np.log(limit_s / 8), 0.8))))
            rows.append(
                make_job(
                    round(now_s), 0, run_s, size, user=f"p{user}", queue=f"q{user % 2}", limit_s=limit_s,
                    outcome="completed" if rng.random() < 0.8 else "failed",
                )
            )  # fmt: skip
    return make_trace(*rows, cpus=128, **manifest)


def shuffled(trace: Trace, seed: int = 0) -> Trace:
    """Return the same rows, each with its gap, in another order."""
    order = np.random.default_rng(seed).permutation(len(trace))
    submit_ms = trace.jobs["submit_ms"].to_numpy()
    gaps = np.diff(submit_ms, prepend=submit_ms[0])[order]
    jobs = trace.jobs[order].with_columns(pl.Series("submit_ms", submit_ms[0] + np.cumsum(gaps)))
    return Trace.create(jobs, trace.manifest)


def numbered(trace: Trace) -> Trace:
    """Return the trace as if a synthesizer had made it: people numbered in the order in which they appear."""
    names = trace.jobs["user"].unique(maintain_order=True).to_list()
    numbers = {name: f"u{place}" for place, name in enumerate(names, 1)}
    manifest = replace(trace.manifest, synthetic=True, generator={"synthesizer": "none", "seed": 0})
    jobs = trace.jobs.with_columns(pl.col("user").replace_strict(numbers))
    return Trace.create(jobs, manifest)


@pytest.fixture(scope="session")
def log() -> Trace:
    """A log of 600 jobs."""
    return make_log(600)


@pytest.fixture(scope="session")
def later(log: Trace) -> Trace:
    """Jobs of the same people after those of the log."""
    return make_log(600, seed=1, start_s=log.jobs["submit_ms"][-1] / 1000 + 60)
