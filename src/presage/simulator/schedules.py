"""Schedules as traces, so that every tool for traces works on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.traces.schema import OUTCOME, STRINGS, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from presage.simulator.jobs import IntArray, Jobs
    from presage.traces import Machine, Trace

SCHEDULED = ("start_ms", "end_ms", "wait_s")
"""Columns that every simulation invents."""


def as_trace(
    trace: Trace,
    jobs: Jobs,
    start_ms: IntArray,
    machine: Machine,
    facts: Mapping[str, Any],
    places: Sequence[pl.Series] = (),
) -> Trace:
    """Return `trace` with the starts, ends and waits of a simulation instead of its own.

    `facts` go to the manifest; `facts["kill"]` says whether jobs end at their limit, a timeout then.
    `places` are columns that say where jobs ran; without them that is not known.
    """
    starts = pl.Series("start_ms", start_ms)
    runs = pl.Series("run_ms", jobs.run_ms)
    table = trace.jobs.with_columns(
        starts,
        *(places or [pl.Series("node_list", [None] * len(jobs), STRINGS)]),
        end_ms=starts + runs,
        wait_s=(starts - trace.jobs["submit_ms"]) / 1000,
        run_s=runs / 1000,
        eligible_ms=pl.lit(None, pl.Int64),
    )
    invented = [*SCHEDULED, *(column.name for column in places)]
    if facts["kill"]:
        killed = runs < (trace.jobs["run_s"] * 1000).round().cast(pl.Int64)
        timeout = pl.lit(Outcome.TIMEOUT.value).cast(OUTCOME)
        table = table.with_columns(outcome=pl.when(killed).then(timeout).otherwise("outcome"))
        invented += ["run_s", "outcome"]
    manifest = replace(
        trace.manifest,
        machine=machine,
        synthetic_columns=tuple(invented),
        generator={**trace.manifest.generator, "simulated": dict(facts)},
    )
    return replace(trace, manifest=manifest, attempts=trace.attempts.clear()).with_jobs(table)
