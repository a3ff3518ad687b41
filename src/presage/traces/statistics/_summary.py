"""The numbers that describe a trace as a whole."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.traces import schema
from presage.traces.statistics._instants import Span, end_ms, span_of, start_ms

if TYPE_CHECKING:
    from presage.traces.trace import Trace

SLOWDOWN_BOUND_S = 10.0
DAY_S = 86_400.0
_LAST_DATE_MS = 253_402_300_799_000  # the end of the year 9999, beyond which there are no dates


@dataclass(frozen=True)
class Summary:
    """A trace in numbers; None wherever the log does not say.

    Means, quantiles and shares are over the jobs that have the value. Quantiles interpolate between neighbours.
    """

    name: str
    formats: tuple[str, ...]
    """The formats of the files it was read from."""
    scheduler: str | None
    synthetic: bool

    jobs: int
    rejected: int
    """Rows of the log that could not be read."""
    users: int | None
    accounts: int | None
    queues: int | None
    partitions: int | None

    nodes: int | None
    processors: float | None
    """Processors of the machine, from the manifest."""
    gpus: float | None
    """GPUs of the machine, from the manifest."""

    first_submit: str | None
    """ISO 8601 in UTC; None also where the log's time has no known zero."""
    last_submit: str | None
    time_zone: str | None
    span_s: float | None
    """From the first submit to the last known instant, be it an end, a start or a submit."""
    arrivals_per_day: float | None
    """Jobs per 24 hours between the first submit and the last."""

    load: float | None
    """Offered load: Σ run_s · size over all jobs / (processors · seconds from first to last submit).

    Size is the larger of allocated and requested processors; a job that lacks it or its run time adds nothing.
    """
    gpu_load: float | None
    """The same with GPUs: Σ run_s · GPUs / (GPUs of the machine · seconds from first to last submit)."""
    utilisation: float | None
    """Delivered load: Σ seconds between start and end · size / (processors · span_s)."""
    gpu_utilisation: float | None

    mean_wait_s: float | None
    median_wait_s: float | None
    p90_wait_s: float | None
    p99_wait_s: float | None
    mean_run_s: float | None
    median_run_s: float | None
    p90_run_s: float | None
    p99_run_s: float | None
    mean_bounded_slowdown: float | None
    """max(1, (wait + run) / max(run, 10 s)), over jobs that have both."""
    median_bounded_slowdown: float | None
    p90_bounded_slowdown: float | None
    p99_bounded_slowdown: float | None

    mean_size: float | None
    """Processors per job."""
    max_size: float | None
    multi_cpu_share: float | None
    """The share of jobs with more than one processor, of the jobs whose size is known."""
    gpu_jobs: int | None
    mean_gpus: float | None
    """GPUs per GPU job."""
    max_gpus: float | None

    median_limit_s: float | None
    mean_limit_use: float | None
    """The mean of run time / requested time, over jobs that have both."""
    overrun_share: float | None
    """The share of jobs that ran longer than they had asked for, of the jobs that have both."""

    same_user_share: float | None
    """How often a job comes from the same user as the one submitted before it."""
    top_user_share: float | None
    """The most active user's share of the jobs."""
    attempts_per_job: float | None
    """Stretches of running per job, or per gang member where the log tells them apart, of those that it lists."""
    outcomes: dict[str, int]
    """Jobs per outcome, most frequent first; `unknown` where the log does not say. They add up to `jobs`."""

    has: dict[str, bool]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: no NaN, no infinity, lists instead of tuples."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def summarise(trace: Trace) -> Summary:
    """Return the summary of a trace."""
    jobs, manifest = trace.jobs, trace.manifest
    machine = manifest.machine
    span = span_of(trace)
    measures = _measured(jobs.select(**_derived(span)))
    size_s, gpu_s = measures.pop("size_s"), measures.pop("gpu_s")
    busy_s, busy_gpu_s = measures.pop("busy_size_s"), measures.pop("busy_gpu_s")
    submits_s = span.submits_s if span else None
    whole_s = span.whole_s if span else None
    return Summary(
        name=manifest.name,
        formats=tuple(dict.fromkeys(source.format for source in manifest.sources)),
        scheduler=manifest.scheduler,
        synthetic=manifest.synthetic,
        jobs=len(jobs),
        rejected=len(trace.rejects),
        nodes=machine.nodes,
        processors=machine.cpus,
        gpus=machine.gpus,
        first_submit=_iso(span.first_submit_ms) if span and manifest.absolute_time else None,
        last_submit=_iso(span.last_submit_ms) if span and manifest.absolute_time else None,
        time_zone=manifest.time_zone,
        span_s=whole_s,
        arrivals_per_day=_ratio(jobs["submit_ms"].count(), submits_s, 1 / DAY_S),
        load=_ratio(size_s, machine.cpus, submits_s),
        gpu_load=_ratio(gpu_s, machine.gpus, submits_s),
        utilisation=_ratio(busy_s, machine.cpus, whole_s),
        gpu_utilisation=_ratio(busy_gpu_s, machine.gpus, whole_s),
        attempts_per_job=_attempts_per_job(trace),
        outcomes=_outcomes(jobs),
        has=dict(manifest.has),
        notes=manifest.notes,
        **measures,
    )


def _derived(span: Span | None) -> dict[str, pl.Expr]:
    """Return the columns that the measures are made of, each computed once."""
    run, wait, limit = _finite(pl.col("run_s")), _finite(pl.col("wait_s")), _finite(pl.col("limit_s"))
    slowdown = pl.max_horizontal((wait + run) / pl.max_horizontal(run, SLOWDOWN_BOUND_S), 1.0)
    return {
        "run_s": run,
        "wait_s": wait,
        "limit_s": limit,
        "bounded_slowdown": pl.when(wait.is_not_null() & run.is_not_null()).then(slowdown),
        "size": _finite(schema.size()),
        "gpus": _finite(schema.gpus()),
        "busy_s": _busy_s(span),
        **{column: pl.col(column) for column in ("user", "account", "queue", "partition")},
    }


def _busy_s(span: Span | None) -> pl.Expr:
    """Return the seconds between start and end that lie within the span."""
    if span is None:
        return pl.lit(None, pl.Float64)
    start, end = start_ms(), end_ms()
    begun = pl.max_horizontal(start, span.first_submit_ms)
    return pl.when(start.is_not_null() & (end > begun)).then((end - begun) / 1000)


def _measures() -> dict[str, pl.Expr]:
    """Return what the job table alone tells, by the name of the summary's field, and the sums behind the loads."""
    run, limit, user = pl.col("run_s"), pl.col("limit_s"), pl.col("user")
    size, gpus, busy = pl.col("size"), pl.col("gpus"), pl.col("busy_s")
    limited = limit > 0
    return {
        **_spread("wait_s"),
        **_spread("run_s"),
        **_spread("bounded_slowdown"),
        "users": _number_of("user"),
        "accounts": _number_of("account"),
        "queues": _number_of("queue"),
        "partitions": _number_of("partition"),
        "mean_size": size.mean(),
        "max_size": size.max(),
        "multi_cpu_share": (size > 1).mean(),
        "gpu_jobs": pl.when(gpus.count() > 0).then((gpus > 0).sum()),
        "mean_gpus": gpus.filter(gpus > 0).mean(),
        "max_gpus": gpus.filter(gpus > 0).max(),
        "median_limit_s": limit.median(),
        "mean_limit_use": (run / limit).filter(limited).mean(),
        "overrun_share": (run > limit).filter(limited).mean(),
        "same_user_share": (user == user.shift(1)).mean(),
        "top_user_share": user.drop_nulls().unique_counts().max() / user.count(),
        "size_s": _sum_or_null(run * size),
        "gpu_s": _sum_or_null(run * gpus),
        "busy_size_s": _sum_or_null(busy * size),
        "busy_gpu_s": _sum_or_null(busy * gpus),
    }


def _finite(value: pl.Expr) -> pl.Expr:
    return pl.when(value.is_finite()).then(value)


def _spread(column: str) -> dict[str, pl.Expr]:
    known = pl.col(column)
    return {
        f"mean_{column}": known.mean(),
        f"median_{column}": known.median(),
        f"p90_{column}": known.quantile(0.9, "linear"),
        f"p99_{column}": known.quantile(0.99, "linear"),
    }


def _number_of(column: str) -> pl.Expr:
    known = pl.col(column).drop_nulls()
    return pl.when(known.len() > 0).then(known.n_unique())


def _sum_or_null(amount: pl.Expr) -> pl.Expr:
    return pl.when(amount.count() > 0).then(amount.sum())


_MEASURES = _measures()


def _measured(derived: pl.DataFrame) -> dict[str, Any]:
    row = derived.select(**_MEASURES).row(0, named=True)
    return {name: _number(value) for name, value in row.items()}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _ratio(amount: float | None, *over: float | None) -> float | None:
    """Return amount / Π over, or None if any part is unknown or the divisor is zero."""
    if amount is None or any(not part for part in over):
        return None
    return _number(amount / math.prod(part for part in over if part is not None))


def _iso(moment_ms: int) -> str | None:
    if abs(moment_ms) > _LAST_DATE_MS:
        return None
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _attempts_per_job(trace: Trace) -> float | None:
    attempts = trace.attempts
    if len(attempts):
        return len(attempts) / len(attempts.select("job_id", "task").unique())
    restarts = trace.jobs["restarts"].mean()
    return 1.0 + restarts if isinstance(restarts, float) else None


def _outcomes(jobs: pl.DataFrame) -> dict[str, int]:
    counted = jobs.group_by("outcome").len().with_columns(pl.col("outcome").cast(pl.String).fill_null("unknown"))
    return dict(counted.sort(["len", "outcome"], descending=[True, False]).iter_rows())
