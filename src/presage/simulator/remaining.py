"""How long jobs that have not ended will run: as said, as predicted, or as finished jobs did.

From history, a job runs for its limit times the share of their limits that finished jobs used: those of its user
if there are at least 20, else all. A job without a limit runs as long as they did. Of a job that runs already,
only what it has not outlived can happen. The jobs of one user are alike, so that in one draw all of them have the
same chance: on real logs intervals are far too narrow without this.

Where nothing is left that can happen, a job runs to its limit; one beyond its limit for a minute more; and one
without a limit for as long again as it has run, and a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError, UsageError

if TYPE_CHECKING:
    from presage.simulator.jobs import FloatArray, IntArray
    from presage.simulator.present import PresentState

HISTORY, REQUESTED = "history", "requested"
ENOUGH_JOBS = 20
_GRACE_MS = 60_000
_STREAM = 3
_LONGEST_MS = 100 * 365 * 86_400_000


@dataclass(frozen=True)
class RunTimes:
    """What may become of each unfinished job: values of a pool, of which each counts alike."""

    pool: FloatArray
    first: IntArray
    """The first value of the pool that can still happen to the job."""
    count: IntArray
    """How many can; 0 where `last_ms` is all that is left."""
    unit_ms: FloatArray
    """What a value is a multiple of."""
    last_ms: IntArray
    elapsed_ms: IntArray
    chance_of: IntArray
    """Jobs of the same number have the same chance in a draw."""

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw; else one draw is all of them."""
        return bool((self.count > 1).any())

    def draw(self, seed: int, sample: int) -> IntArray:
        """Return the run time of every job in one draw, more than it has run; the same for the same numbers."""
        chances = np.random.default_rng([seed, _STREAM, sample]).random(self.chance_of.max() + 1)
        at = self.first + (chances[self.chance_of] * self.count).astype(np.int64)
        drawn = np.round(np.minimum(self.pool[at] * self.unit_ms, _LONGEST_MS))
        run_ms = np.where(self.count > 0, drawn, self.last_ms)
        longer: IntArray = np.maximum(run_ms.astype(np.int64), self.elapsed_ms + 1)
        return longer


def run_times(state: PresentState, jobs: pl.DataFrame, run_by: str = HISTORY) -> RunTimes:
    """Return what may become of `jobs`, some that run and some that wait.

    `run_by` says how: "history", "requested" (the limit), a share of it like "50%", or the name of a column of
    predicted seconds. Raises UsageError for anything else, InputError if a job's run time cannot be told.
    """
    limit_ms = (jobs["limit_s"].cast(pl.Float64).fill_null(float("nan")) * 1000).to_numpy()
    limit_ms = np.where(limit_ms > 0, np.minimum(limit_ms, _LONGEST_MS), np.nan)
    elapsed_ms = (state.now_ms - jobs["start_ms"]).fill_null(0).to_numpy().astype(np.int64)
    pools = _Pools()
    if run_by == HISTORY:
        chosen = _from_history(state.history, jobs, limit_ms, pools)
    else:
        unit_ms, share = _as_said(jobs, limit_ms, run_by)
        said = pools.add(np.array([share]))
        chosen = [(said, unit) for unit in unit_ms.tolist()]
    _check_known(chosen, limit_ms, run_by)
    left = [pools.beyond(pool, elapsed / unit) for (pool, unit), elapsed in zip(chosen, elapsed_ms, strict=True)]
    return RunTimes(
        pool=pools.values(),
        first=np.array([first for first, _ in left], np.int64),
        count=np.array([count for _, count in left], np.int64),
        unit_ms=np.array([unit for _, unit in chosen]),
        last_ms=_last_ms(elapsed_ms, limit_ms),
        elapsed_ms=elapsed_ms,
        chance_of=_chance_of(jobs["user"]),
    )


def _chance_of(users: pl.Series) -> IntArray:
    """Return the number of each job's user, by first appearance; a job without a user has one of its own."""
    numbers: dict[str | int, int] = {}
    keys = [index if user is None else user for index, user in enumerate(users.to_list())]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


class _Pools:
    """Sorted values of several pools, end to end."""

    def __init__(self) -> None:
        self._pools: list[FloatArray] = []
        self._begins = [0]

    def add(self, values: FloatArray) -> int:
        """Keep the values and return the number of their pool."""
        self._pools.append(np.sort(values))
        self._begins.append(self._begins[-1] + len(values))
        return len(self._pools) - 1

    def beyond(self, pool: int, value: float) -> tuple[int, int]:
        """Return where the pool's values above `value` begin, and how many there are; pool -1 has none."""
        if pool < 0 or np.isnan(value):
            return 0, 0
        skipped = int(np.searchsorted(self._pools[pool], value, side="right")) if value > 0 else 0
        return self._begins[pool] + skipped, len(self._pools[pool]) - skipped

    def values(self) -> FloatArray:
        """Return all values, and one more, to which jobs point for which no pool has any."""
        return np.concatenate([*self._pools, [1.0]])


def _from_history(
    history: pl.DataFrame, jobs: pl.DataFrame, limit_ms: FloatArray, pools: _Pools
) -> list[tuple[int, float]]:
    """Return the pool and the unit of every job."""
    run_ms = history.select("user", value=pl.col("run_s") * 1000, limit_ms=pl.col("limit_s") * 1000)
    shares = run_ms.filter(pl.col("limit_ms") > 0).with_columns(pl.col("value") / pl.col("limit_ms"))
    of_limit, of_run = _ByUser(shares, pools), _ByUser(run_ms, pools)
    return [
        (of_run.pool(user), 1.0) if np.isnan(limit) else (of_limit.pool(user), float(limit))
        for user, limit in zip(jobs["user"].to_list(), limit_ms, strict=True)
    ]


class _ByUser:
    """The pools of users who have enough jobs, and the one of all."""

    def __init__(self, values: pl.DataFrame, pools: _Pools) -> None:
        finite = values.filter(pl.col("value").is_finite())
        many = pl.len().over("user") >= ENOUGH_JOBS
        named = finite.filter(pl.col("user").is_not_null() & many).partition_by("user", maintain_order=True)
        self._all = pools.add(finite["value"].to_numpy()) if len(finite) else -1
        self._of = {part["user"][0]: pools.add(part["value"].to_numpy()) for part in named}

    def pool(self, user: str | None) -> int:
        return self._all if user is None else self._of.get(user, self._all)


def _as_said(jobs: pl.DataFrame, limit_ms: FloatArray, run_by: str) -> tuple[FloatArray, float]:
    """Return the unit of every job and the share of it that the job runs."""
    if run_by == REQUESTED:
        return limit_ms, 1.0
    if run_by.endswith("%"):
        try:
            share = float(run_by.removesuffix("%")) / 100
        except ValueError:
            share = 0.0
        if 0 < share <= 10:
            return limit_ms, share
    elif run_by in jobs.columns and jobs.schema[run_by].is_numeric():
        predicted_ms = (jobs[run_by].cast(pl.Float64).fill_null(float("nan")) * 1000).to_numpy()
        return np.where(predicted_ms > 0, predicted_ms, np.nan), 1.0
    raise UsageError(
        f"Run times cannot be taken from {run_by!r}",
        expected="history, requested, a share of the limit like 50%, or a numeric job column of predicted seconds",
    )


def _check_known(chosen: list[tuple[int, float]], limit_ms: FloatArray, run_by: str) -> None:
    lacking = sum(
        (pool < 0 or not unit > 0) and np.isnan(limit)
        for (pool, unit), limit in zip(chosen, limit_ms, strict=True)
    )
    if lacking:
        raise InputError(
            f"How long {lacking:,} jobs will run cannot be told by {run_by}: they have no limit",
            expected="a limit for every job, a prediction, or finished jobs to learn from",
            remedy="Read more of the log, or name a column of predicted seconds with --run-by",
        )


def _last_ms(elapsed_ms: IntArray, limit_ms: FloatArray) -> IntArray:
    known = np.nan_to_num(limit_ms, nan=0.0).astype(np.int64)
    overrun = elapsed_ms + _GRACE_MS
    last: IntArray = np.where(
        np.isnan(limit_ms), 2 * elapsed_ms + _GRACE_MS, np.where(known > elapsed_ms, known, overrun)
    )
    return last
