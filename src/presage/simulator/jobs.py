"""The jobs of a simulation as the arrays that the engine wants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError, UsageError
from presage.traces.schema import size

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.traces import Trace

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]
    Knowledge = str | Callable[[Trace], FloatArray]
    """Where decisions get run times: one of KNOWLEDGE, a column of seconds, or a function that predicts."""

KNOWLEDGE = ("requested", "actual")
"""What decisions may know of a job's run time besides a column of predictions."""


@dataclass(frozen=True)
class Jobs:
    """Arrays of one length, in submit order."""

    submit_ms: IntArray
    run_ms: IntArray
    """How long the job will really hold its processors."""
    limit_ms: IntArray
    """How long it may at most; the run time where the log knows no limit."""
    estimate_ms: IntArray
    """What the order believes its run time to be."""
    plan_ms: IntArray
    """What reservations count with."""
    processors: IntArray
    origin_ms: int = 0
    """The log's own zero, for rules that use the submit second."""

    def __len__(self) -> int:
        return len(self.submit_ms)

    def select(self, rows: IntArray | slice) -> Jobs:
        """Return some of the jobs, which must stay in submit order."""
        names = ("submit_ms", "run_ms", "limit_ms", "estimate_ms", "plan_ms", "processors")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def jobs_of(
    trace: Trace, *, order_by: Knowledge = "requested", plan_by: Knowledge = "requested", kill: bool = False
) -> Jobs:
    """Return the jobs of a trace that has a submit time, a run time and a size for every job.

    `order_by` and `plan_by` say what decisions know: "requested" (the limit, or the run time where there is
    none), "actual", the name of a column with predicted seconds, or a function of the trace that returns them.
    With `kill`, jobs end at their limit. Raises InputError if jobs lack something, naming the cleaning rules that
    help.
    """
    frame = trace.jobs.select("submit_ms", "run_s", "limit_s", cpus=size())
    _check_complete(frame)
    run_s = frame["run_s"].to_numpy()
    limit_s = frame.select(pl.coalesce("limit_s", "run_s")).to_series().to_numpy()
    known = {"requested": limit_s, "actual": run_s}
    if kill:
        run_s = np.minimum(run_s, limit_s)
    return Jobs(
        submit_ms=frame["submit_ms"].to_numpy().astype(np.int64),
        run_ms=_milliseconds(run_s),
        limit_ms=_milliseconds(limit_s),
        estimate_ms=_milliseconds(_knowledge(trace, order_by, known)),
        plan_ms=_milliseconds(_knowledge(trace, plan_by, known)),
        processors=np.ceil(frame["cpus"].to_numpy()).astype(np.int64),
        origin_ms=trace.manifest.origin_ms,
    )


def _check_complete(frame: pl.DataFrame) -> None:
    lacking = frame.select(
        submit=pl.col("submit_ms").is_null().sum(),
        run=(pl.col("run_s").is_null() | (pl.col("run_s") < 0)).sum(),
        size=(pl.col("cpus").is_null() | (pl.col("cpus") <= 0)).sum(),
    ).row(0, named=True)
    problems = [f"{count:,} jobs have no {what}" for what, count in lacking.items() if count]
    if problems:
        raise InputError(
            f"The trace cannot be simulated: {', '.join(problems)}",
            expected="a submit time, a run time and a size for every job",
            remedy="Clean it first: --clean archive, or the rules drop-unsubmitted, drop-unrun, drop-sizeless",
        )
    if not len(frame):
        raise InputError("The trace has no jobs to simulate")


def _knowledge(trace: Trace, source: Knowledge, known: dict[str, FloatArray]) -> FloatArray:
    if not isinstance(source, str):
        return _predicted(trace, source)
    if source in known:
        return known[source]
    if source not in trace.jobs.columns or not trace.jobs.schema[source].is_numeric():
        raise UsageError(
            f"Run times cannot be taken from {source!r}",
            expected=f"{', '.join(KNOWLEDGE)}, or a numeric job column of predicted seconds",
        )
    column = trace.jobs[source]
    if column.null_count():
        raise InputError(f"The column {source!r} lacks a value for {column.null_count():,} jobs")
    return column.to_numpy().astype(np.float64)


def _predicted(trace: Trace, predict: Callable[[Trace], FloatArray]) -> FloatArray:
    seconds = np.asarray(predict(trace), np.float64)
    if seconds.shape != (len(trace),) or not np.isfinite(seconds).all():
        raise UsageError(
            f"The function that predicts run times gave {seconds.shape} values, or some that are no numbers",
            expected=f"{len(trace):,} finite seconds, one for each job",
        )
    return seconds


def _milliseconds(seconds: FloatArray) -> IntArray:
    return np.maximum(np.round(seconds * 1000), 1).astype(np.int64)
