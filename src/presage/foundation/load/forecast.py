"""Load of a cluster in the next hours, from its own past and the jobs that run and wait now."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError, UsageError
from presage.foundation.load.jobs import LoadJobs, extract_jobs
from presage.foundation.load.learned import Learned
from presage.foundation.load.levels import CLASSES, HOUR_S, TARGETS, Levels, machine_hours, peak_amount
from presage.foundation.load.models import LOAD_MODELS
from presage.foundation.load.network import QUANTITIES
from presage.foundation.load.rows import LONGEST_H, WEEK
from presage.foundation.load.scopes import Scope, scopes_of
from presage.foundation.load.site import Site, levels_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from presage.foundation.load._base import LoadModel
    from presage.traces import Trace

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

PAST_WEEKS = 13
STRIDE_H = 3
_SHORT_H = 2 * 24
_DAY_S = 86_400.0
_BEYOND = 4.0
_FAR_S = 250_000_000_000.0


@dataclass(frozen=True)
class Range:
    """What to expect of a number: it is below p10 and above p90 one time in ten each."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True)
class Hour:
    """What to expect in the hour that ends `ahead_h` from now; None is what the log does not tell."""

    ahead_h: int
    at_ms: int
    """When that hour ends."""
    utilisation: Range
    """Mean held share of the capacity."""
    queue_length: Range | None
    """Mean number of waiting jobs."""
    waiting_hours: Range | None
    """Waiting work: what waiting jobs hold times what they ask for, in processor-hours (or GPU-hours)."""
    wait_s: dict[str, Range] | None
    """Size class → wait of a job that is submitted in that hour."""


@dataclass(frozen=True)
class ScopeForecast:
    """The forecast of one part of a cluster, and how it stands now."""

    kind: str
    name: str
    unit: str
    capacity: float
    capacity_known: bool
    """False: the most that was held at once until now."""
    past_h: int
    """Hours of the past that were looked at."""
    running: int
    waiting: int
    utilisation: float
    waiting_hours: float
    hours: tuple[Hour, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadForecast:
    """What will happen to the load of a cluster."""

    trace: str
    at_ms: int
    model: str
    scopes: tuple[ScopeForecast, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain dictionaries and lists."""
        return asdict(self)


def forecast_load(
    trace: Trace,
    *,
    at_ms: int | None = None,
    horizon_h: int = LONGEST_H,
    step_h: int = 1,
    by: Sequence[str] = (),
    model: str = "presage",
    progress: Callable[[int, int], None] | None = None,
) -> LoadForecast:
    """Return the load of a cluster in the next hours as told at `at_ms`, by default the end of the log.

    Whatever the trace knows of later times is not used. `by` adds parts (`scopes.WAYS`), `model` is a name of
    `LOAD_MODELS`. `progress` is told how many scopes are done, and of how many.

    Raises UsageError for a horizon that is not of 1 to 24 whole hours, a step that is longer, or an instant
    before the first submit; UnknownNameError for an unknown model or way; InputError if no job can be used.
    """
    horizons = _horizons(horizon_h, step_h)
    kind = LOAD_MODELS.get(model)
    scopes, notes = scopes_of(trace, by)
    now_s = _now_s(trace, at_ms)
    forecasts: list[ScopeForecast] = []
    for done, scope in enumerate(scopes):
        try:
            forecasts.append(_forecast_scope(scope, now_s, horizons, kind()))
        except InputError as error:
            if scope.kind == "cluster" and len(scopes) == 1:
                raise
            notes.append(f"{scope.name} is left out: {error.problem}")
        if progress:
            progress(done + 1, len(scopes))
    if not forecasts:
        raise InputError(
            "No part of this trace can be forecast", expected="jobs with submit times, sizes, starts and ends"
        )
    return LoadForecast(trace.manifest.name, round(now_s * 1000), model, tuple(forecasts), tuple(notes))


def past_site(jobs: LoadJobs, capacity: float, now_s: float, horizons: Ints) -> Site:
    """Return the last weeks of a scope with origins every few hours, the last of which is now.

    `jobs` must be what is known now.
    """
    levels = levels_until(jobs, capacity, now_s, PAST_WEEKS * WEEK)
    last = len(levels) - 1
    origins = np.arange(last % STRIDE_H, last + 1, STRIDE_H)
    return Site.build(jobs, levels, origins, horizons)


def hours_of(
    quantiles: Floats, levels: Levels, now_s: float, horizons: Ints, *, has_queue: bool
) -> tuple[Hour, ...]:
    """Return the hours of a forecast (horizons, quantities, 3) that may lack the waits.

    Nothing is said to be far beyond all that the past has seen.
    """
    quantiles = np.minimum(quantiles, _most(levels)[: quantiles.shape[1], None])
    return tuple(
        _hour(quantiles[row], levels.capacity, now_s, int(horizon), has_queue=has_queue)
        for row, horizon in enumerate(horizons)
    )


def _most(levels: Levels) -> Floats:
    """Return the most that is ever said of each quantity."""
    seen = [float(levels.of(target).max()) for target in TARGETS]
    waits = np.nan_to_num(levels.wait).max(0, initial=np.log1p(_DAY_S))
    beyond = np.log(_BEYOND)
    return np.array([max(1.0, seen[0]), max(seen[1], 1.0) + beyond, max(seen[2], 1.0) + beyond, *(waits + beyond)])


def _hour(quantiles: Floats, capacity: float, now_s: float, horizon: int, *, has_queue: bool) -> Hour:
    held, queue, work = quantiles[: len(TARGETS)]
    waits = quantiles[len(TARGETS) :]
    return Hour(
        ahead_h=horizon,
        at_ms=round((now_s + horizon * HOUR_S) * 1000),
        utilisation=_range(held),
        queue_length=_range(np.expm1(queue)) if has_queue else None,
        waiting_hours=_range(machine_hours(work) * capacity) if has_queue else None,
        wait_s={size: _range(np.expm1(waits[place])) for place, size in enumerate(CLASSES)}
        if has_queue and len(waits)
        else None,
    )


def _range(values: Floats) -> Range:
    return Range(*(float(f"{value:.6g}") for value in np.maximum(values, 0.0)))


def _horizons(horizon_h: int, step_h: int) -> Ints:
    if not 1 <= horizon_h <= LONGEST_H:
        raise UsageError(
            f"A load forecast cannot reach {horizon_h} hours ahead", expected=f"1 to {LONGEST_H} whole hours"
        )
    if not 1 <= step_h <= horizon_h:
        raise UsageError(
            f"A step of {step_h} hours does not fit into {horizon_h}", expected="a whole hour, up to the horizon"
        )
    return np.arange(step_h, horizon_h + 1, step_h, dtype=np.int64)


def _now_s(trace: Trace, at_ms: int | None) -> float:
    from presage.simulator.present import present_state

    first = trace.jobs["submit_ms"].min()
    if not isinstance(first, int):
        raise InputError("No job says when it was submitted", expected="jobs with submit times")
    now_s = (present_state(trace).now_ms if at_ms is None else at_ms) / 1000
    if now_s < first / 1000:
        raise UsageError(
            "The instant lies before the first submit of the log",
            expected="an instant of which the log has a past",
            remedy="Choose a later one with --at",
        )
    if now_s > _FAR_S:
        raise UsageError("The instant lies thousands of years ahead", expected="one near the end of the log")
    return now_s


def _forecast_scope(scope: Scope, now_s: float, horizons: Ints, model: LoadModel) -> ScopeForecast:
    extracted = extract_jobs(scope.jobs.filter(pl.col("submit_ms") <= now_s * 1000), scope.amount)
    jobs = extracted.jobs.known_at(now_s)
    capacity = scope.capacity or peak_amount(jobs) or float(jobs.amount.max())
    # Always all hours, so that what is said of one does not depend on which others were asked for.
    site = past_site(jobs, capacity, now_s, np.arange(1, LONGEST_H + 1))
    quantiles = _quantiles(model, site)[horizons - 1]
    notes = list(extracted.notes)
    if scope.capacity is None:
        notes.append(f"the capacity is not known: the most {scope.unit} that were held at once stand for it")
    if len(site.levels) < _SHORT_H:
        notes.append(f"the past is only {len(site.levels)} h long: intervals are those of other clusters")
    waits = jobs.begin_s > now_s
    runs = jobs.started & (jobs.end_s > now_s)
    return ScopeForecast(
        kind=scope.kind,
        name=scope.name,
        unit=scope.unit,
        capacity=capacity,
        capacity_known=scope.capacity is not None,
        past_h=len(site.levels),
        running=int(runs.sum()),
        waiting=int(waits.sum()),
        utilisation=float(f"{jobs.amount[runs].sum() / capacity:.6g}"),
        waiting_hours=float(f"{(jobs.amount * jobs.plan_s)[waits].sum() / HOUR_S:.6g}"),
        hours=hours_of(quantiles, site.levels, now_s, horizons, has_queue=extracted.has_starts),
        notes=tuple(notes),
    )


def _quantiles(model: LoadModel, site: Site) -> Floats:
    """Return (horizons, quantities, 3) at the last origin; a model that knows no waits gives the targets only."""
    if isinstance(model, Learned):
        return model.settle(site).forecast(site.rows[-1])
    last = np.array([len(site.origins) - 1])
    return np.stack([model.forecast(site, target, last)[0] for target in QUANTITIES[: len(TARGETS)]], 1)
