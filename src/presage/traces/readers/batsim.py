"""Batsim workloads: one JSON document with `nb_res`, `jobs` and the `profiles` they run.

A job's run time is its profile's delay where that is all the profile does; what computes and communicates runs
as long as the simulated platform makes it. Workloads are made up, so the trace is marked as synthetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.manifest import Machine
from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import json_document, records
from presage.traces.readers._times import OWN_ZERO, milliseconds

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_DELAYS = {"delay", "DelayProfile"}


class BatsimReader(Reader):
    """Workloads of the Batsim simulator."""

    format = "batsim"

    def match(self, head: Head) -> int:
        start = head.text.lstrip()[:1]
        return SURE if start == "{" and '"jobs"' in head.text and '"subtime"' in head.text else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        document = json_document(source)
        jobs = document.get("jobs") if isinstance(document, dict) else None
        if not isinstance(jobs, list):
            raise UnreadableSourceError(
                f"{source.name} is no Batsim workload",
                expected='an object with "jobs" and "profiles"',
                remedy="Check the file, or name the right --format",
            )
        profiles = document.get("profiles")
        good = []
        for number, job in enumerate(jobs, start=1):
            if isinstance(job, dict):
                good.append((number, {**job, **_profile(job, profiles)}))
            else:
                into.reject(source.name, None, f"job {number} is no object", str(job))
        _describe(document, into)
        if good:
            _pour(good, source, into)
        return len(jobs)


def _profile(job: dict[str, Any], profiles: Any) -> dict[str, Any]:
    """Return what the job's profile says: its type and, if it only waits, for how long."""
    profile = profiles.get(str(job.get("profile"))) if isinstance(profiles, dict) else None
    if not isinstance(profile, dict):
        return {}
    kind = str(profile.get("type"))
    return {"kind": kind, "run_s": profile.get("delay") if kind in _DELAYS else None}


def _describe(document: dict[str, Any], into: TraceBuilder) -> None:
    machines = document.get("nb_res")
    if isinstance(machines, int) and 0 < machines < 2**62:
        into.describe(machine=Machine(cpus=machines))
    into.describe(absolute_time=False, synthetic=True)
    into.note(OWN_ZERO)


def _pour(good: list[tuple[int, dict[str, Any]]], source: Source, into: TraceBuilder) -> None:
    cells = records(good, source, into)
    limit = cells.number("walltime")
    into.add_jobs(
        cells.frame(
            job_id=cells.required("id"),
            executable=cells.text("profile"),
            kind=cells.text("kind"),
            user=cells.text("user"),
            submit_ms=milliseconds(cells.seconds("subtime")),
            run_s=cells.seconds("run_s"),
            limit_s=pl.when(limit >= 0).then(limit),  # -1 stands for none
            cpus_req=cells.count("res"),
        )
    )
