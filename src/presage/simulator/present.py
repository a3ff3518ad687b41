"""The present state of a cluster: who runs, who waits, and how to simulate from there.

At an instant `now`, a job that has begun and not ended runs, a job that was submitted and has not begun waits,
and a job that has ended is history. What the trace knows of later times is not used, so that any instant of an
old log can be taken for the present.

The engine starts with an empty machine. So that it can start with a full one, `occupied` gives it the running
jobs and one more job that holds the rest, all submitted before everything else, when they fill the machine
exactly: they start at once under any order, and nothing else can start before the filler ends, which is `now`.
Waiting jobs keep their submit times, so that the wait so far counts. Run times, limits and predictions of a
running job are as much longer as it begins earlier, so that it ends when it should.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl

from presage.errors import InputError, UsageError
from presage.traces.schema import Outcome, conform, size
from presage.traces.statistics import time_zone_of
from presage.units import parse_seconds

if TYPE_CHECKING:
    from presage.traces import Trace

FILLER = "(idle)"
"""The id of the job that holds what nobody else has until now."""
_DAY_MS = 86_400_000
_LONGEST_MS = 100 * 365 * _DAY_MS
_ELAPSED = "x_elapsed_s"
_UNFINISHED = [Outcome.RUNNING.value, Outcome.PENDING.value]
_RUN_MS = (pl.col("run_s") * 1000).round().cast(pl.Int64, strict=False)
_STARTS = pl.col("start_ms").is_not_null()


@dataclass(frozen=True)
class PresentState:
    """A cluster at one instant."""

    trace: Trace
    """The jobs that run, which alone have a start, and those that wait; none has an end or a run time."""
    now_ms: int
    history: pl.DataFrame
    """The jobs that had ended and whose run time is known, as rows of the job table."""
    ended: int
    """All jobs that had ended."""
    later: int
    """Jobs of the trace that were submitted after now, and are left out."""
    unknown: int
    """Jobs left out because the trace does not say when they were submitted, or whether they have ended."""

    @property
    def running(self) -> pl.DataFrame:
        """The jobs that run."""
        return self.trace.jobs.filter(_STARTS)

    @property
    def waiting(self) -> pl.DataFrame:
        """The jobs that wait, in submit order."""
        return self.trace.jobs.filter(~_STARTS)


def present_state(trace: Trace, now_ms: int | None = None) -> PresentState:
    """Return who runs and who waits at `now_ms`, by default the latest instant that the trace tells of.

    A job that may start only later (`eligible_ms`) waits all the same. Raises InputError if the trace tells of no
    instant at all.
    """
    jobs = trace.jobs.with_columns(_began=_began(), _ended=_ended())
    if now_ms is None:
        now_ms = _latest_ms(jobs)
    arrived = (pl.col("submit_ms") <= now_ms).fill_null(value=False)
    begun = (pl.col("_began") <= now_ms).fill_null(value=False)
    over = (pl.col("_ended") <= now_ms).fill_null(value=False)
    # A job that ended, or ran for so long, at a time that nobody knows.
    finished = pl.col("outcome").is_in(_UNFINISHED).not_().fill_null(pl.col("run_s").is_not_null())
    open_ended = pl.col("_ended").is_null() & finished
    counts = jobs.select(
        ended=(arrived & over).sum(),
        later=(pl.col("submit_ms") > now_ms).sum(),
        unknown=(pl.col("submit_ms").is_null() | (arrived & ~over & open_ended)).sum(),
    ).row(0, named=True)
    present = jobs.filter(arrived & ~over & ~open_ended).with_columns(
        start_ms=pl.when(begun).then("_began"),
        outcome=pl.when(begun).then(pl.lit("running")).otherwise(pl.lit("pending")),
    )
    forgotten = [pl.lit(None).alias(name) for name in ("end_ms", "wait_s", "run_s")]
    table = conform(present.drop("_began", "_ended").with_columns(forgotten), "jobs")
    alone = replace(trace, attempts=trace.attempts.clear(), snapshots=trace.snapshots.clear())
    return PresentState(
        trace=alone.with_jobs(table),
        now_ms=now_ms,
        history=jobs.filter(arrived & over & (pl.col("run_s") > 0)).drop("_began", "_ended"),
        **counts,
    )


def occupied(trace: Trace, now_ms: int, processors: int, predictions: tuple[str, ...] = ()) -> Trace:
    """Return jobs for an empty machine whose schedule from now on is that of the present `trace`.

    The jobs that run, which have a start, come first, then the filler unless they hold the whole machine, then
    those that wait; run times (of a whole run, not what remains of it) must be given as `run_s`. `predictions`
    are columns of seconds that decisions use. Raises InputError if those that run hold more than `processors`.

    A running job that outlives a prediction is planned to end at its limit from then on.
    """
    jobs = trace.jobs
    runs, waits = jobs.filter(_STARTS), jobs.filter(~_STARTS)
    held = int(runs.select(size().ceil().sum()).item() or 0)
    if held > processors:
        raise InputError(
            f"The running jobs hold {held:,} processors and the machine has {processors:,}",
            expected="a machine on which they fit",
            remedy="Give its true size with --processors, or check that jobs which have ended have an end",
        )
    first_ms = _before(jobs, runs, now_ms)
    lengths = ["run_s", "limit_s", *predictions]
    earlier_s = (pl.col("start_ms") - first_ms) / 1000
    moved = runs.with_columns(
        pl.lit(first_ms, pl.Int64).alias("submit_ms"), *(pl.col(name) + earlier_s for name in lengths)
    )
    queue = waits.with_columns(submit_ms=_release(now_ms)).sort("submit_ms", maintain_order=True)
    filler = {
        "job_id": FILLER, "submit_ms": first_ms, "cpus_alloc": float(processors - held),
        **dict.fromkeys(lengths, (now_ms - first_ms) / 1000),
    }  # fmt: skip
    rest = jobs.clear() if held == processors else jobs.clear().vstack(_row(filler, jobs))
    return replace(trace, jobs=pl.concat([moved, rest, queue]))


def parse_instant(text: str, trace: Trace) -> int:
    """Return the instant written as a date (2024-03-04T09:00, in the machine's zone unless it names one), as a
    length of time from the first submit (2d), or as `now`, which is what the clock on the wall says. Raises
    UsageError, also for the present of a log that does not say when it began.
    """
    if text.strip().lower() == "now":
        if not trace.manifest.absolute_time:
            raise UsageError(
                "The log counts its times from an instant that it does not tell, so now is nowhere in it",
                expected="a time after the first submit, like 2d",
            )
        return round(datetime.now(UTC).timestamp() * 1000)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        first = trace.jobs["submit_ms"].min()
        try:
            return int(first if isinstance(first, int) else 0) + round(parse_seconds(text) * 1000)
        except UsageError:
            raise UsageError(
                f"{text!r} is no instant",
                expected="a date like 2024-03-04T09:00, a time after the first submit, like 2d, or now",
            ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(time_zone_of(trace)))
    return round(moment.timestamp() * 1000)


def instant(trace: Trace, at_ms: float) -> str:
    """Return an instant as a person reads it: a date in the machine's zone, or days from the log's zero."""
    if not trace.manifest.absolute_time:
        return f"day {(at_ms - trace.manifest.origin_ms) / 86_400_000:,.2f}"
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(time_zone_of(trace)))
    except (OverflowError, ValueError, OSError):
        return f"{at_ms / 1000:,.0f} s"
    return moment.strftime("%Y-%m-%d %H:%M %Z")


def latest_ms(trace: Trace) -> int:
    """Return the last instant that a trace knows of. Raises InputError if it knows none."""
    return _latest_ms(trace.jobs.with_columns(_began=_began(), _ended=_ended()))


def _began() -> pl.Expr:
    """When a job began; of a pending job, a start is what its scheduler expects."""
    pending = (pl.col("outcome") == Outcome.PENDING.value).fill_null(value=False)
    return pl.when(~pending).then(pl.coalesce("start_ms", pl.col("end_ms") - _RUN_MS))


def _ended() -> pl.Expr:
    """When a job ended; of an unfinished job, an end is the one that its limit will bring."""
    unfinished = pl.col("outcome").is_in(_UNFINISHED).fill_null(value=False)
    return pl.when(~unfinished).then(pl.coalesce("end_ms", pl.col("start_ms") + _RUN_MS))


def _latest_ms(jobs: pl.DataFrame) -> int:
    instants = [pl.col(name).max() for name in ("submit_ms", "_began", "_ended")]
    if _ELAPSED in jobs.columns:
        elapsed_ms = (pl.col(_ELAPSED).cast(pl.Float64, strict=False) * 1000).round().cast(pl.Int64, strict=False)
        instants.append((pl.col("_began") + elapsed_ms).max().alias("seen"))
    latest = jobs.select(pl.max_horizontal(instants)).item()
    if latest is None:
        raise InputError(
            "The trace has no times, so nothing can be told of its present",
            expected="jobs with submit times",
        )
    return int(latest)


def _release(now_ms: int) -> pl.Expr:
    """When a waiting job counts from: its submit, or if it may not start yet, when it may."""
    may_later = (pl.col("eligible_ms") > now_ms).fill_null(value=False)
    return pl.when(may_later).then("eligible_ms").otherwise("submit_ms")


def _before(jobs: pl.DataFrame, runs: pl.DataFrame, now_ms: int) -> int:
    """Return an instant whole days before now, and before every submit and start by more than the longest limit.

    From so early on, twice the time that a job has run is more than its limit: so the engine's rule for jobs
    that outlive their plan always ends at the limit, and does not depend on this instant. With whole days, a
    policy that decides at intervals decides now.
    """
    earliest = min(at for at in (now_ms, jobs["submit_ms"].min(), runs["start_ms"].min()) if isinstance(at, int))
    longest = runs["limit_s"].max()
    longest_ms = longest * 1000 if isinstance(longest, float) else 0.0
    early = earliest - int(min(longest_ms, _LONGEST_MS)) - 1
    return now_ms - -(-(now_ms - early) // _DAY_MS) * _DAY_MS


def _row(values: dict[str, object], like: pl.DataFrame) -> pl.DataFrame:
    """Return one row of the same columns; those without a value are null."""
    return pl.DataFrame({name: [values.get(name)] for name in like.columns}, schema=like.schema)
