"""Small traces for tests, written as rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from presage.traces import Machine, Manifest, Trace
from presage.traces.schema import JOBS


def make_trace(*jobs: dict[str, Any], cpus: float | None = None, **manifest: Any) -> Trace:
    """Return a trace of these jobs; ids are numbered from 1 where not given, other columns are null.

    `cpus` is the machine's size; further names set fields of the manifest.
    """
    rows = [{"job_id": str(number), **job} for number, job in enumerate(jobs, start=1)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    frame = pl.DataFrame(rows, schema={name: JOBS.get(name, pl.String()) for name in names}, orient="row")
    described = replace(Manifest(machine=Machine(cpus=cpus)), **manifest)
    return Trace.create(frame, described)


def make_job(submit_s: float, wait_s: float, run_s: float, cpus: float = 1, **columns: Any) -> dict[str, Any]:
    """Return a job that waited and ran, with consistent times."""
    submit_ms, start_ms = round(submit_s * 1000), round((submit_s + wait_s) * 1000)
    return {
        "submit_ms": submit_ms,
        "start_ms": start_ms,
        "end_ms": start_ms + round(run_s * 1000),
        "wait_s": wait_s,
        "run_s": run_s,
        "cpus_alloc": cpus,
        **columns,
    }
