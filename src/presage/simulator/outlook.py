"""What comes: when the jobs that wait now will start, as the cluster is and with changes.

How long jobs will run is not known, so it is drawn many times (`presage.simulator.remaining`), and every draw is
simulated from the present state on. The tenth, fiftieth and ninetieth percentile of a job's start over the draws
are its interval. All variants have the same draws (common random numbers), so that they differ by the changes
alone.

An interval knows only of run times. Jobs that are not submitted yet may overtake those that wait, and a cluster
whose true rules are not those of the policy does something else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError, UnknownNameError, UsageError, closest
from presage.fanout import fan_out
from presage.policies import Policy
from presage.simulator.jobs import jobs_of
from presage.simulator.pooled import schedule
from presage.simulator.present import instant, occupied, present_state
from presage.simulator.remaining import HISTORY, RunTimes, run_times
from presage.simulator.requirements import require_numba
from presage.simulator.simulation import machine_size
from presage.simulator.variants import Scenario, Variant
from presage.simulator.whatif import BASELINE, check_fits, check_names
from presage.traces.schema import size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from presage.simulator.jobs import FloatArray, IntArray
    from presage.simulator.present import PresentState
    from presage.traces import Trace

SAMPLES = 200
PERCENTS = (10, 50, 90)
_CHUNKS = 4
_MOST_SAMPLES = 100_000


@dataclass(frozen=True)
class Spread:
    """The tenth, fiftieth and ninetieth percentile over the draws."""

    p10: float
    p50: float
    p90: float

    @classmethod
    def of(cls, values: FloatArray) -> Spread:
        """Return the spread of one value per draw."""
        return cls(*(float(value) for value in np.percentile(values, PERCENTS)))

    def to_dict(self) -> dict[str, float]:
        """Return it for JSON."""
        return {"p10": self.p10, "p50": self.p50, "p90": self.p90}


@dataclass(frozen=True, eq=False)
class Forecast:
    """What comes in one scenario. Times in seconds count from now."""

    name: str
    policy: Policy
    processors: int
    jobs: pl.DataFrame
    """A row per waiting job: `job_id`, `user`, `processors`, `waited_s`, `start_p10_s`, `…p50_s`, `…p90_s`."""
    drained_s: Spread
    """When the last of the jobs that wait has started."""
    mean_remaining_wait_s: Spread
    """Of the jobs that wait in all scenarios."""
    remaining_wait_s: FloatArray
    """The same of every draw."""

    def has(self, job_id: str) -> bool:
        """Return whether the job waits in this scenario."""
        return job_id in self.jobs["job_id"]

    def row(self, job_id: str) -> dict[str, Any]:
        """Return what is known of a waiting job. Raises UnknownNameError if it does not wait."""
        found = self.jobs.filter(pl.col("job_id") == job_id)
        if not len(found):
            near = closest(job_id, self.jobs["job_id"].to_list())
            raise UnknownNameError("waiting job", job_id, [near] if near else [])
        return found.row(0, named=True)

    def starts(self, job_id: str) -> Spread:
        """Return when the job will start. Raises UnknownNameError if it does not wait."""
        row = self.row(job_id)
        return Spread(*(row[f"start_p{percent}_s"] for percent in PERCENTS))

    def to_dict(self, job_ids: Sequence[str] = ()) -> dict[str, Any]:
        """Return it for JSON, with these jobs or all."""
        jobs = self.jobs.filter(pl.col("job_id").is_in([*job_ids])) if job_ids else self.jobs
        return {
            "policy": str(self.policy),
            "processors": self.processors,
            "drained_s": self.drained_s.to_dict(),
            "mean_remaining_wait_s": self.mean_remaining_wait_s.to_dict(),
            "jobs": jobs.to_dicts(),
        }


@dataclass(frozen=True, eq=False)
class Outlook:
    """What comes as the cluster is, and what each variant makes of it."""

    state: PresentState
    samples: int
    baseline: Forecast
    variants: tuple[tuple[Variant, Forecast], ...]

    def change(self, forecast: Forecast) -> Spread:
        """Return by how much the mean remaining wait differs from the baseline's, draw by draw, in seconds."""
        return Spread.of(forecast.remaining_wait_s - self.baseline.remaining_wait_s)

    def to_dict(self, job_ids: Sequence[str] = ()) -> dict[str, Any]:
        """Return it for JSON, with these jobs or all."""
        return {
            "now_ms": self.state.now_ms,
            "running": len(self.state.running),
            "waiting": len(self.state.waiting),
            "history": len(self.state.history),
            "later": self.state.later,
            "unknown": self.state.unknown,
            "samples": self.samples,
            "baseline": self.baseline.to_dict(job_ids),
            "variants": [
                {
                    "name": variant.name,
                    "changes": dict(variant.changes),
                    **forecast.to_dict(job_ids),
                    "mean_remaining_wait_change_s": self.change(forecast).to_dict(),
                }
                for variant, forecast in self.variants
            ],
        }


def what_comes(
    trace: Trace,
    variants: Sequence[Variant | str] = (),
    *,
    now_ms: int | None = None,
    policy: Policy | str = "fcfs+easy",
    processors: int | None = None,
    run_by: str = HISTORY,
    samples: int = SAMPLES,
    order_by: str = "requested",
    plan_by: str = "requested",
    kill: bool = False,
    seed: int = 0,
    engine: str = "serial",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outlook:
    """Simulate from the state of the cluster at `now_ms` on (see `present_state`), and again with each variant.

    `run_by` says how long jobs will run, as in `run_times`; unless that is from history, there is nothing to draw
    and one draw is made. `order_by`, `plan_by` and `kill` are as in `simulate`; `engine`, `workers` and `progress`
    as in `fan_out`; the same seed gives the same answer.

    Raises InputError if nobody waits, if the running jobs hold more than the machine has, or if the run time of a
    job cannot be told; UsageError for variants that need to know what will arrive; and what `what_if` raises.
    """
    chosen = [Variant.parse(variant) if isinstance(variant, str) else variant for variant in variants]
    check_names([variant.name for variant in chosen])
    if not 1 <= samples <= _MOST_SAMPLES:
        raise UsageError(f"{samples:,} draws cannot be made", expected=f"1 to {_MOST_SAMPLES:,}")
    state = present_state(trace, now_ms)
    _check_queue(state)
    parsed = Policy.parse(policy) if isinstance(policy, str) else policy
    base = Scenario(state.trace, machine_size(trace, processors), parsed, state.now_ms)
    scenarios = {BASELINE: base, **{variant.name: variant.apply(base, seed) for variant in chosen}}
    tasks = [
        _task(name, scenario, base, state, run_by, (order_by, plan_by), kill=kill, seed=seed)
        for name, scenario in scenarios.items()
    ]
    if not any(task.runs.drawn for task in tasks):
        samples = 1
    chunks = [replace(task, samples=part) for task in tasks for part in _parts(samples)]
    parts = fan_out(_starts, chunks, engine=engine, workers=workers, progress=progress)
    each = len(parts) // len(tasks)
    starts = [np.concatenate(parts[at * each : (at + 1) * each]) for at in range(len(tasks))]
    forecasts = _forecasts(state, tasks, starts)
    return Outlook(state, samples, forecasts[0], tuple(zip(chosen, forecasts[1:], strict=True)))


@dataclass(frozen=True)
class _Task:
    """Some draws of one scenario."""

    name: str
    trace: Trace
    """On an empty machine (see `occupied`); its run times are what comes on top of a drawn one."""
    policy: Policy
    processors: int
    now_ms: int
    runs: RunTimes
    run_of: IntArray
    """The place among the drawn run times of every job of the trace; the one behind the last is none."""
    knowledge: tuple[str, str]
    kill: bool
    seed: int
    samples: range = range(0)

    def drawn(self, sample: int) -> Trace:
        """Return the trace with the run times of one draw."""
        jobs = self.trace.jobs
        run_ms = (jobs["run_s"].to_numpy() * 1000).round().astype(np.int64)
        run_ms += np.append(self.runs.draw(self.seed, sample), 0)[self.run_of]
        if self.kill:
            limit_ms = (jobs["limit_s"] * 1000).fill_null(float("inf")).to_numpy()
            # A job that is beyond its limit and still runs ends next, not in the past.
            least_ms = np.where(jobs["start_ms"].is_not_null(), self.now_ms - jobs["submit_ms"] + 1, 1)
            run_ms = np.maximum(np.minimum(run_ms, limit_ms), least_ms)
        return replace(self.trace, jobs=jobs.with_columns(run_s=pl.Series(run_ms / 1000)))


def _task(
    name: str,
    scenario: Scenario,
    base: Scenario,
    state: PresentState,
    run_by: str,
    knowledge: tuple[str, str],
    *,
    kill: bool,
    seed: int,
) -> _Task:
    check_fits(name, scenario, base)
    jobs = scenario.trace.jobs
    # Jobs of the baseline come first and as they were, so that their draws do not depend on the variant.
    more = jobs.join(base.trace.jobs, on="job_id", how="anti", maintain_order="left")
    known = pl.concat([base.trace.jobs, more])
    places = known.select("job_id", _run=pl.int_range(pl.len()))
    numbered = jobs.with_columns(run_s=pl.lit(0.0)).join(places, on="job_id", how="left", maintain_order="left")
    predictions = tuple(dict.fromkeys(column for column in knowledge if column in jobs.columns))
    held = occupied(replace(scenario.trace, jobs=numbered), state.now_ms, scenario.processors, predictions)
    return _Task(
        name=name,
        trace=replace(held, jobs=held.jobs.drop("_run")),
        policy=scenario.policy,
        processors=scenario.processors,
        now_ms=state.now_ms,
        runs=run_times(state, known, run_by),
        run_of=held.jobs["_run"].fill_null(len(known)).to_numpy().astype(np.int64),
        knowledge=knowledge,
        kill=kill,
        seed=seed,
    )


def _parts(samples: int) -> list[range]:
    length = -(-samples // min(_CHUNKS, samples))
    return [range(begin, min(begin + length, samples)) for begin in range(0, samples, length)]


def _starts(task: _Task) -> IntArray:
    """Return when every job of the task's trace starts: a row per draw."""
    require_numba()
    order_by, plan_by = task.knowledge
    rows = [
        schedule(jobs_of(task.drawn(sample), order_by=order_by, plan_by=plan_by), task.processors, task.policy)
        for sample in task.samples
    ]
    return np.array(rows)


def _forecasts(state: PresentState, tasks: Sequence[_Task], starts: Sequence[IntArray]) -> list[Forecast]:
    shared = state.waiting.select("job_id")
    for task in tasks:
        shared = shared.join(task.trace.jobs, on="job_id", how="semi")
    if not len(shared):
        raise InputError("No job waits in all scenarios", expected="variants that keep some of the waiting jobs")
    compared = shared["job_id"].implode()
    waiting = state.waiting.select("job_id", _waited_s=(state.now_ms - pl.col("submit_ms")) / 1000)
    forecasts = []
    for task, start_ms in zip(tasks, starts, strict=True):
        jobs = task.trace.jobs.select("job_id", "user", processors=size()).with_row_index("_row")
        here = jobs.join(waiting, on="job_id", how="inner", maintain_order="left")
        after_s = (start_ms[:, here["_row"].to_numpy()] - state.now_ms) / 1000  # (draws, jobs)
        mine = here["job_id"].is_in(compared).to_numpy()
        percentiles = np.percentile(after_s, PERCENTS, axis=0)
        columns = [
            pl.Series(f"start_p{percent}_s", row) for percent, row in zip(PERCENTS, percentiles, strict=True)
        ]
        remaining_s = after_s[:, mine].mean(axis=1)
        forecasts.append(
            Forecast(
                task.name,
                task.policy,
                task.processors,
                here.select("job_id", "user", "processors", pl.col("_waited_s").alias("waited_s"), *columns),
                Spread.of(after_s.max(axis=1)),
                Spread.of(remaining_s),
                remaining_s,
            )
        )
    return forecasts


def _check_queue(state: PresentState) -> None:
    if not len(state.waiting):
        unknown = f", and of {state.unknown:,} it is not known when they ran" if state.unknown else ""
        raise InputError(
            f"No job waits at {instant(state.trace, state.now_ms)}{unknown}",
            expected="jobs that were submitted and have not started",
            remedy="Name another instant with --now, and do not clean the log of jobs that have not run",
        )
