"""What is known of a cluster at one instant, as arrays with one entry per job; nan is unknown."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.foundation.anomalies._base import EVIDENCE
from presage.foundation.anomalies._history import Bools, Floats, Ints, codes_of
from presage.simulator.present import instant
from presage.traces.schema import Outcome, gpus, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.foundation.anomalies._runs import Runs, Touches
    from presage.foundation.anomalies.expectations import ExpectedRuns
    from presage.traces import Trace

FAILURES = [Outcome.FAILED.value, Outcome.NODE_FAILURE.value, Outcome.OUT_OF_MEMORY.value]
"""Outcomes that count as failures; who cancels, is preempted or meets a limit has not failed."""
_UNFINISHED = [Outcome.RUNNING.value, Outcome.PENDING.value]
_RUN_MS = pl.col("run_s") * 1000


@dataclass
class Knowledge:
    """The jobs of a trace as detectors see them. `explained` is filled while detectors run."""

    trace: Trace
    min_score: float
    expected_runs: Callable[[Trace], ExpectedRuns]
    explained: dict[str, Bools] = field(init=False)
    """By family of detectors, the jobs that have been told of."""

    def __post_init__(self) -> None:
        self.explained = defaultdict(lambda: np.zeros(len(self.trace), np.bool_))

    def __len__(self) -> int:
        return len(self.trace)

    @cached_property
    def expected(self) -> ExpectedRuns:
        """How long each job could be expected to run when it began."""
        return self.expected_runs(self.trace)

    @cached_property
    def runs(self) -> Runs:
        """The stretches of running that ended well or badly."""
        from presage.foundation.anomalies._runs import runs_of

        return runs_of(self)

    @cached_property
    def touches(self) -> Touches:
        """Which of the runs touched which node."""
        from presage.foundation.anomalies._runs import touches_of

        return touches_of(self.runs)

    @cached_property
    def submit_ms(self) -> Floats:
        """When jobs were submitted."""
        return self.floats(pl.col("submit_ms"))

    @cached_property
    def queued_ms(self) -> Floats:
        """When jobs began to wait for the scheduler alone: when they became eligible, if the log says so."""
        return self.floats(pl.max_horizontal("eligible_ms", "submit_ms"))

    @cached_property
    def start_ms(self) -> Floats:
        """When jobs began to run; the start of a pending job is a plan and does not count."""
        began = pl.coalesce(pl.col("start_ms").cast(pl.Float64), pl.col("end_ms") - _RUN_MS)
        return self.floats(pl.when(self._is(Outcome.PENDING).not_()).then(began))

    @cached_property
    def end_ms(self) -> Floats:
        """When jobs ended; unknown for those that have not. Where a log has no starts, as if none had waited."""
        told = pl.col("end_ms").cast(pl.Float64)
        ended = pl.coalesce(told, pl.col("start_ms") + _RUN_MS, pl.col("submit_ms") + _RUN_MS)
        finished = pl.col("outcome").is_in(_UNFINISHED).not_().fill_null(value=True)
        return self.floats(pl.when(finished).then(ended))

    @cached_property
    def now_ms(self) -> float:
        """The latest instant that the trace tells of; nan if it tells of none."""
        instants = np.concatenate([self.submit_ms, self.start_ms, self.end_ms])
        return float(np.nanmax(instants)) if np.isfinite(instants).any() else float("nan")

    @cached_property
    def run_s(self) -> Floats:
        """How long jobs ran, so far where they still do; unknown where the clock jumped back."""
        done = self.floats(pl.col("run_s"))
        told = (self.end_ms - self.start_ms) / 1000
        lasting = np.where(self.running, (self.now_ms - self.start_ms) / 1000, np.nan)
        run = np.where(np.isfinite(done) & ~self.running, done, np.where(np.isfinite(told), told, lasting))
        return np.where(run >= 0, run, np.nan)

    @cached_property
    def running(self) -> Bools:
        """Jobs that have begun and not ended."""
        return self.flags(self._is(Outcome.RUNNING)) & np.isfinite(self.start_ms)

    @cached_property
    def last_ms(self) -> Floats:
        """When jobs ended, or now where they still run."""
        return np.where(self.running, self.now_ms, self.end_ms)

    @cached_property
    def begin_ms(self) -> Floats:
        """When the runs of `run_s` began."""
        return self.last_ms - self.run_s * 1000

    @cached_property
    def failed(self) -> Bools:
        """Jobs that ended by failing."""
        return self.flags(pl.col("outcome").is_in(FAILURES))

    @cached_property
    def completed(self) -> Bools:
        """Jobs that ended well, as far as the log tells."""
        well = pl.col("outcome") == Outcome.COMPLETED.value
        return self.flags(well.fill_null(value=True)) & np.isfinite(self.end_ms)

    @cached_property
    def cpus(self) -> Floats:
        """The processors that jobs occupy."""
        return self.floats(size())

    @cached_property
    def gpus(self) -> Floats:
        """The GPUs that jobs occupy."""
        return self.floats(gpus())

    @cached_property
    def users(self) -> Ints:
        """A number for each user; jobs without one have the same."""
        return codes_of(self.trace.jobs, "user")

    @cached_property
    def places(self) -> Ints:
        """A number for each cluster, partition and queue."""
        return codes_of(self.trace.jobs, "cluster", "partition", "queue")

    def floats(self, column: pl.Expr) -> Floats:
        """Return a column as floats; null and what is not finite is nan."""
        values = self.trace.jobs.select(column.cast(pl.Float64).alias("value"))["value"]
        array = values.fill_null(float("nan")).to_numpy().astype(np.float64)
        array[~np.isfinite(array)] = np.nan
        return array

    def flags(self, condition: pl.Expr) -> Bools:
        """Return a condition for each job; null is False."""
        values = self.trace.jobs.select(condition.fill_null(value=False).alias("value"))["value"]
        return values.to_numpy().astype(np.bool_)

    def text(self, column: str, row: int, default: str = "?") -> str:
        """Return one cell as text."""
        value = self.trace.jobs[column][row]
        return default if value is None else str(value)

    def place_name(self, row: int) -> tuple[str, str]:
        """Return what sort of place a job was submitted to, and its name."""
        for sort in ("partition", "queue", "cluster"):
            if self.trace.jobs[sort][row] is not None:
                return sort, self.text(sort, row)
        return "cluster", self.trace.manifest.name or "the cluster"

    def instant(self, at_ms: float) -> str:
        """Return an instant as a person reads it."""
        return instant(self.trace, at_ms)

    def between(self, start_ms: float, end_ms: float) -> str:
        """Return a stretch of time as a person reads it."""
        return f"between {self.instant(start_ms)} and {self.instant(end_ms)}"

    def ids(self, rows: Ints) -> tuple[str, ...]:
        """Return the ids of the first rows, each once."""
        distinct = np.array(list(dict.fromkeys(rows[: 50 * EVIDENCE].tolist())), np.int64)[:EVIDENCE]
        return tuple(self.trace.jobs["job_id"].gather(distinct).to_list())

    @staticmethod
    def _is(outcome: Outcome) -> pl.Expr:
        return (pl.col("outcome") == outcome.value).fill_null(value=False)
