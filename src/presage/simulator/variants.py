"""What may be changed in a what-if: the machine, the policy, and when, how long and how many jobs come.

A variant is a name and some changes, `KEY=VALUE` as people write them:

    nodes, processors   256 (so many), +32, -32, +10%, -10%, x1.5; on pooled processors a node is its share of them
    policy              sjf, sjf+easy
    backfill            none, easy, easy-sjbf, conservative
    load                1.2: the same jobs arrive 1.2 times as fast
    arrivals            poisson, even, shuffled: the same jobs, other gaps, the same first and last arrival
    limits              exact (the run time), x1.5, max=24h
    burst               200@2d: copies of 200 jobs drawn from the trace, all 2 days after the first submit
    partition, queue    only the jobs of this one; the machine keeps its size
    oversized           drop: leave out jobs larger than the changed machine, which are an error otherwise
    seed                7: of this variant's draws

Changes take effect in the order of `KEYS`, however they are written. A job without a limit counts as if it had
asked for exactly its run time, as everywhere in the simulator. The jobs themselves are never redrawn.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError, UnknownNameError, UsageError
from presage.policies import BACKFILLINGS, Policy
from presage.traces.schema import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from presage.traces import Trace

    Change = Callable[["Scenario", int], "Scenario"]
    """Takes a scenario and a seed; returns another scenario."""

PATTERNS = ("poisson", "even", "shuffled")
_TIMES = ("submit_ms", "eligible_ms", "start_ms", "end_ms", "deadline_ms")
_UNITS_S = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *(s|min|m|h|d|w)?")
_AMOUNT = re.compile(r"(?P<sign>[-+x]?)(?P<number>\d+(?:\.\d+)?)(?P<percent>%?)")
_BURST = re.compile(r"(?P<count>\d{1,9}) *@ *(?P<at>.+)")
_LONGEST_S = 1000 * 365 * 86_400
_LARGEST_FACTOR = 1e6
_MOST_PROCESSORS = 10**12
_MOST_COPIES = 10**7
# A draw has a stream of its own, so that one change does not shift the draws of another.
_ARRIVAL_STREAM, _BURST_STREAM = 1, 2


@dataclass(frozen=True)
class Scenario:
    """What is simulated: a trace on a machine under a policy."""

    trace: Trace
    processors: int
    policy: Policy


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
        if {"nodes", "processors"} <= {*keys}:
            raise UsageError(
                f"The variant {self.name!r} sets nodes and processors", expected="one size of the machine"
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


def scale_load(trace: Trace, factor: float) -> Trace:
    """Return the trace with every gap between arrivals divided by `factor`; the first submit stays.

    The offered load, work per processor and second between first and last submit, is multiplied by `factor`.
    """
    submit_ms = _submits(trace)
    return _with_submits(trace, submit_ms[0] + (submit_ms - submit_ms[0]) / factor)


def redraw_arrivals(trace: Trace, pattern: str, seed: int = 0) -> Trace:
    """Return the trace with the same jobs in the same order and other gaps; first and last submit stay.

    `poisson`: independent of each other, as a Poisson process would have it; `even`: all alike; `shuffled`: the
    trace's own gaps in another order, without its days and weeks.
    """
    submit_ms = _submits(trace)
    first, last = float(submit_ms[0]), float(submit_ms[-1])
    rng = np.random.default_rng([seed, _ARRIVAL_STREAM])
    if pattern == "even":
        drawn = np.linspace(first, last, len(submit_ms))
    elif pattern == "shuffled":
        drawn = first + np.concatenate([[0.0], np.cumsum(rng.permutation(np.diff(submit_ms)))])
    else:
        # Given their number, the arrivals of a Poisson process are uniform.
        inner = rng.uniform(first, last, max(len(submit_ms) - 2, 0))
        drawn = np.sort(np.concatenate([[first], inner, [last]]))[: len(submit_ms)]
    return _with_submits(trace, drawn)


def limit_to_run(trace: Trace) -> Trace:
    """Return the trace in which every job asked for exactly its run time."""
    return trace.with_jobs(trace.jobs.with_columns(limit_s="run_s"))


def scale_limits(trace: Trace, factor: float) -> Trace:
    """Return the trace with every limit multiplied by `factor`."""
    return trace.with_jobs(trace.jobs.with_columns(limit_s=pl.coalesce("limit_s", "run_s") * factor))


def cap_limits(trace: Trace, maximum_s: float) -> Trace:
    """Return the trace with no limit above `maximum_s`; run times stay, so a job may then overrun its limit."""
    limit = pl.coalesce("limit_s", "run_s")
    return trace.with_jobs(trace.jobs.with_columns(limit_s=pl.min_horizontal(limit, pl.lit(maximum_s))))


def add_burst(trace: Trace, count: int, at_s: float, seed: int = 0) -> Trace:
    """Return the trace with copies of `count` jobs, drawn with replacement, `at_s` after the first submit.

    All copies arrive at that instant, behind the trace's own arrivals of it, with ids `burst-1`, `burst-2`, ….
    """
    submit_ms = _submits(trace)
    drawn = np.random.default_rng([seed, _BURST_STREAM]).integers(len(trace), size=count)
    taken = {*trace.jobs["job_id"].filter(trace.jobs["job_id"].str.starts_with("burst-"))}
    numbers = (number for number in range(1, count + len(taken) + 1) if f"burst-{number}" not in taken)
    ids = [f"burst-{number}" for number, _ in zip(numbers, range(count), strict=False)]
    moved_ms = pl.lit(int(submit_ms[0]) + round(at_s * 1000)) - pl.col("submit_ms")
    copies = trace.jobs[drawn.tolist()].with_columns(
        [pl.col(name) + moved_ms for name in _TIMES] + [pl.Series("job_id", ids, pl.String)]
    )
    jobs = pl.concat([trace.jobs, copies]).sort("submit_ms", maintain_order=True)
    return trace.with_jobs(jobs)


def restrict(trace: Trace, column: str, name: str) -> Trace:
    """Return the trace with only the jobs whose partition or queue is `name`. Raises UnknownNameError."""
    jobs = trace.jobs.filter(pl.col(column) == name)
    if not len(jobs):
        known = [*trace.jobs[column].drop_nulls().unique().sort()]
        raise UnknownNameError(f"{column} with jobs in this trace", name, known)
    return trace.with_jobs(jobs)


def drop_oversized(trace: Trace, processors: int) -> Trace:
    """Return the trace without the jobs that need more than `processors`."""
    return trace.with_jobs(trace.jobs.filter(size() <= processors))


def parse_seconds(text: str) -> float:
    """Return the seconds of a text like 90, 90s, 15min, 24h, 2d or 1w. Raises UsageError."""
    found = _DURATION.fullmatch(text.strip().lower())
    seconds = float(found[1]) * _UNITS_S[found[2] or ""] if found else math.inf
    if seconds > _LONGEST_S:
        raise UsageError(
            f"{text!r} is no length of time",
            expected="a number with s, min, h, d or w, like 24h, below 1000 years",
        )
    return seconds


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
    return lambda scenario, _: replace(scenario, trace=scale_load(scenario.trace, factor))


def _arrivals(text: str) -> Change:
    if text not in PATTERNS:
        raise UnknownNameError("arrival pattern", text, PATTERNS)
    return lambda scenario, seed: replace(scenario, trace=redraw_arrivals(scenario.trace, text, seed))


def _limits(text: str) -> Change:
    if text == "exact":
        return lambda scenario, _: replace(scenario, trace=limit_to_run(scenario.trace))
    if text.startswith("max="):
        maximum_s = parse_seconds(text.removeprefix("max="))
        return lambda scenario, _: replace(scenario, trace=cap_limits(scenario.trace, maximum_s))
    if text.startswith("x"):
        factor = _positive("limits", text.removeprefix("x"))
        return lambda scenario, _: replace(scenario, trace=scale_limits(scenario.trace, factor))
    raise UsageError(f"limits cannot be {text!r}", expected="exact, a factor like x1.5, or a maximum like max=24h")


def _burst(text: str) -> Change:
    found = _BURST.fullmatch(text)
    if not found or not 1 <= int(found["count"]) <= _MOST_COPIES:
        raise UsageError(
            f"burst cannot be {text!r}", expected="jobs@time after the first submit, like 200@2d or 50@90min"
        )
    count, at_s = int(found["count"]), parse_seconds(found["at"])
    return lambda scenario, seed: replace(scenario, trace=add_burst(scenario.trace, count, at_s, seed))


def _partition(text: str) -> Change:
    return lambda scenario, _: replace(scenario, trace=restrict(scenario.trace, "partition", text))


def _queue(text: str) -> Change:
    return lambda scenario, _: replace(scenario, trace=restrict(scenario.trace, "queue", text))


def _oversized(text: str) -> Change:
    if text != "drop":
        raise UsageError(f"oversized cannot be {text!r}", expected="drop")
    return lambda scenario, _: replace(scenario, trace=drop_oversized(scenario.trace, scenario.processors))


def _seed(text: str) -> Change:
    if not re.fullmatch(r"\d{1,18}", text):
        raise UsageError(f"seed cannot be {text!r}", expected="a whole number from 0 on")
    return lambda scenario, _: scenario


def _failures(_text: str) -> Change:
    raise UsageError(
        "Failures of nodes cannot be simulated on pooled processors, which have no nodes",
        remedy="Leave them out, or take away what is down on average with nodes=-5%",
    )


KEYS: dict[str, Callable[[str], Change]] = {
    "partition": _partition,
    "queue": _queue,
    "arrivals": _arrivals,
    "load": _load,
    "burst": _burst,
    "limits": _limits,
    "nodes": _nodes,
    "processors": _processors,
    "oversized": _oversized,
    "policy": _policy,
    "backfill": _backfill,
    "seed": _seed,
}
"""What can be changed, in the order in which changes take effect."""


def _parse(key: str, value: str) -> Change:
    if key == "failures":
        return _failures(value)
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


def _submits(trace: Trace) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    submits = trace.jobs["submit_ms"]
    if not len(submits) or submits.null_count():
        raise InputError(
            "The arrivals cannot be changed: jobs have no submit time",
            remedy="Clean the trace first with the rule drop-unsubmitted",
        )
    return submits.to_numpy().astype(np.int64)


def _with_submits(trace: Trace, submit_ms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Trace:
    """Return the trace with other submits in the same order; all times of a job move with its submit."""
    moved_ms = pl.Series(np.round(submit_ms).astype(np.int64)) - trace.jobs["submit_ms"]
    jobs = trace.jobs.with_columns([trace.jobs[name] + moved_ms for name in _TIMES])
    # Attempts and snapshots tell of the times as they were.
    moved = replace(trace, attempts=trace.attempts.clear(), snapshots=trace.snapshots.clear())
    return moved.with_jobs(jobs)
