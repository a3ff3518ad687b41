"""Memory of a batch script, from what it used before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.history.limits import SURE_SHARE
from presage.estimators.history.matching import Match, matches, past_of
from presage.estimators.history.samples import Samples
from presage.traces.schema import Outcome
from presage.wording import counted

if TYPE_CHECKING:
    from presage.clusters.charges import Share

HEADROOM = 1.2
"""Peaks between two looks of the scheduler, 30 s apart as a rule, are not in what it writes down."""
AFTER_OUT_OF_MEMORY = 1.5
USUAL_FACTOR = 1.3
"""Within this factor of their median lie 80 % of the peaks of one script, before any are known."""
_MIB, _GIB = 1 << 20, 1 << 30
_STEPS_BYTES = ((_GIB, 64 * _MIB), (4 * _GIB, 256 * _MIB), (64 * _GIB, _GIB), (math.inf, 8 * _GIB))
_FULL_RUNS = (Outcome.COMPLETED.value, Outcome.TIMEOUT.value)


class HistoryMemory(Estimator):
    """Peaks of memory of the same script, arguments and commit; then of the same script; then of its name.

    What the log says of a job counts for each of its nodes. `details` has the level that matched, how many runs it
    rests on, `p95_bytes` and an amount to ask for on a node, `suggested_bytes`: None where the log knows the
    largest of several processes alone, so that less than before cannot be advised.
    """

    name = "history-memory"
    quantity = Quantity.MEMORY

    def estimate(self, request: EstimateRequest) -> Estimate:
        workload, trace = past_of(request, self.knowledge)
        share = request.target.share if request.target else None
        for match in matches(trace, workload, share):
            runs = measured_runs(match.jobs)
            if len(runs):
                return self._of_runs(runs, match, share)
        raise UnsupportedError("No earlier run of this script is known with the memory it used")

    def _of_runs(self, runs: pl.DataFrame, match: Match, share: Share | None) -> Estimate:
        short = runs.filter(ran_out_of_memory())
        samples = Samples(runs["mem_used_bytes"].to_list(), USUAL_FACTOR)
        sure = samples.quantile(SURE_SHARE)
        needed = HEADROOM * sure
        notes = [
            f"From {counted(len(runs), 'earlier run')} of the {match.likeness.value}",
            "Lower bounds: the scheduler looks now and then, and at the largest process of a job of several tasks",
        ]
        if not match.same_size:
            notes.append("Some of them had another number of processors or GPUs")
        if len(short):
            needed = max(needed, AFTER_OUT_OF_MEMORY * float(short["mem_used_bytes"].max() or 0))  # type: ignore[arg-type]
            notes.append(f"{len(short):,} of them ran out of memory and would have used more")
        several = bool(runs.select((pl.col("tasks") > pl.coalesce("nodes_alloc", "nodes_req", 1)).any()).item())
        details = {
            "level": match.likeness.value, "runs": len(runs), "out_of_memory": len(short), "p95_bytes": sure,
            "suggested_bytes": None if several else rounded_bytes(needed),
        }  # fmt: skip
        return Estimate(
            self.quantity, samples.spread(), Basis.HISTORY, self.name, self.version, tuple(notes), details
        )


def measured_runs(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs whose peak is known and that came far enough to have one, or ran out of memory."""
    known = jobs.filter(pl.col("mem_used_bytes") > 0)
    whole = pl.col("outcome").is_null() | pl.col("outcome").is_in(_FULL_RUNS)
    return known.filter(whole | ran_out_of_memory())


def ran_out_of_memory() -> pl.Expr:
    """Return which jobs ended for want of memory; some schedulers only say that such a job failed."""
    killed = (pl.col("outcome") == Outcome.FAILED.value) & (
        pl.col("mem_used_bytes") >= pl.coalesce("mem_req_bytes", "mem_alloc_bytes")
    )
    return ((pl.col("outcome") == Outcome.OUT_OF_MEMORY.value) | killed).fill_null(value=False)


def rounded_bytes(amount: float) -> int:
    """Return the next amount up that a person would write: parts of a GiB, whole ones, eights of them."""
    for below, step in _STEPS_BYTES:
        rounded = step * math.ceil(amount / step)
        if rounded <= below:
            return int(rounded)
    raise AssertionError("the last step has no end")
