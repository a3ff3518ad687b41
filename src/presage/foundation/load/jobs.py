"""The jobs of one scope as arrays: when they waited, when they ran, how much they hold, how long they will run.

Times are float seconds on the trace's clock. `begin_s` is when a job left the queue, infinite while it waits;
`end_s` is when it left the machine, infinite while it runs. A job that was cancelled before its start leaves both
at once. Whatever happens after an instant t is cut away by `known_at(t)`, the only door to a forecast.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

LEAST_RUN_S = 30.0
NEWEST = 0.3
"""The weight of a user's newest job in the average of how long the user's jobs run."""
NEWEST_ERROR = 0.01
_PRIOR_JOBS = 2.0
_USUAL_RUN_S = 3600.0
_USUAL_SPREAD = 1.2
_RUN_MS = (pl.col("run_s") * 1000).round().cast(pl.Int64, strict=False)
_NEVER_MS = 2**62
_FAR_MS = 250_000_000_000_000
_LONGEST_S = 1e10
_AMOUNTS = (1e-6, 1e9)
"""What is believed of a job; anything else is left out."""


@dataclass(frozen=True, eq=False)
class LoadJobs:
    """Jobs in submit order; all arrays have one entry per job."""

    submit_s: Floats
    begin_s: Floats
    end_s: Floats
    started: Flags
    """True for a job that has begun to run, False for one that waits or was cancelled before."""
    amount: Floats
    """Processors or GPUs."""
    limit_s: Floats
    """Requested run time, infinite where there is none."""
    expected_s: Floats
    """How long the job should run by what its user's jobs did that had ended when it was submitted."""
    spread: Floats
    """Typical error of the logarithm of `expected_s`, as known at the submit."""

    def __len__(self) -> int:
        return len(self.submit_s)

    def known_at(self, now_s: float) -> LoadJobs:
        """Return what was known at `now_s`: no later submit, start or end."""
        arrived = self.taken(self.submit_s <= now_s)
        return replace(
            arrived,
            begin_s=np.where(arrived.begin_s <= now_s, arrived.begin_s, np.inf),
            end_s=np.where(arrived.end_s <= now_s, arrived.end_s, np.inf),
            started=arrived.started & (arrived.begin_s <= now_s),
        )

    def taken(self, chosen: Flags | NDArray[np.intp]) -> LoadJobs:
        """Return the chosen jobs."""
        return LoadJobs(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    @property
    def plan_s(self) -> Floats:
        """Run time to plan with: the requested one, else the expected one."""
        return np.where(np.isfinite(self.limit_s), self.limit_s, self.expected_s)


@dataclass(frozen=True)
class Extracted:
    """Jobs of a trace, and what had to be assumed to get them."""

    jobs: LoadJobs
    notes: tuple[str, ...]
    has_starts: bool


def extract_jobs(frame: pl.DataFrame, amount: pl.Expr) -> Extracted:
    """Return the jobs of a job table that hold `amount` of something.

    Jobs without a submit time, without an amount, or of which nobody knows whether they have ended are left out
    and counted in a note. Where no job has a start, all are taken to start when submitted. Raises InputError
    if no job is left.
    """
    waits_now = pl.col("outcome") == Outcome.PENDING.value
    has_starts = bool(frame.select((_started_ms().is_not_null() | waits_now).any()).item())
    begin = _begin_ms() if has_starts else pl.col("submit_ms")
    end = _end_ms() if has_starts else pl.col("submit_ms") + _RUN_MS
    table = frame.select(
        "submit_ms",
        user=pl.col("user").fill_null(""),
        begin=begin,
        end=end,
        started=(_started_ms().is_not_null() & _ran()) if has_starts else pl.lit(value=True),
        amount=amount.cast(pl.Float64),
        limit_s=pl.when(pl.col("limit_s").is_between(0, _LONGEST_S, closed="right")).then("limit_s"),
    )
    kept = table.filter(
        pl.col("submit_ms").is_between(-_FAR_MS, _FAR_MS),
        pl.col("amount").is_between(*_AMOUNTS),
        pl.col("begin").is_not_null() & pl.col("end").is_not_null(),
    ).sort("submit_ms", maintain_order=True)
    if not len(kept):
        raise InputError(
            "No job says when it was submitted, what it holds and when it ran",
            expected="jobs with a submit time, a number of processors or GPUs, and starts and ends or run times",
            remedy="Check with `presage trace info` what the log has",
        )
    notes = _notes(len(table) - len(kept), has_starts=has_starts)
    return Extracted(_arrays(kept), notes, has_starts)


def _notes(left_out: int, *, has_starts: bool) -> tuple[str, ...]:
    notes = []
    if left_out:
        notes.append(f"{left_out:,} jobs without a usable submit, size or fate are left out")
    if not has_starts:
        notes.append("the log has no starts: jobs are taken to start when submitted, and queues are not forecast")
    return tuple(notes)


def _started_ms() -> pl.Expr:
    pending = (pl.col("outcome") == Outcome.PENDING.value).fill_null(value=False)
    return pl.when(~pending).then(pl.coalesce("start_ms", pl.col("end_ms") - _RUN_MS))


def _ran() -> pl.Expr:
    """A finished job with a start and neither end nor run time was cancelled then."""
    open_ended = pl.col("outcome").is_in([Outcome.RUNNING.value]).fill_null(value=False)
    return pl.col("end_ms").is_not_null() | pl.col("run_s").is_not_null() | open_ended


def _begin_ms() -> pl.Expr:
    waits = pl.when(pl.col("outcome") == Outcome.PENDING.value).then(pl.lit(_NEVER_MS))
    return pl.coalesce(waits, _started_ms(), "end_ms")


def _end_ms() -> pl.Expr:
    unfinished = pl.col("outcome").is_in([Outcome.RUNNING.value, Outcome.PENDING.value]).fill_null(value=False)
    open_ended = pl.when(unfinished).then(pl.lit(_NEVER_MS))
    cancelled = pl.when(~_ran()).then(_started_ms())
    return pl.coalesce(open_ended, cancelled, "end_ms", _started_ms() + _RUN_MS)


def _arrays(table: pl.DataFrame) -> LoadJobs:
    submit = table["submit_ms"].to_numpy() / 1000
    begin = np.maximum(_seconds(table["begin"]), submit)
    end = np.maximum(_seconds(table["end"]), begin)
    limit = table["limit_s"].fill_null(np.inf).to_numpy().astype(np.float64)
    run = np.subtract(end, begin, out=np.zeros(len(end)), where=np.isfinite(begin))
    expected, spread = _expectations(table["user"], submit, end, run, limit)
    return LoadJobs(
        submit_s=submit,
        begin_s=begin,
        end_s=end,
        started=table["started"].to_numpy() & np.isfinite(begin),
        amount=table["amount"].to_numpy().astype(np.float64),
        limit_s=limit,
        expected_s=expected,
        spread=spread,
    )


def _seconds(times: pl.Series) -> Floats:
    values = times.to_numpy()
    return np.where(values >= _NEVER_MS, np.inf, values / 1000)


def _expectations(
    users: pl.Series, submit: Floats, end: Floats, run: Floats, limit: Floats
) -> tuple[Floats, Floats]:
    """Return the expected run time of every job and the usual error of its logarithm.

    A moving average over the user's ended jobs, of the share of the limit where jobs have limits and of the run
    time itself elsewhere, drawn towards the average of all users while a user is new.
    """
    limited = np.isfinite(limit)
    log_run, log_limit = logs_of(run, limit)
    frame = pl.DataFrame({
        "row": np.arange(len(submit)), "user": users, "submit": submit, "end": end, "limited": limited,
        "value": log_run - log_limit, "ran": np.isfinite(end) & (run > 0),
    })  # fmt: skip
    everybody = _averages(frame, ["limited"])
    own = _averages(frame, ["limited", "user"])
    log_expected = expected_log_run(log_limit, limited, everybody[0], own[0], own[1])
    errors = frame.with_columns(value=np.square(log_run - log_expected))
    squares = _averages(errors.with_columns(everyone=pl.lit(value=True)), ["everyone"], newest=NEWEST_ERROR)[0]
    return np.exp(log_expected), spread_of(squares)


def expected_log_run(log_limit: Floats, limited: Flags, everybody: Floats, own: Floats, count: Floats) -> Floats:
    """Return the logarithm of the expected run time from averages over everybody's jobs and over `count` of the
    user's, of the share of the limit or of the run time; missing averages are those of clusters elsewhere.
    """
    default = np.where(limited, -1.0, np.log(_USUAL_RUN_S))
    shared = np.where(np.isnan(everybody), default, everybody)
    known = np.where(np.isnan(own), 0.0, own)
    share = (known * count + shared * _PRIOR_JOBS) / (count + _PRIOR_JOBS)
    return np.where(limited, np.minimum(share, 0.0) + log_limit, share)


def spread_of(squares: Floats) -> Floats:
    """Return the usual error of the logarithm of a run time from the average of its square."""
    return np.clip(np.sqrt(np.where(np.isnan(squares), _USUAL_SPREAD**2, squares)), 0.3, 3.0)


def logs_of(run: Floats, limit: Floats) -> tuple[Floats, Floats]:
    """Return the logarithms of run times and of limits, 0 where there are none; very short ones count longer."""
    known = np.where(np.isfinite(limit), limit, 1.0)
    log_run = np.log(np.maximum(np.where(np.isfinite(run), run, 0.0), LEAST_RUN_S))
    return log_run, np.where(np.isfinite(limit), np.log(np.maximum(known, LEAST_RUN_S)), 0.0)


def _averages(frame: pl.DataFrame, by: list[str], newest: float = NEWEST) -> tuple[Floats, Floats]:
    """Return, per job, the moving average of `value` over the jobs of the same group that had ended at its submit,
    missing where there are none, and how many they were.
    """
    ended = frame.filter("ran").sort("end", maintain_order=True)
    ended = ended.select(
        *by,
        at="end",
        mean=pl.col("value").ewm_mean(alpha=newest, adjust=False).over(by),
        count=pl.int_range(1, pl.len() + 1).over(by).cast(pl.Float64),
    )
    asked = frame.select(*by, "row", at="submit").sort("at", maintain_order=True)
    joined = asked.join_asof(ended, on="at", by=by, strategy="backward", check_sortedness=False).sort("row")
    mean = joined["mean"].fill_null(np.nan).to_numpy()
    return mean.astype(np.float64), joined["count"].fill_null(0.0).to_numpy().astype(np.float64)
