"""What if: a trace as it is and with changes, side by side, and whether the differences are more than chance.

All runs have the same jobs and the same seeds (common random numbers), so that they differ by the changes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from presage.errors import InputError, UsageError
from presage.fanout import fan_out
from presage.policies import Policy
from presage.simulator.comparison import COLUMNS, Comparison, Difference, compare
from presage.simulator.simulation import machine_size, simulate
from presage.simulator.variants import Scenario, Variant
from presage.traces import Trace
from presage.traces.schema import conform, size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from presage.simulator.metrics import Metrics

BASELINE = "baseline"
_SIMULATED = (
    "job_id",
    "user",
    "submit_ms",
    "run_s",
    "limit_s",
    "deadline_ms",
    "cpus_req",
    "cpus_alloc",
    "outcome",
)
_WHOLE_RUN = ("utilization", "makespan_s")


@dataclass(frozen=True)
class Run:
    """One scenario, simulated."""

    name: str
    policy: Policy
    processors: int
    metrics: Metrics
    """Of all its jobs, those included that other runs do not have."""
    jobs: pl.DataFrame
    """The columns of `comparison.COLUMNS`."""
    schedule: Trace | None = None
    """As a trace, if it was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Return policy, machine and metrics for JSON."""
        return {"policy": str(self.policy), "processors": self.processors, **self.metrics.to_dict()}


@dataclass(frozen=True)
class VariantOutcome:
    """What one variant makes of the baseline."""

    variant: Variant
    run: Run
    comparison: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.variant.name,
            "changes": dict(self.variant.changes),
            "metrics": self.run.to_dict(),
            "compared_jobs": self.comparison.jobs,
            "blocks": self.comparison.blocks,
            "differences": {name: each.to_dict() for name, each in self.comparison.differences.items()},
        }


@dataclass(frozen=True)
class WhatIf:
    """A baseline and what the variants make of it, in the order given."""

    baseline: Run
    outcomes: tuple[VariantOutcome, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "baseline": self.baseline.to_dict(),
            "variants": [outcome.to_dict() for outcome in self.outcomes],
        }


def what_if(
    trace: Trace,
    variants: Sequence[Variant | str],
    *,
    policy: Policy | str = "fcfs+easy",
    processors: int | None = None,
    order_by: str = "requested",
    plan_by: str = "requested",
    kill: bool = False,
    seed: int = 0,
    warm_up: float = 0,
    cool_down: float = 0,
    engine: str = "serial",
    workers: int | None = None,
    keep_schedules: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Simulate `trace` under `policy` on `processors`, and again with each variant, and compare.

    A variant may be written as text (see `Variant.parse`). `seed` is that of all draws: bursts and arrivals of
    variants that name no seed of their own, and the intervals. `order_by`, `plan_by` and `kill` are as in
    `simulate`; `warm_up` and `cool_down` as in `compare`; `engine`, `workers` and `progress` as in `fan_out`.

    Raises UsageError if variants share a name or none is given, InputError if a job does not fit on a changed
    machine, and what `simulate` and `Variant` raise.
    """
    chosen = [Variant.parse(variant) if isinstance(variant, str) else variant for variant in variants]
    _check_names([variant.name for variant in chosen])
    parsed = Policy.parse(policy) if isinstance(policy, str) else policy
    base = Scenario(trace, machine_size(trace, processors), parsed)
    scenarios = {BASELINE: base, **{variant.name: variant.apply(base, seed) for variant in chosen}}
    tasks = [
        _Task(name, _checked(name, scenario, base), order_by, plan_by, kill, keep_schedules)
        for name, scenario in scenarios.items()
    ]
    if not keep_schedules:
        tasks = [task.slimmed() for task in tasks]
    baseline, *runs = fan_out(_run, tasks, engine=engine, workers=workers, progress=progress)
    outcomes = [
        VariantOutcome(variant, run, _comparison(baseline, run, warm_up, cool_down, seed))
        for variant, run in zip(chosen, runs, strict=True)
    ]
    return WhatIf(baseline, tuple(outcomes))


@dataclass(frozen=True)
class _Task:
    """What a worker needs to simulate one scenario."""

    name: str
    scenario: Scenario
    order_by: str
    plan_by: str
    kill: bool
    keep: bool

    def slimmed(self) -> _Task:
        """Return the task with only the columns that a simulation reads; a whole log is a lot to send."""
        trace = self.scenario.trace
        wanted = dict.fromkeys([*_SIMULATED, self.order_by, self.plan_by])
        slim = Trace(trace.jobs.select(name for name in wanted if name in trace.jobs.columns), trace.manifest)
        return replace(self, scenario=replace(self.scenario, trace=slim))


def _run(task: _Task) -> Run:
    trace = replace(task.scenario.trace, jobs=conform(task.scenario.trace.jobs, "jobs"))
    result = simulate(
        trace,
        task.scenario.policy,
        processors=task.scenario.processors,
        order_by=task.order_by,
        plan_by=task.plan_by,
        kill=task.kill,
    )
    jobs = result.trace.jobs.select(COLUMNS)
    schedule = result.trace if task.keep else None
    return Run(task.name, result.policy, result.processors, result.metrics, jobs, schedule)


def _comparison(baseline: Run, run: Run, warm_up: float, cool_down: float, seed: int) -> Comparison:
    compared = compare(baseline.jobs, run.jobs, warm_up=warm_up, cool_down=cool_down, seed=seed)
    whole = {
        name: Difference(float(getattr(baseline.metrics, name)), float(getattr(run.metrics, name)))
        for name in _WHOLE_RUN
    }
    return replace(compared, differences={**compared.differences, **whole})


def _checked(name: str, scenario: Scenario, base: Scenario) -> Scenario:
    largest = scenario.trace.jobs.select(size().max()).item()
    if largest is not None and largest > scenario.processors and scenario.processors != base.processors:
        raise InputError(
            f"A job needs {largest:,.0f} processors and the variant {name!r} has {scenario.processors:,}",
            remedy="Say oversized=drop in the variant to leave such jobs out of it",
        )
    return scenario


def _check_names(names: list[str]) -> None:
    if not names:
        raise UsageError("There is nothing to change", expected="at least one variant")
    for name in names:
        if name == BASELINE or names.count(name) > 1:
            raise UsageError(f"The name {name!r} is taken", expected="variants with names of their own")
