"""What-if on nodes that fail.

As soon as one variant has failures, the baseline and all other variants run on nodes too, so that the changes
alone make the difference. The machine of the baseline is divided into equal nodes; a variant whose machine is
larger or smaller has more or fewer of the same. Of a job only its processors count: it takes as few nodes as hold
it. Runs with the same times and the same seed meet the same failures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import InputError, UsageError
from presage.simulator.detailed import Conditions, simulate_detailed
from presage.simulator.equal_nodes import on_equal_nodes
from presage.simulator.jobs import jobs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from presage.simulator.detailed import DetailedSimulation
    from presage.simulator.variants import Scenario
    from presage.traces import Trace

NOTHING = Conditions(dependencies=False)
"""What happens where nothing fails; the other simulations of a what-if know no dependencies either."""
_BACKFILLINGS = ("none", "easy")
_MOST_NODES = 100_000
_MOST_FAILURES = 300_000
_WEEK_MS = 604_800_000
_HOUR_MS = 3_600_000


def processors_per_node(base: Scenario, scenarios: Mapping[str, Scenario]) -> int | None:
    """Return how large the nodes of all scenarios are, or None if nothing fails in any, so that a pool will do.

    The nodes are those of the machine of `base`. Raises UsageError if they are not known, if a machine cannot be
    divided into them, and if a scenario cannot be simulated on nodes.
    """
    if all(scenario.conditions is None for scenario in scenarios.values()):
        return None
    each = _node_size(base, {scenario.nodes for scenario in scenarios.values() if scenario.nodes is not None})
    for name, scenario in scenarios.items():
        _check(name, scenario, each)
        _check_number(name, scenario, scenario.processors // each)
    return each


def _node_size(base: Scenario, named: set[int]) -> int:
    if len(named) > 1:
        numbers = " and ".join(f"{number:,}" for number in sorted(named))
        raise UsageError(f"Variants divide the machine into {numbers} nodes", expected="the same nodes for all")
    nodes = next(iter(named), base.trace.manifest.machine.nodes)
    if not nodes or base.processors % nodes:
        problem = f"{base.processors:,} processors are not {nodes:,} equal nodes" if nodes else None
        raise UsageError(
            problem or "The trace does not say how many nodes its machine has",
            expected="a number of nodes that divides the processors",
            remedy="Name it, like failures=500h/4h@32",
        )
    return base.processors // nodes


def _check(name: str, scenario: Scenario, each: int) -> None:
    if scenario.partitions is not None:
        raise UsageError(
            f"{name!r} has partitions, which cannot be simulated together with failures",
            remedy="Ask about them one after the other",
        )
    if scenario.policy.backfilling not in _BACKFILLINGS:
        raise UsageError(
            f"{name!r} has the backfilling {scenario.policy.backfilling!r}, which nodes do not have",
            expected=f"one of {', '.join(_BACKFILLINGS)}",
        )
    if scenario.processors % each:
        raise UsageError(
            f"{name!r} has {scenario.processors:,} processors, which are no whole nodes of {each:,}",
            expected=f"a multiple of {each:,}",
        )
    if scenario.processors // each > _MOST_NODES:
        raise UsageError(
            f"{name!r} has {scenario.processors // each:,} nodes",
            expected=f"at most {_MOST_NODES:,} that may fail",
        )


def _check_number(name: str, scenario: Scenario, nodes: int) -> None:
    """Raise UsageError if there are more failures than can be drawn."""
    failures = scenario.conditions.failures if scenario.conditions else None
    if failures is None or failures.node_mtbf_h is None:
        return
    submit_ms, run_ms = pl.col("submit_ms"), pl.col("run_s") * 1000
    span_ms = scenario.trace.jobs.select(submit_ms.max() - submit_ms.min() + run_ms.max()).item() or 0
    number = nodes * (span_ms + _WEEK_MS) / ((failures.node_mtbf_h + failures.node_repair_h) * _HOUR_MS)
    if number > _MOST_FAILURES:
        raise UsageError(
            f"{name!r} means about {number:,.0f} failures of {nodes:,} nodes",
            expected=f"at most {_MOST_FAILURES:,}",
            remedy="Let nodes fail less often, or make them fewer and larger",
        )


def simulate_on_nodes(
    scenario: Scenario, each: int, *, columns: tuple[str, ...], order_by: str, plan_by: str, kill: bool
) -> DetailedSimulation:
    """Return the schedule on nodes of `each` processors; options as in `simulate`.

    `columns` are those of the jobs that count; the others stand in the schedule as they were. Raises InputError if
    a job lacks something or is larger than the machine.
    """
    trace = scenario.trace
    jobs = jobs_of(trace, order_by=order_by, plan_by=plan_by)
    largest = int(jobs.processors.max())
    if largest > scenario.processors:
        raise InputError(
            f"A job needs {largest:,} processors and the machine has {scenario.processors:,}",
            remedy="Drop such jobs with --clean archive, or give the machine more with --processors",
        )
    plain = trace.jobs.with_columns(
        pl.lit(None, kind).alias(name) for name, kind in trace.jobs.schema.items() if name not in columns
    )
    placed = on_equal_nodes(replace(trace, jobs=plain), scenario.processors // each, scenario.processors)
    policy = f"{scenario.policy.order}+{scenario.policy.backfilling}"
    result = simulate_detailed(
        placed, policy, scenario.conditions or NOTHING, order_by=order_by, plan_by=plan_by, kill=kill
    )
    return replace(result, trace=_restored(result.trace, trace.jobs))


def _restored(schedule: Trace, jobs: pl.DataFrame) -> Trace:
    """Return the schedule with all that it does not invent as it was in `jobs`."""
    invented = schedule.jobs.select(schedule.manifest.synthetic_columns)
    return schedule.with_jobs(jobs.with_columns(invented))


def lasting(schedule: pl.DataFrame) -> pl.DataFrame:
    """Return the jobs of a schedule that ended; each runs from its first start to its end."""
    ended = schedule.filter(pl.col("end_ms").is_not_null())
    return ended.with_columns(run_s=(pl.col("end_ms") - pl.col("submit_ms")) / 1000 - pl.col("wait_s"))
