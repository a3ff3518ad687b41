"""What if: a trace as it is and with changes, side by side, and whether the differences are more than chance.

All runs have the same jobs and the same seeds (common random numbers), so that they differ by the changes alone.
They have one kind of machine too: a pool of processors or, as soon as one variant has failures, equal nodes
(`presage.simulator.failing_nodes`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from presage.errors import InputError, UsageError
from presage.fanout import fan_out
from presage.policies import Policy
from presage.simulator.assessment import COLUMNS
from presage.simulator.comparison import Comparison, Difference, compare
from presage.simulator.failing_nodes import lasting, processors_per_node, simulate_on_nodes
from presage.simulator.simulation import machine_size, simulate
from presage.simulator.variants import Scenario, Variant, room
from presage.traces import Trace
from presage.traces.plots import Contender, Contest, Result
from presage.traces.schema import conform, size
from presage.traces.statistics import queue_length_over_time, time_zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from presage.simulator.detailed import Disruptions
    from presage.simulator.metrics import Metrics
    from presage.simulator.partitions import Partition

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
_DRAWN = (
    "mean_wait_s", "p90_wait_s", "p99_wait_s", "max_wait_s", "mean_bounded_slowdown", "starved_share",
    "late_share", "missed_deadline_share", "user_slowdown_gini", "makespan_s",
)  # fmt: skip
"""What pictures show of all that is compared; of each of these less is better."""
_SHOWN_SHARE = 0.999
"""A few very long jobs would squeeze a picture over time."""
_WHOLE_RUN = ("mean_queue_length", "max_queue_length", "utilization", "makespan_s")


@dataclass(frozen=True)
class Run:
    """One scenario, simulated."""

    name: str
    policy: Policy
    processors: int
    metrics: Metrics
    """Of all its jobs, those included that other runs do not have."""
    jobs: pl.DataFrame
    """The columns of `assessment.COLUMNS`; on nodes, those of `failing_nodes.lasting`."""
    schedule: Trace | None = None
    """As a trace, if it was asked for."""
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    """By name, if the machine had several."""
    nodes: int | None = None
    """How many equal nodes the machine had; None if it was a pool."""
    disruptions: Disruptions | None = None
    """What failures did, on nodes."""

    def to_dict(self) -> dict[str, Any]:
        """Return policy, machine and metrics for JSON."""
        document = {"policy": str(self.policy), "processors": self.processors, **self.metrics.to_dict()}
        if self.partitions:
            document["partitions"] = {name: part.to_dict() for name, part in self.partitions.items()}
        if self.disruptions is not None:
            document |= {"nodes": self.nodes, "disruptions": asdict(self.disruptions)}
        return document


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

    def contest(self, trace: Trace) -> Contest:
        """Return what a picture of the answer is drawn from; `trace` is what was asked about."""
        return Contest(
            title=f"{trace.manifest.name or 'Trace'}: what if",
            headline=f"baseline {self.baseline.policy} on {self.baseline.processors:,} processors, "
            f"{self.baseline.metrics.jobs:,} jobs",
            baseline=_contender(self.baseline, trace),
            contenders=tuple(
                _contender(outcome.run, trace, outcome.comparison.differences) for outcome in self.outcomes
            ),
            dated=trace.manifest.absolute_time,
            time_zone=time_zone_of(trace),
        )

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
    sla_s: float | None = None,
    engine: str = "serial",
    workers: int | None = None,
    keep_schedules: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Simulate `trace` under `policy` on `processors`, and again with each variant, and compare.

    A variant may be written as text (see `Variant.parse`). `seed` is that of all draws: bursts, arrivals
    and failures of variants that name no seed of their own, and the intervals. `order_by`, `plan_by` and `kill`
    are as in `simulate`; `warm_up`, `cool_down` and `sla_s` as in `compare`; `engine`, `workers` and `progress` as
    in `fan_out`.

    Raises UsageError if variants share a name or none is given, InputError if a job does not fit on a changed
    machine, and what `simulate`, `Variant` and, if a variant has failures, `processors_per_node` and
    `simulate_detailed` raise.
    """
    chosen = [Variant.parse(variant) if isinstance(variant, str) else variant for variant in variants]
    if not chosen:
        raise UsageError("There is nothing to change", expected="at least one variant")
    check_names([variant.name for variant in chosen])
    parsed = Policy.parse(policy) if isinstance(policy, str) else policy
    base = Scenario(trace, machine_size(trace, processors), parsed)
    scenarios = {BASELINE: base, **{variant.name: variant.apply(base, seed) for variant in chosen}}
    for name, scenario in scenarios.items():
        check_fits(name, scenario, base)
    node = processors_per_node(base, scenarios)
    tasks = [
        _Task(name, scenario, order_by, plan_by, kill, keep_schedules, node)
        for name, scenario in scenarios.items()
    ]
    if not keep_schedules:
        tasks = [task.slimmed() for task in tasks]
    baseline, *runs = fan_out(_run, tasks, engine=engine, workers=workers, progress=progress)
    trims = (warm_up, cool_down)
    outcomes = [
        VariantOutcome(variant, run, _comparison(baseline, run, trims, sla_s, seed))
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
    node: int | None
    """The processors of one node; None: they are pooled."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What a simulation reads of the jobs."""
        trace = self.scenario.trace
        more = [self.order_by, self.plan_by, *(["partition"] if self.scenario.partitions else [])]
        return tuple(name for name in dict.fromkeys([*_SIMULATED, *more]) if name in trace.jobs.columns)

    def slimmed(self) -> _Task:
        """Return the task with only the columns that a simulation reads; a whole log is a lot to send."""
        trace = self.scenario.trace
        slim = Trace(trace.jobs.select(self.columns), trace.manifest)
        return replace(self, scenario=replace(self.scenario, trace=slim))


def _run(task: _Task) -> Run:
    trace = replace(task.scenario.trace, jobs=conform(task.scenario.trace.jobs, "jobs"))
    whole = replace(task, scenario=replace(task.scenario, trace=trace))
    return _run_pooled(whole) if task.node is None else _run_on_nodes(whole, task.node)


def _run_pooled(task: _Task) -> Run:
    scenario = task.scenario
    result = simulate(
        scenario.trace,
        scenario.policy,
        processors=None if scenario.partitions else scenario.processors,
        partitions=scenario.partitions,
        order_by=task.order_by,
        plan_by=task.plan_by,
        kill=task.kill,
    )
    jobs = result.trace.jobs.select(COLUMNS)
    schedule = result.trace if task.keep else None
    return Run(
        task.name, result.policy, result.processors, result.metrics, jobs, schedule, partitions=result.partitions
    )


def _run_on_nodes(task: _Task, node: int) -> Run:
    scenario = task.scenario
    result = simulate_on_nodes(
        scenario, node, columns=task.columns, order_by=task.order_by, plan_by=task.plan_by, kill=task.kill
    )
    return Run(
        task.name,
        scenario.policy,
        scenario.processors,
        result.metrics,
        lasting(result.trace.jobs).select(COLUMNS),
        result.trace if task.keep else None,
        nodes=scenario.processors // node,
        disruptions=result.disruptions,
    )


def _comparison(baseline: Run, run: Run, trims: tuple[float, float], sla_s: float | None, seed: int) -> Comparison:
    warm_up, cool_down = trims
    compared = compare(baseline.jobs, run.jobs, warm_up=warm_up, cool_down=cool_down, sla_s=sla_s, seed=seed)
    whole = {
        name: Difference(float(getattr(baseline.metrics, name)), float(getattr(run.metrics, name)))
        for name in _WHOLE_RUN
    }
    before, after = baseline.disruptions, run.disruptions
    if before is not None and after is not None:
        whole["interruptions"] = Difference(float(before.node_failures), float(after.node_failures))
        whole["lost_cpu_s"] = Difference(before.lost_cpu_s, after.lost_cpu_s)
    return replace(compared, differences={**compared.differences, **whole})


def _contender(run: Run, trace: Trace, differences: Mapping[str, Difference] | None = None) -> Contender:
    start_ms = pl.col("submit_ms") + (pl.col("wait_s") * 1000).round().cast(pl.Int64)
    jobs = conform(run.jobs.select("job_id", "submit_ms", "end_ms", start_ms=start_ms), "jobs")
    nearly_last_ms = run.jobs["end_ms"].quantile(_SHOWN_SHARE, "higher")
    until_ms = None if nearly_last_ms is None else int(nearly_last_ms)
    queue = queue_length_over_time(Trace(jobs, trace.manifest), until_ms=until_ms)
    results = [
        Result(
            metric=name.replace("_", " ").removesuffix(" s"),
            baseline=each.baseline,
            value=each.variant,
            unit="seconds" if name.endswith("_s") else "share" if name.endswith("_share") else "number",
            ratio_low=each.ratio_low,
            ratio_high=each.ratio_high,
            less_is_better=name in _DRAWN,
        )
        for name, each in sorted((differences or {}).items(), key=lambda item: _place(item[0]))
    ]
    return Contender(run.name, run.jobs["wait_s"].to_numpy(), queue, tuple(results))


def _place(metric: str) -> int:
    """Return where a metric stands in a picture; sorting by it keeps the order of those that are not drawn."""
    return _DRAWN.index(metric) if metric in _DRAWN else len(_DRAWN)


def check_fits(name: str, scenario: Scenario, base: Scenario) -> None:
    """Raise InputError if a job is larger than the machine, or the partition, that a variant has changed."""
    if scenario.processors == base.processors and scenario.partitions == base.partitions:
        return
    jobs = scenario.trace.jobs
    if scenario.now_ms is not None:
        jobs = jobs.filter(pl.col("start_ms").is_null())  # those that run are counted together
    larger = jobs.select("partition", wanted=size(), room=room(scenario)).filter(pl.col("wanted") > pl.col("room"))
    if len(larger):
        partition, wanted, has = larger.sort("wanted").row(-1)
        where = f" in the partition {partition!r}" if scenario.partitions else ""
        raise InputError(
            f"A job needs {wanted:,.0f} processors and the variant {name!r} has {has:,}{where}",
            remedy="Say oversized=drop in the variant to leave such jobs out of it",
        )


def check_names(names: list[str]) -> None:
    """Raise UsageError if variants share a name, or have the baseline's."""
    for name in names:
        if name == BASELINE or names.count(name) > 1:
            raise UsageError(f"The name {name!r} is taken", expected="variants with names of their own")
