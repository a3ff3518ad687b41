"""Whether a synthetic trace queues as the log does when both are run on the log's machine at the same load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError, UsageError
from presage.policies import Policy
from presage.simulator.jobs import Jobs
from presage.simulator.metrics import measure
from presage.simulator.pooled import schedule
from presage.simulator.requirements import require_numba
from presage.synthesizers._load import offered_load, resource_of
from presage.synthesizers.columns import RUN, SIZE
from presage.synthesizers.fidelity._figures import Figures
from presage.synthesizers.fidelity._jobs import job_frame, numbers_of

if TYPE_CHECKING:
    from presage.synthesizers.fidelity._jobs import FloatArray, IntArray
    from presage.traces import Trace

POLICIES = ("fcfs+easy", "sjf+easy")
METRICS = ("mean_wait_s", "mean_bounded_slowdown", "utilization")
WINDOW_JOBS = 6_000
FEWEST_JOBS = 60
MOST_WINDOWS = 12
LEAST_LOAD, MOST_LOAD = 1e-3, 10.0
_LONGEST_MS = 10**13  # three hundred years, so that work stays within 64 bits


@dataclass(frozen=True)
class Outcome(Figures):
    """One metric under one policy."""

    policy: str
    metric: str
    synthetic: float
    """Mean over the windows of the synthetic trace."""
    windows: tuple[float, ...]
    """In each of them."""
    real_windows: tuple[float, ...]
    """In each window of the log."""
    low: float
    """Least of the log's windows."""
    high: float
    low_10: float
    """Tenth percentile of the log's windows."""
    high_90: float
    inside: bool
    """Whether the synthetic mean lies between the least and the greatest of the log's windows."""
    windows_inside: float
    """Share of the synthetic windows that do."""


@dataclass(frozen=True)
class Replay(Figures):
    """Windows of both traces, each stretched to the same load, run on the log's machine."""

    resource: str
    """What jobs compete for: `processors` or `GPUs`."""
    capacity: int
    load: float
    window_jobs: int
    dropped: int
    """Synthetic jobs that are larger than the machine or of unknown size, left out."""
    outcomes: tuple[Outcome, ...]

    def outcome(self, policy: str, metric: str) -> Outcome:
        """Return one metric under one policy."""
        return next(each for each in self.outcomes if (each.policy, each.metric) == (policy, metric))


def replay_alike(
    real: Trace, synthetic: Trace, later: Trace | None = None, *, load: float | None = None
) -> Replay:
    """Return how both traces queue on the machine of `real` at `load` (default: that of `real`).

    Windows of 6,000 jobs, half of each in the next one; a trace that is shorter than three of them makes the
    windows shorter. Each window's arrivals are stretched about its beginning until its own load is `load`. The
    windows of `later`, if it is long enough for one, count as the log's. Raises InputError if the machine, sizes
    or load are unknown, UsageError for a load that cannot be.
    """
    check_load(load)
    require_numba()
    gpus, capacity = _machine(real)
    wanted = load if load is not None else _own_load(real)
    log, (drawn, dropped) = _jobs(real, capacity, gpus=gpus)[0], _jobs(synthetic, capacity, gpus=gpus)
    window_jobs = min(WINDOW_JOBS, len(log) // 3, len(drawn) // 3)
    if window_jobs < FEWEST_JOBS:
        raise InputError(
            "There are too few jobs whose size is known to replay",
            expected=f"at least {3 * FEWEST_JOBS} in each trace that fit the log's machine",
        )
    usual, made = (_windows(jobs, window_jobs, capacity, wanted) for jobs in (log, drawn))
    more = None if later is None else _jobs(later, capacity, gpus=gpus)[0]
    if more is not None and len(more) >= window_jobs:
        usual += _windows(more, window_jobs, capacity, wanted)
    outcomes = []
    for policy in POLICIES:
        real_found, found = _run(usual, capacity, policy), _run(made, capacity, policy)
        outcomes += [_outcome(policy, name, found[:, at], real_found[:, at]) for at, name in enumerate(METRICS)]
    return Replay("GPUs" if gpus else "processors", capacity, wanted, window_jobs, dropped, tuple(outcomes))


def check_load(load: float | None) -> None:
    """Raise UsageError unless traces can be replayed at this load."""
    if load is not None and not LEAST_LOAD <= load <= MOST_LOAD:
        raise UsageError(
            f"Traces cannot be replayed at load {load:g}", expected=f"a load from {LEAST_LOAD:g} to {MOST_LOAD:g}"
        )


def _machine(real: Trace) -> tuple[bool, int]:
    """Return whether jobs compete for GPUs, and of how many of them or of the processors."""
    machine = real.manifest.machine
    resource = resource_of(real.jobs, machine)
    if resource is None or resource == "nodes_req":
        raise InputError(
            "The log does not say how large its machine or its jobs are",
            remedy="Give the size of the machine with --processors",
        )
    gpus = resource == "gpus_req"
    capacity = int((machine.gpus if gpus else machine.cpus) or 0)
    if capacity < 1:
        raise InputError("The machine of the log is smaller than one processor", expected="at least 1")
    return gpus, capacity


def _own_load(real: Trace) -> float:
    jobs = real.jobs.filter(pl.col("submit_ms").is_not_null())
    load = offered_load(jobs, jobs["submit_ms"].to_numpy(), real.manifest.machine) if len(jobs) else None
    if not load or not np.isfinite(load):
        raise InputError("The load of the log is unknown", expected="jobs with work that come over time")
    return load


def _jobs(trace: Trace, capacity: int, *, gpus: bool) -> tuple[Jobs, int]:
    """Return the jobs that fit the machine, and how many do not or are of unknown size."""
    frame = job_frame(trace)
    amount = np.ceil(numbers_of(frame, "gpus_req" if gpus else SIZE))
    # Jobs without GPUs do not compete for them; they are no fault of the trace.
    counted = ~(amount == 0) if gpus else np.ones(len(frame), bool)
    fits = (amount >= 1) & (amount <= capacity)
    run_s = numbers_of(frame, RUN)[fits]
    limit_s = numbers_of(frame, "limit_s")[fits]
    run_ms = _milliseconds(run_s)
    limit_ms = _milliseconds(np.where(np.isfinite(limit_s), limit_s, run_s))
    jobs = Jobs(
        submit_ms=frame["submit_ms"].to_numpy()[fits],
        run_ms=run_ms,
        limit_ms=limit_ms,
        estimate_ms=limit_ms,
        plan_ms=limit_ms,
        processors=amount[fits].astype(np.int64),
    )
    return jobs, int((counted & ~fits).sum())


def _milliseconds(seconds: FloatArray) -> IntArray:
    return np.clip(np.round(seconds * 1000), 1, _LONGEST_MS).astype(np.int64)


def _windows(jobs: Jobs, window_jobs: int, capacity: int, load: float) -> list[Jobs]:
    """Return windows of the jobs, spread evenly and overlapping by about half, each at the same load."""
    room = len(jobs) - window_jobs
    count = min(MOST_WINDOWS, 1 + room // max(window_jobs // 2, 1))
    starts = np.round(np.linspace(0, room, count)).astype(np.int64)
    windows = [at_load(jobs.select(slice(int(at), int(at) + window_jobs)), capacity, load) for at in starts]
    known = [each for each in windows if each is not None]
    if not known:
        raise InputError(
            "All jobs of a window come at once, so there is no load", expected="jobs that come over time"
        )
    return known


def at_load(jobs: Jobs, capacity: int, load: float) -> Jobs | None:
    """Return the jobs with their arrivals stretched about the first, so that they offer `load` to the machine.

    None if all come at once.
    """
    first_ms, span_ms = int(jobs.submit_ms[0]), int(jobs.submit_ms[-1] - jobs.submit_ms[0])
    if span_ms <= 0:
        return None
    work = float((jobs.run_ms * jobs.processors).sum())
    factor = work / (capacity * load * span_ms)
    submit_ms = np.round((jobs.submit_ms - first_ms) * factor).astype(np.int64)
    return Jobs(submit_ms, jobs.run_ms, jobs.limit_ms, jobs.estimate_ms, jobs.plan_ms, jobs.processors)


def _run(windows: list[Jobs], capacity: int, policy: str) -> FloatArray:
    """Return the metrics of each window, one row each."""
    rule = Policy.parse(policy)
    rows = []
    for jobs in windows:
        metrics = measure(jobs, schedule(jobs, capacity, rule), capacity)
        rows.append([getattr(metrics, name) for name in METRICS])
    return np.array(rows)


def _outcome(policy: str, metric: str, synthetic: FloatArray, real: FloatArray) -> Outcome:
    low, high = float(real.min()), float(real.max())
    low_10, high_90 = np.quantile(real, [0.1, 0.9])
    mean = float(synthetic.mean())
    return Outcome(
        policy=policy,
        metric=metric,
        synthetic=mean,
        windows=tuple(synthetic.tolist()),
        real_windows=tuple(real.tolist()),
        low=low,
        high=high,
        low_10=float(low_10),
        high_90=float(high_90),
        inside=low <= mean <= high,
        windows_inside=float(((synthetic >= low) & (synthetic <= high)).mean()),
    )
