"""The event stream of a trace: everything that happened, in the order of time.

One row per event. `event` is one of `EVENTS`; `task` is null for the job as a whole; `attempt` counts the
stretches of running from 0; `outcome` tells apart the ways to end that share an event (a `fail` may be
`failed`, `out_of_memory` or `node_failure`).

Jobs whose log has attempts get their starts and ends from those; other jobs from the job table. Events of one
job at one instant keep their natural order (submit, eligible, start, end), jobs at one instant the order of the
job table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from presage.traces.schema import OUTCOME, Outcome

if TYPE_CHECKING:
    from presage.traces.trace import Trace

EVENTS = (
    "submit", "eligible", "start", "suspend", "resume", "evict", "requeue", "fail", "cancel", "timeout", "finish",
)  # fmt: skip
EVENT = pl.Enum(EVENTS)
SCHEMA = pl.Schema(
    {
        "time_ms": pl.Int64(),
        "event": EVENT,
        "job_id": pl.String(),
        "task": pl.Int64(),
        "attempt": pl.Int64(),
        "outcome": OUTCOME,
    }
)

_END_EVENT = {
    Outcome.COMPLETED: "finish",
    Outcome.FAILED: "fail",
    Outcome.OUT_OF_MEMORY: "fail",
    Outcome.NODE_FAILURE: "fail",
    Outcome.CANCELLED: "cancel",
    Outcome.TIMEOUT: "timeout",
    Outcome.PREEMPTED: "evict",
    Outcome.REQUEUED: "requeue",
    Outcome.SUSPENDED: "suspend",
}
_STEPS_PER_ATTEMPT = 3  # requeue, start, end
_FIRST_STEP = 2  # behind submit and eligible


def event_stream(trace: Trace) -> pl.DataFrame:
    """Return the events of `trace`, sorted by time."""
    jobs = trace.jobs.with_row_index("row")
    attempts = _numbered(trace.attempts, jobs)
    whole = attempts.filter(pl.col("task").is_null())
    last_end = whole.group_by("job_id").agg(
        last_end_ms=pl.col("end_ms").max(), last_attempt=pl.col("attempt").max()
    )
    alone = jobs.join(last_end, on="job_id", how="anti")
    resumed = jobs.join(last_end, on="job_id", how="inner")
    parts = [
        _at(jobs, "submit_ms", "submit", step=0),
        _at(jobs, "eligible_ms", "eligible", step=1),
        _at(alone, "start_ms", "start", step=_FIRST_STEP + 1, attempt=pl.lit(0)),
        _ends(alone, attempt=pl.lit(0)),
        _ends(resumed.filter(pl.col("end_ms") > pl.col("last_end_ms")), attempt=pl.col("last_attempt")),
        _requeues(attempts),
        _starts(attempts),
        _ends(attempts, attempt=pl.col("attempt")),
    ]
    stream = pl.concat(parts).sort("time_ms", "row", "step", maintain_order=True)
    return stream.select(SCHEMA.keys()).cast(SCHEMA)


def _numbered(attempts: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the attempts in order, with the job's row and what became of the attempt before."""
    ordered = attempts.join(jobs.select("job_id", "row"), on="job_id").sort(
        "row", "task", "attempt", maintain_order=True
    )
    member = ["job_id", "task"]
    return ordered.with_columns(
        previous_outcome=pl.col("outcome").shift(1).over(member),
        previous_end_ms=pl.col("end_ms").shift(1).over(member),
        again=pl.int_range(pl.len()).over(member) > 0,
    )


def _at(
    frame: pl.DataFrame, time: str, event: str, *, step: int | pl.Expr, attempt: pl.Expr | None = None
) -> pl.DataFrame:
    task = pl.col("task") if "task" in frame.columns else pl.lit(None, pl.Int64)
    return frame.filter(pl.col(time).is_not_null()).select(
        time_ms=pl.col(time),
        event=pl.lit(event, EVENT),
        job_id=pl.col("job_id"),
        task=task,
        attempt=(attempt if attempt is not None else pl.lit(None)).cast(pl.Int64),
        outcome=pl.lit(None, OUTCOME),
        row=pl.col("row"),
        step=pl.lit(step, pl.Int64) if isinstance(step, int) else step.cast(pl.Int64),
    )


def _step(offset: int) -> pl.Expr:
    return _FIRST_STEP + pl.col("attempt") * _STEPS_PER_ATTEMPT + offset


def _starts(attempts: pl.DataFrame) -> pl.DataFrame:
    resumes = (pl.col("previous_outcome") == Outcome.SUSPENDED.value).fill_null(value=False)
    attempt = pl.col("attempt")
    return pl.concat(
        [
            _at(attempts.filter(~resumes), "start_ms", "start", step=_step(1), attempt=attempt),
            _at(attempts.filter(resumes), "start_ms", "resume", step=_step(1), attempt=attempt),
        ]
    )


def _requeues(attempts: pl.DataFrame) -> pl.DataFrame:
    """Return when evicted, failed… members went back into the queue; known requeues are ends already."""
    back = attempts.filter(
        pl.col("again")
        & ~pl.col("previous_outcome")
        .is_in([Outcome.SUSPENDED.value, Outcome.REQUEUED.value])
        .fill_null(value=False)
    ).with_columns(back_ms=pl.coalesce("queued_ms", "previous_end_ms"))
    return _at(back, "back_ms", "requeue", step=_step(0), attempt=pl.col("attempt"))


def _ends(frame: pl.DataFrame, attempt: pl.Expr) -> pl.DataFrame:
    over = frame.filter(
        ~pl.col("outcome").is_in([Outcome.RUNNING.value, Outcome.PENDING.value]).fill_null(value=False)
    )
    words = {outcome.value: event for outcome, event in _END_EVENT.items()}
    event = pl.col("outcome").cast(pl.String).replace_strict(words, default="finish", return_dtype=EVENT)
    step = _FIRST_STEP + attempt.cast(pl.Int64) * _STEPS_PER_ATTEMPT + 2
    ends = _at(over, "end_ms", "finish", step=step, attempt=attempt)
    known = over.filter(pl.col("end_ms").is_not_null()).select(event=event, outcome=pl.col("outcome"))
    return ends.with_columns(known["event"], known["outcome"])
