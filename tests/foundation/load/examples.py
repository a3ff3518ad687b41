"""Invented clusters for the tests of load forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from presage.foundation.load.jobs import LoadJobs, extract_jobs
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace, schema

HOUR_S = 3600.0


def busy_trace(days: int = 12, seed: int = 3, cpus: float | None = 32, **manifest: Any) -> Trace:
    """Return a trace with a daily rhythm, users with habits, waits, limits and a few cancelled jobs."""
    rng = np.random.default_rng(seed)
    jobs = []
    for hour in range(days * 24):
        rate = 1.0 + 0.8 * np.sin(2 * np.pi * hour / 24)
        for _ in range(rng.poisson(rate)):
            user = int(rng.integers(5))
            submit_s = float((hour + rng.random()) * HOUR_S)
            run_s = float(rng.lognormal(8.0 + 0.3 * user, 0.5))
            size = float(rng.choice([1, 2, 4, 8, 16]))
            wait_s = float(rng.exponential(2 * HOUR_S) * (rng.random() < 0.6))
            job = make_job(submit_s, wait_s, run_s, size, limit_s=float(np.ceil(run_s / 1800) * 3600))
            job |= {"user": f"user{user}", "partition": "wide" if size > 4 else "narrow", "outcome": "completed"}
            if rng.random() < 0.05:
                job |= {"start_ms": None, "run_s": None, "wait_s": None, "outcome": "cancelled"}
            jobs.append(job)
    return make_trace(*jobs, cpus=cpus, **manifest)


def jobs_in(trace: Trace) -> LoadJobs:
    """Return the processors that jobs of a trace hold."""
    return extract_jobs(trace.jobs, schema.size()).jobs


def scrambled_after(trace: Trace, now_ms: int, seed: int) -> Trace:
    """Return the trace with everything that was not known at an instant replaced by something else."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in trace.jobs.to_dicts():
        if row["submit_ms"] > now_ms:
            if rng.random() < 0.5:
                continue
            row |= {"submit_ms": now_ms + 1 + int(rng.integers(10**9)), "cpus_alloc": float(rng.integers(1, 33))}
            row |= {"user": "newcomer", "limit_s": None, "start_ms": None, "end_ms": None, "outcome": "pending"}
        start, end = row["start_ms"], row["end_ms"]
        if start is not None and start > now_ms:
            row["start_ms"] = start = now_ms + 1 + int(rng.integers(10**9))
            row["end_ms"] = end = start + int(rng.integers(10**8))
        elif end is not None and end > now_ms:
            row["end_ms"] = end = now_ms + 1 + int(rng.integers(10**9))
        if start is not None and end is not None:
            row |= {"run_s": (end - start) / 1000, "wait_s": (start - row["submit_ms"]) / 1000}
        rows.append(row)
    frame = pl.DataFrame(rows, schema=trace.jobs.schema)
    return Trace.create(frame, trace.manifest)
