"""The canonical tables of a trace.

Rules that hold in every table: missing is null, never a sentinel; times are int64 milliseconds (UTC, or from
the log's own zero where the manifest says so); durations are float seconds; memory is bytes of the whole job;
processor and GPU counts may be fractional; what was requested, allocated and used stays apart.

A log may know more than these columns say. Such leftovers keep their own names behind the prefix `x_`.
`SCHEMA_VERSION` goes up whenever a column changes its meaning.
"""

from __future__ import annotations

from enum import StrEnum

import polars as pl

from presage.errors import MalformedTraceError

SCHEMA_VERSION = 1
EXTRA_PREFIX = "x_"


class Outcome(StrEnum):
    """How a job or an attempt stands or ended; null where the log does not say."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAILURE = "node_failure"
    PREEMPTED = "preempted"
    """Evicted or preempted by the scheduler, and not run again (jobs) or run again later (attempts)."""
    REQUEUED = "requeued"
    """Attempts only: put back into the queue by a person or a prologue failure."""
    SUSPENDED = "suspended"
    """Attempts only: the next attempt resumes it."""
    RUNNING = "running"
    PENDING = "pending"


OUTCOME = pl.Enum([outcome.value for outcome in Outcome])
STRINGS = pl.List(pl.String)

JOBS = pl.Schema(
    {
        # Who it is. `job_id` is unique within a trace.
        "job_id": pl.String(),
        "array_id": pl.String(),
        "array_task": pl.Int64(),
        "het_id": pl.String(),  # heterogeneous jobs share it
        "het_offset": pl.Int64(),
        "name": pl.String(),
        "executable": pl.String(),
        "kind": pl.String(),  # what sort of work, in the log's own words: pod role, job type
        "user": pl.String(),
        "group": pl.String(),
        "account": pl.String(),  # project
        "cluster": pl.String(),
        "queue": pl.String(),
        "partition": pl.String(),  # also: virtual cluster, grid site
        "qos": pl.String(),
        "priority": pl.Float64(),
        # When. `wait_s` and `run_s` are stored because some logs give a run time and no start.
        "submit_ms": pl.Int64(),
        "eligible_ms": pl.Int64(),
        "start_ms": pl.Int64(),  # of the last attempt
        "end_ms": pl.Int64(),
        "wait_s": pl.Float64(),  # start - submit
        "run_s": pl.Float64(),  # end - start, suspensions included
        "suspended_s": pl.Float64(),
        "deadline_ms": pl.Int64(),
        # What was asked for.
        "limit_s": pl.Float64(),  # requested wall time
        "cpus_req": pl.Float64(),
        "nodes_req": pl.Int64(),
        "tasks": pl.Int64(),  # members of a gang: pods, instances, MPI tasks
        "gpus_req": pl.Float64(),
        "gpu_type_req": pl.String(),  # alternatives as A100|H100
        "mem_req_bytes": pl.Int64(),
        "constraint": pl.String(),
        "preemptible": pl.Boolean(),
        # What it got.
        "cpus_alloc": pl.Float64(),
        "nodes_alloc": pl.Int64(),
        "gpus_alloc": pl.Float64(),
        "gpu_type": pl.String(),
        "mem_alloc_bytes": pl.Int64(),
        "node_list": STRINGS,
        # What it used.
        "cpu_used_s": pl.Float64(),  # CPU seconds of all processors together
        "mem_used_bytes": pl.Int64(),  # peak; a lower bound where the log knows only one process's peak
        "gpu_used_s": pl.Float64(),
        # How it ended.
        "outcome": OUTCOME,
        "status": pl.String(),  # the log's own word or number
        "exit_code": pl.Int64(),
        "signal": pl.Int64(),
        "restarts": pl.Int64(),
    }
)

ATTEMPTS = pl.Schema(
    {
        # One row per stretch of running. A job whose log shows only its last run has no rows here.
        "job_id": pl.String(),
        "task": pl.Int64(),  # member of a gang; null for the job as a whole
        "attempt": pl.Int64(),  # 0, 1, … per job and task
        "queued_ms": pl.Int64(),
        "start_ms": pl.Int64(),
        "end_ms": pl.Int64(),
        "outcome": OUTCOME,
        "status": pl.String(),
        "exit_code": pl.Int64(),
        "node_list": STRINGS,
        "cpus": pl.Float64(),
        "gpus": pl.Float64(),
        "mem_bytes": pl.Int64(),
    }
)

EDGES = pl.Schema(
    {
        # `job_id` may start only after something happened to `depends_on`.
        "job_id": pl.String(),
        "depends_on": pl.String(),
        "kind": pl.String(),  # after, afterok, afterany, afternotok, think (SWF), singleton
        "delay_s": pl.Float64(),
    }
)

NODES = pl.Schema(
    {
        "node_id": pl.String(),
        "node_type": pl.String(),
        "cpus": pl.Float64(),
        "mem_bytes": pl.Int64(),
        "gpus": pl.Float64(),
        "gpu_type": pl.String(),
        "gpu_mem_bytes": pl.Int64(),  # of one GPU
        "rack": pl.String(),
        "partitions": STRINGS,
        "features": STRINGS,
        "speed": pl.Float64(),  # relative to 1
        "from_ms": pl.Int64(),  # in service since; null: all along
        "to_ms": pl.Int64(),
    }
)

SNAPSHOTS = pl.Schema(
    {
        # What a node had free and used at one time.
        "time_ms": pl.Int64(),
        "node_id": pl.String(),
        "state": pl.String(),
        "cpus_free": pl.Float64(),
        "cpus_used": pl.Float64(),
        "mem_free_bytes": pl.Int64(),
        "mem_used_bytes": pl.Int64(),
        "gpus_free": pl.Float64(),
        "gpus_used": pl.Float64(),
    }
)

REJECTS = pl.Schema(
    {
        # Rows of the log that could not be read, and why.
        "file": pl.String(),
        "line": pl.Int64(),
        "reason": pl.String(),
        "text": pl.String(),  # its beginning
    }
)

TABLES = {
    "jobs": JOBS,
    "attempts": ATTEMPTS,
    "edges": EDGES,
    "nodes": NODES,
    "snapshots": SNAPSHOTS,
    "rejects": REJECTS,
}


def empty(table: str) -> pl.DataFrame:
    """Return the table called `table` with no rows."""
    return pl.DataFrame(schema=TABLES[table])


def conform(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """Return `frame` with all columns of `table` in order and of the right type, absent ones null.

    Columns named `x_…` are kept behind them. Raises MalformedTraceError for any other column and for a value
    that the column's type cannot hold.
    """
    schema = TABLES[table]
    extras = [name for name in frame.columns if name not in schema]
    stray = [name for name in extras if not name.startswith(EXTRA_PREFIX)]
    if stray:
        raise MalformedTraceError(
            f"The {table} table has no column {stray[0]!r}",
            expected=f"columns of schema version {SCHEMA_VERSION}, or names that begin with {EXTRA_PREFIX!r}",
            remedy=f"Rename it to {EXTRA_PREFIX + stray[0]!r} to keep it",
        )
    present = frame.schema
    columns = [
        pl.lit(None, dtype).alias(name)
        if name not in present
        else (pl.col(name) if present[name] == dtype else pl.col(name).cast(dtype))
        for name, dtype in schema.items()
    ]
    try:
        return frame.select(*columns, *extras) if len(frame) else _conform_empty(frame, schema, extras)
    except pl.exceptions.PolarsError as error:
        raise MalformedTraceError(
            f"A column of the {table} table has values of the wrong type: {error}",
            expected=f"the types of schema version {SCHEMA_VERSION}",
        ) from None


def _conform_empty(frame: pl.DataFrame, schema: pl.Schema, extras: list[str]) -> pl.DataFrame:
    # A select of literals alone would give one row, not none.
    return pl.DataFrame(schema={**schema, **{name: frame.schema[name] for name in extras}})


def size() -> pl.Expr:
    """Return the processors a job occupies: the larger of allocated and requested; null if neither is known."""
    return pl.max_horizontal("cpus_alloc", "cpus_req")


def gpus() -> pl.Expr:
    """Return the GPUs a job occupies: allocated where known, else requested."""
    return pl.coalesce("gpus_alloc", "gpus_req")
