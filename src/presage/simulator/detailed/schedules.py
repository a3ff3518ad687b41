"""Detailed schedules as traces: the last run of every job, and all attempts of those that ran more than once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.simulator.placed import machine_of_nodes
from presage.traces.schema import ATTEMPTS, OUTCOME, STRINGS, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from presage.simulator.detailed.engine import Engine
    from presage.traces import Trace

    Records = NDArray[np.void]

# Codes of the engine.
DONE = 3
_TIMED_OUT = 1
_HOW = (Outcome.COMPLETED, Outcome.TIMEOUT, Outcome.NODE_FAILURE, Outcome.PREEMPTED)


def detailed_trace(trace: Trace, engine: Engine, stretches: Records, facts: Mapping[str, Any]) -> Trace:
    """Return `trace` with what an engine made of it; jobs that never started are pending.

    `stretches` are the engine's own; `facts` go to the manifest.
    """
    columns = _columns(trace, engine)
    ended = pl.Series(engine.jobs["status"] == DONE)
    table = trace.jobs.with_columns(
        **{name: pl.when(ended).then(values).otherwise(None) for name, values in columns.items()},
        outcome=_outcomes(trace, ended, stretches),
    )
    manifest = replace(
        trace.manifest,
        machine=machine_of_nodes(trace.nodes),
        synthetic_columns=(*columns, "outcome"),
        generator={**trace.manifest.generator, "simulated": dict(facts)},
    )
    return replace(trace, manifest=manifest, attempts=_attempts(stretches, trace.jobs["job_id"])).with_jobs(table)


def _columns(trace: Trace, engine: Engine) -> dict[str, pl.Series]:
    records = engine.jobs
    names = trace.nodes["node_id"].to_list()
    places = [list(dict.fromkeys(names[node] for node in engine.nodes_of(job))) for job in range(len(records))]
    return {
        "start_ms": pl.Series(records["start"]),
        "end_ms": pl.Series(records["end"]),
        "eligible_ms": pl.Series(records["eligible"]),
        "wait_s": pl.Series((records["first_start"] - records["submit"]) / 1000),
        "run_s": pl.Series((records["end"] - records["start"]) / 1000),
        "restarts": pl.Series(records["preemptions"] + records["failures"]),
        "node_list": pl.Series(places, dtype=STRINGS),
        "nodes_alloc": pl.Series([len(nodes) for nodes in places], dtype=pl.Int64),
    }


def _outcomes(trace: Trace, ended: pl.Series, stretches: Records) -> pl.Expr:
    """Return the outcomes: those of the trace, but for jobs that never ended or ran into their limit."""
    timed_out = np.zeros(len(trace.jobs), np.bool_)
    timed_out[stretches["job"][stretches["how"] == _TIMED_OUT]] = True
    own = (
        pl.when(pl.Series(timed_out))
        .then(pl.lit(Outcome.TIMEOUT.value))
        .otherwise(pl.col("outcome").cast(pl.String))
    )
    return pl.when(ended).then(own).otherwise(pl.lit(Outcome.PENDING.value)).cast(OUTCOME)


def _attempts(stretches: Records, ids: pl.Series) -> pl.DataFrame:
    """Return the stretches of running of all jobs that ran more than once."""
    outcomes = [outcome.value for outcome in _HOW]
    table = pl.DataFrame(
        {
            "job": stretches["job"].astype(np.int64),
            "job_id": ids[stretches["job"]],
            "start_ms": stretches["start"].astype(np.int64),
            "end_ms": stretches["end"].astype(np.int64),
            "outcome": pl.Series([outcomes[how] for how in stretches["how"]], dtype=OUTCOME),
        }
    )
    table = table.sort("job", "start_ms").filter(pl.len().over("job") > 1)
    numbered = table.with_columns(attempt=pl.int_range(pl.len()).over("job").cast(pl.Int64))
    return numbered.select(
        [
            pl.col(name) if name in numbered.columns else pl.lit(None, kind).alias(name)
            for name, kind in ATTEMPTS.items()
        ]
    )
