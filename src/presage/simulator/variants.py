"""What may be changed in a what-if: the machine, the policy, and when, how long and how many jobs come.

A variant is a name and some changes, `KEY=VALUE` as people write them:

    nodes, processors   256 (so many), +32, -32, +10%, -10%, x1.5; on pooled processors a node is its share of them
    policy              sjf, sjf+easy
    backfill            none, easy, easy-sjbf, conservative
    load                1.2: the same jobs arrive 1.2 times as fast
    arrivals            poisson, even, shuffled: the same jobs, other gaps, the same first and last arrival;
                        shuffled-days: the same days in another order
    limits              exact (the run time), x1.5, max=24h
    burst               200@2d: copies of 200 jobs drawn from the trace, all 2 days after the first submit
    partition, queue    only the jobs of this one; the machine keeps its size
    partitions          gpu:64;cpu:512: a pool of its own for every partition, instead of one for all
    oversized           drop: leave out jobs larger than the changed machine, which are an error otherwise
    failures            500h: a node fails every 500 hours on average, and is repaired in 4; 500h/2h: in 2;
                        500h/2h@32: the machine of the baseline is 32 equal nodes, else as many as the trace says
    checkpoints         1h: with failures, interrupted jobs go on from the last full hour of their work;
                        1h/60s/120s: to save takes a minute, to load two
    seed                7: of this variant's draws

Changes take effect in the order of `KEYS`, however they are written. A job without a limit counts as if it had
asked for exactly its run time, as everywhere in the simulator. The jobs themselves are never redrawn.

Processors are pooled, unless a variant has failures: see `presage.simulator.failing_nodes`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from presage.errors import InputError, UnknownNameError, UsageError
from presage.policies import BACKFILLINGS, Policy
from presage.simulator.changes import (
    PATTERNS,
    add_burst,
    cap_limits,
    limit_to_run,
    redraw_arrivals,
    restrict,
    scale_limits,
    scale_load,
)
from presage.simulator.detailed import Checkpoints, Failures
from presage.simulator.failing_nodes import NOTHING
from presage.traces.schema import size
from presage.units import parse_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from presage.simulator.detailed import Conditions
    from presage.traces import Trace

    Change = Callable[["Scenario", int], "Scenario"]
    """Takes a scenario and a seed; returns another scenario."""

_AMOUNT = re.compile(r"(?P<sign>[-+x]?)(?P<number>\d+(?:\.\d+)?)(?P<percent>%?)")
_BURST = re.compile(r"(?P<count>\d{1,9}) *@ *(?P<at>.+)")
_FAILURES = re.compile(r"(?P<mtbf>[^/@]+)(/(?P<repair>[^/@]+))?(@ *(?P<nodes>\d{1,7}))?")
_PART = re.compile(r"(?P<name>.+):(?P<processors>[^:]+)")
_LARGEST_FACTOR = 1e6
_MOST_PROCESSORS = 10**12
_MOST_COPIES = 10**7
_MOST_OF_A_PART = 10**9
_REPAIR = "4h"


@dataclass(frozen=True)
class Scenario:
    """What is simulated: a trace on a machine under a policy."""

    trace: Trace
    processors: int
    policy: Policy
    now_ms: int | None = None
    """If the simulation starts from a present state: when that is. Jobs that have a start run then."""
    partitions: Mapping[str, int] | None = None
    """Name → processors, which together are `processors`; None: one pool for all."""
    conditions: Conditions | None = None
    """What happens to the nodes of the machine; None: nothing."""
    nodes: int | None = None
    """How many nodes the baseline's machine has as far as its conditions say; None: as many as the trace says."""


@dataclass(frozen=True)
class Variant:
    """A named set of changes. Raises UnknownNameError or UsageError for one that cannot be understood."""

    name: str
    changes: tuple[tuple[str, str], ...]
    """Pairs of key and value, each key once."""

    def __post_init__(self) -> None:
        keys = [key for key, _ in self.changes]
        for key, value in self.changes:
            _parse(key, value)
        for key in keys:
            if keys.count(key) > 1:
                raise UsageError(f"{key} is set twice in the variant {self.name!r}", expected="each key once")
        sizes = [key for key in ("nodes", "processors", "partitions") if key in keys]
        if len(sizes) > 1:
            raise UsageError(
                f"The variant {self.name!r} sets {' and '.join(sizes)}", expected="one size of the machine"
            )
        if "checkpoints" in keys and "failures" not in keys:
            raise UsageError(
                f"The variant {self.name!r} has checkpoints and no failures, so nobody needs them",
                remedy="Add failures, like failures=500h",
            )

    @classmethod
    def of(cls, settings: Iterable[str], name: str = "") -> Variant:
        """Return the variant of these `KEY=VALUE` texts, named after them unless a name is given."""
        pairs = tuple(_pair(setting) for setting in settings)
        return cls(name or ", ".join(f"{key}={value}" for key, value in pairs), pairs)

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Return the variant written as `name: key=value, key=value`; the name may be left out."""
        name, colon, settings = text.partition(":")
        if not colon or "=" in name:
            name, settings = "", text
        return cls.of([part for part in settings.split(",") if part.strip()], name.strip())

    def apply(self, scenario: Scenario, seed: int = 0) -> Scenario:
        """Return the scenario with the changes made; the same seed makes the same draws.

        Raises InputError or UsageError where the trace does not allow a change.
        """
        given = dict(self.changes)
        seed = int(given.get("seed", seed))
        for key in KEYS:
            if key in given:
                scenario = _parse(key, given[key])(scenario, seed)
        return scenario


def room(scenario: Scenario) -> pl.Expr:
    """Return how many processors a job can have at most: those of its partition, or of the whole machine."""
    if scenario.partitions is None:
        return pl.lit(scenario.processors)
    return pl.col("partition").replace_strict(dict(scenario.partitions), default=None, return_dtype=pl.Int64)


@dataclass(frozen=True)
class _Amount:
    """A number as such, or relative to another."""

    sign: str
    number: float
    percent: bool

    @classmethod
    def parse(cls, key: str, text: str) -> _Amount:
        found = _AMOUNT.fullmatch(text.replace(" ", ""))
        if not found or (found["percent"] and found["sign"] not in {"+", "-"}):
            raise UsageError(f"{key} cannot be {text!r}", expected="a size like 256, +32, -32, +10%, -10% or x1.5")
        return cls(found["sign"], float(found["number"]), bool(found["percent"]))

    def of(self, base: float) -> float:
        """Return the number that this amount makes of `base`."""
        if self.sign == "x":
            return base * self.number
        if not self.sign:
            return self.number
        change = base * self.number / 100 if self.percent else self.number
        return base + change if self.sign == "+" else base - change


def _processors(text: str) -> Change:
    amount = _Amount.parse("processors", text)
    return lambda scenario, _: _resized(scenario, amount.of(scenario.processors), text)


def _nodes(text: str) -> Change:
    amount = _Amount.parse("nodes", text)

    def change(scenario: Scenario, _: int) -> Scenario:
        nodes = scenario.trace.manifest.machine.nodes
        if amount.percent or amount.sign == "x":
            return _resized(scenario, amount.of(scenario.processors), text)
        if not nodes:
            raise UsageError(
                "The trace does not say how many nodes its machine has",
                remedy=f"Change them by a share, like nodes=+10%, or say processors={text}",
            )
        return _resized(scenario, scenario.processors * amount.of(nodes) / nodes, text)

    return change


def _resized(scenario: Scenario, processors: float, text: str) -> Scenario:
    rounded = math.floor(min(max(processors, 0), 2.0**62) + 0.5)
    if not 1 <= rounded <= _MOST_PROCESSORS:
        raise UsageError(
            f"{text} makes {scenario.processors:,} processors {rounded:,}",
            expected=f"a machine of 1 to {_MOST_PROCESSORS:,}",
        )
    return replace(scenario, processors=rounded)


def _policy(text: str) -> Change:
    policy = Policy.parse(text)
    return lambda scenario, _: replace(scenario, policy=policy)


def _backfill(text: str) -> Change:
    BACKFILLINGS.spec(text)
    return lambda scenario, _: replace(scenario, policy=Policy(scenario.policy.order, text))


def _load(text: str) -> Change:
    factor = _positive("load", text.removeprefix("x"))
    return lambda scenario, _: replace(scenario, trace=scale_load(_past(scenario, "load"), factor))


def _arrivals(text: str) -> Change:
    if text not in PATTERNS:
        raise UnknownNameError("arrival pattern", text, PATTERNS)
    return lambda scenario, seed: replace(scenario, trace=redraw_arrivals(_past(scenario, "arrivals"), text, seed))


def _past(scenario: Scenario, key: str) -> Trace:
    """Return the trace if all of its jobs are still to come. Raises UsageError in a present state."""
    if scenario.now_ms is not None:
        raise UsageError(
            f"{key} cannot be asked from the present on, because it needs to know what is still to come",
            remedy="Ask it of the whole log, or let jobs arrive with burst=200@2h",
        )
    return scenario.trace


def _limits(text: str) -> Change:
    if text == "exact":
        return lambda scenario, _: replace(scenario, trace=limit_to_run(_past(scenario, "limits=exact")))
    if text.startswith("max="):
        maximum_s = parse_seconds(text.removeprefix("max="))
        return lambda scenario, _: _relimited(scenario, cap_limits(scenario.trace, maximum_s))
    if text.startswith("x"):
        factor = _positive("limits", text.removeprefix("x"))
        return lambda scenario, _: _relimited(scenario, scale_limits(scenario.trace, factor))
    raise UsageError(f"limits cannot be {text!r}", expected="exact, a factor like x1.5, or a maximum like max=24h")


def _relimited(scenario: Scenario, changed: Trace) -> Scenario:
    """Return the scenario with the limits of `changed`, but for jobs that run already."""
    if scenario.now_ms is None:
        return replace(scenario, trace=changed)
    waits = pl.col("start_ms").is_null()
    limit_s = pl.when(waits).then(changed.jobs["limit_s"]).otherwise("limit_s")
    return replace(scenario, trace=changed.with_jobs(scenario.trace.jobs.with_columns(limit_s=limit_s)))


def _burst(text: str) -> Change:
    found = _BURST.fullmatch(text)
    if not found or not 1 <= int(found["count"]) <= _MOST_COPIES:
        raise UsageError(
            f"burst cannot be {text!r}", expected="jobs@time after the first submit, like 200@2d or 50@90min"
        )
    count, at_s = int(found["count"]), parse_seconds(found["at"])
    return lambda scenario, seed: replace(
        scenario, trace=add_burst(scenario.trace, count, at_s, seed, now_ms=scenario.now_ms)
    )


def _partition(text: str) -> Change:
    return lambda scenario, _: replace(scenario, trace=restrict(scenario.trace, "partition", text))


def _queue(text: str) -> Change:
    return lambda scenario, _: replace(scenario, trace=restrict(scenario.trace, "queue", text))


def _partitions(text: str) -> Change:
    partitions = _parse_partitions(text)

    def change(scenario: Scenario, _: int) -> Scenario:
        named = _replayed(scenario, "partitions").jobs["partition"]
        homeless = named.filter(named.is_null() | ~named.is_in([*partitions]))
        if len(homeless):
            example = next((f", like {name!r}" for name in homeless if name is not None), "")
            raise InputError(
                f"{len(homeless):,} jobs name none of the partitions {', '.join(partitions)}{example}",
                expected="every job in one of the partitions",
                remedy="Give the others too, fill the column 'partition', or keep one's jobs with partition=NAME",
            )
        return replace(scenario, processors=sum(partitions.values()), partitions=partitions)

    return change


def _parse_partitions(text: str) -> dict[str, int]:
    partitions: dict[str, int] = {}
    for part in text.split(";"):
        found = _PART.fullmatch(part.strip())
        number = found["processors"].strip() if found else ""
        if not found or not re.fullmatch(r"\d{1,10}", number) or not 1 <= int(number) <= _MOST_OF_A_PART:
            raise UsageError(
                f"partitions cannot have {part.strip()!r}",
                expected=f"NAME:PROCESSORS;NAME:PROCESSORS, like gpu:64;cpu:512, each of 1 to {_MOST_OF_A_PART:,}",
            )
        name = found["name"].strip()
        if name in partitions:
            raise UsageError(f"The partition {name!r} is given twice", expected="each name once")
        partitions[name] = int(number)
    return partitions


def _oversized(text: str) -> Change:
    if text != "drop":
        raise UsageError(f"oversized cannot be {text!r}", expected="drop")

    def change(scenario: Scenario, _: int) -> Scenario:
        kept = size() <= room(scenario)
        if scenario.now_ms is not None:
            kept |= pl.col("start_ms").is_not_null()
        return replace(scenario, trace=scenario.trace.with_jobs(scenario.trace.jobs.filter(kept)))

    return change


def _seed(text: str) -> Change:
    if not re.fullmatch(r"\d{1,18}", text):
        raise UsageError(f"seed cannot be {text!r}", expected="a whole number from 0 on")
    return lambda scenario, _: scenario


def _failures(text: str) -> Change:
    found = _FAILURES.fullmatch(text)
    if not found or (found["nodes"] is not None and not int(found["nodes"])):
        raise UsageError(
            f"failures cannot be {text!r}",
            expected="the mean time between failures of one node, with that of a repair and the nodes if need be, "
            "like 500h, 500h/4h or 500h/4h@32",
        )
    mtbf_h, repair_h = (_lasting("failures", part) / 3600 for part in (found["mtbf"], found["repair"] or _REPAIR))
    nodes = int(found["nodes"]) if found["nodes"] else None

    def change(scenario: Scenario, seed: int) -> Scenario:
        _replayed(scenario, "failures")
        failures = Failures(node_mtbf_h=mtbf_h, node_repair_h=repair_h, seed=seed)
        return replace(scenario, conditions=NOTHING.model_copy(update={"failures": failures}), nodes=nodes)

    return change


def _checkpoints(text: str) -> Change:
    every, *costs = text.split("/")
    every_s = _lasting("checkpoints", every)
    cost_s, restart_s, *more = (*map(parse_seconds, costs), *[0.0] * (2 - len(costs)))
    if more or cost_s > every_s:
        raise UsageError(
            f"checkpoints cannot be {text!r}",
            expected="the work between two, the time to save it, which is no longer, and that to load it, "
            "like 1h or 1h/60s/120s",
        )
    checkpoints = Checkpoints(every_s=every_s, cost_s=cost_s, restart_s=restart_s)

    def change(scenario: Scenario, _: int) -> Scenario:
        conditions = (scenario.conditions or NOTHING).model_copy(update={"checkpoints": checkpoints})
        return replace(scenario, conditions=conditions)

    return change


def _lasting(key: str, text: str) -> float:
    seconds = parse_seconds(text)
    if seconds <= 0:
        raise UsageError(f"{key} cannot come every {text!r}", expected="a time above 0, like 4h")
    return seconds


def _replayed(scenario: Scenario, key: str) -> Trace:
    """Return the trace if it is replayed from its beginning. Raises UsageError in a present state."""
    if scenario.now_ms is not None:
        raise UsageError(f"{key} cannot be asked from the present on", remedy="Ask it of the whole log")
    return scenario.trace


KEYS: dict[str, Callable[[str], Change]] = {
    "partition": _partition,
    "queue": _queue,
    "arrivals": _arrivals,
    "load": _load,
    "burst": _burst,
    "limits": _limits,
    "nodes": _nodes,
    "processors": _processors,
    "partitions": _partitions,
    "oversized": _oversized,
    "policy": _policy,
    "backfill": _backfill,
    "failures": _failures,
    "checkpoints": _checkpoints,
    "seed": _seed,
}
"""What can be changed, in the order in which changes take effect."""


def _parse(key: str, value: str) -> Change:
    if key not in KEYS:
        raise UnknownNameError("setting to change", key, KEYS)
    return KEYS[key](value)


def _pair(setting: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in setting.partition("="))
    if not equals or not key or not value:
        raise UsageError(f"{setting.strip()!r} is no change", expected="KEY=VALUE, like nodes=+10%")
    return key, value


def _positive(key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 1 / _LARGEST_FACTOR <= number <= _LARGEST_FACTOR:
        raise UsageError(
            f"{key} cannot be {text!r}", expected="a factor above 0, like 1.2, within a million either way"
        )
    return number
