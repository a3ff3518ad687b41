"""Waits of the last jobs like it: what is left where the model cannot be asked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.estimators._base import Basis, Estimate, EstimateRequest, Estimator, Quantity, UnsupportedError
from presage.estimators.history.samples import Samples
from presage.estimators.spread import Spread
from presage.estimators.wait.places import jobs_of
from presage.simulator.present import latest_ms
from presage.traces.schema import Outcome, size
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.estimators.workloads import Target

SIZE_STEPS = (1.5, 5.5, 22.5, 90.5, 362.5)
LIMIT_STEPS_S = (900.0, 3700.0, 14_500.0, 43_300.0, 86_500.0)
RECENT = 50
CHECKED = 100
"""Earlier jobs for which it is checked what the same rule would have said."""
ENOUGH = 10
USUAL_FACTOR = 10.0
"""Within this factor of their median lie 80 % of the waits of like jobs, before any are known."""
STALE_AFTER_S = 7 * 86_400.0
"""Waits so old make the interval, in logarithms, as wide again by half of its square root."""
_SECOND = 1.0
"""Added before logarithms are taken: many waits are none."""


class SimilarWait(Estimator):
    """Quantiles of the last 50 waits in the same partition with the same classes of size and limit.

    With fewer than 10 of them, the limit is let go, then the size. The interval is as much wider as the same rule
    has missed the waits of the last 100 such jobs, and the wider the older the waits are. Jobs that still wait
    count with what they have waited, if that is more than the median.
    """

    name = "similar-wait"
    quantity = Quantity.WAIT

    def estimate(self, request: EstimateRequest) -> Estimate:
        trace, target = self.knowledge.history, request.target
        if target is None:
            raise UnsupportedError("The machine that asks has no queue")
        if trace is None or not len(trace):
            raise UnsupportedError("No earlier jobs are known")
        try:
            now_ms = latest_ms(trace)
        except InputError as error:
            raise UnsupportedError(error.problem) from None
        there = _with_waits(jobs_of(trace, target.partition), now_ms)
        for words, chosen in _levels(there, target, getattr(request.workload, "walltime_s", None)):
            started = chosen.filter(~pl.col("waits"))
            if len(started) >= ENOUGH or (words == _ANY and len(started)):
                return self._of(words, started.sort("start_ms"), chosen, now_ms)
        raise UnsupportedError(f"The history tells no wait in the partition {target.partition}")

    def _of(self, words: str, past: pl.DataFrame, chosen: pl.DataFrame, now_ms: int) -> Estimate:
        started = past.tail(RECENT)
        waits = started["waited_s"].to_list()
        middle = sorted(waits)[len(waits) // 2]
        waiting = chosen.filter(pl.col("waits") & (pl.col("waited_s") > middle)).tail(RECENT)
        age_s = max(0.0, (now_ms - float(started["start_ms"].median() or now_ms)) / 1000)  # type: ignore[arg-type]
        spread = _widened(waits + waiting["waited_s"].to_list(), age_s, _missed_by(past))
        notes = [f"The last {counted(len(started), 'wait')} of {words}"]
        if len(waiting):
            notes.append(f"{counted(len(waiting), 'job')} of these still waiting count with their wait so far")
        if age_s > STALE_AFTER_S:
            notes.append(f"Half of these waits are more than {age_s / 86_400:,.0f} days old")
        details: dict[str, Any] = {
            "level": words, "jobs": len(started), "waiting": len(waiting), "age_s": age_s,
        }  # fmt: skip
        return Estimate(self.quantity, spread, Basis.HISTORY, self.name, self.version, tuple(notes), details)


_ANY = "jobs in this partition"


def _levels(jobs: pl.DataFrame, target: Target, limit_s: float | None) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the jobs that are like it, in less and less."""
    wanted_s = target.walltime_s or limit_s
    own_size = _class_of(float(target.share.nodes * target.share.cores), SIZE_STEPS)
    same_gpus = (pl.coalesce("gpus_req", "gpus_alloc", 0.0) > 0) == (target.share.gpus > 0)
    jobs = jobs.with_columns(
        size_class=_classes(pl.coalesce(size(), 1.0), SIZE_STEPS),
        limit_class=_classes(pl.col("limit_s"), LIMIT_STEPS_S),
    )
    sized = jobs.filter((pl.col("size_class") == own_size) & same_gpus)
    if wanted_s is not None and math.isfinite(wanted_s):
        limited = pl.col("limit_class") == _class_of(wanted_s, LIMIT_STEPS_S)
        yield "jobs of its size and limit in this partition", sized.filter(limited)
    yield "jobs of its size in this partition", sized
    yield _ANY, jobs


def _class_of(amount: float, steps: tuple[float, ...]) -> int:
    return sum(amount > step for step in steps)


def _classes(amount: pl.Expr, steps: tuple[float, ...]) -> pl.Expr:
    return pl.when(amount.is_not_null()).then(pl.sum_horizontal([amount > step for step in steps]))


def _with_waits(jobs: pl.DataFrame, now_ms: int) -> pl.DataFrame:
    """Return the jobs that started, with their waits, and those that wait, with what they have waited so far."""
    waits = (pl.col("outcome") == Outcome.PENDING.value).fill_null(value=False)
    begun = pl.coalesce(pl.col("start_ms"), pl.col("submit_ms") + (pl.col("wait_s") * 1000).cast(pl.Int64))
    waited = pl.when(waits).then((now_ms - pl.col("submit_ms")) / 1000.0)
    table = jobs.with_columns(
        waits=waits,
        waited_s=pl.coalesce(waited, "wait_s", (begun - pl.col("submit_ms")) / 1000.0),
        start_ms=pl.when(~waits).then(begun),
    )
    # What left the queue without having run did not wait for a start.
    return table.filter((pl.col("waited_s") >= 0) & (waits | pl.col("start_ms").is_not_null()))


def _missed_by(past: pl.DataFrame) -> tuple[float, float]:
    """Return by how much, in logarithms, intervals must be wider below and above to hold 80 % of the last waits.

    Waits of one time resemble each other, so that the next ones are often outside of the last ones' quantiles.
    `past` is in the order of starts; a job is compared with the waits that were known when it was submitted.
    """
    starts = past["start_ms"].to_numpy()
    logs = np.log(past["waited_s"].to_numpy() + _SECOND)
    checked = past.with_row_index("row").sort("submit_ms").tail(CHECKED)
    below, above = [], []
    for row, submit_ms in checked.select("row", "submit_ms").iter_rows():
        known = int(np.searchsorted(starts, submit_ms))
        if known >= ENOUGH:
            low, high = np.quantile(logs[max(0, known - RECENT) : known], (0.1, 0.9))
            below.append(low - logs[row])
            above.append(logs[row] - high)
    if len(below) < ENOUGH:
        return 0.0, 0.0
    return max(0.0, float(np.quantile(below, 0.9))), max(0.0, float(np.quantile(above, 0.9)))


def _widened(waits: list[float], age_s: float, missed_by: tuple[float, float]) -> Spread:
    found = Samples([each + _SECOND for each in waits], USUAL_FACTOR).spread()
    below, above = missed_by
    older = math.sqrt(1 + age_s / STALE_AFTER_S)
    low = found.p50 * (found.p10 * math.exp(-below) / found.p50) ** older
    high = found.p50 * (found.p90 * math.exp(above) / found.p50) ** older
    return Spread(*(max(0.0, each - _SECOND) for each in (low, found.p50, high)))
