"""What a synthesizer sees of a trace: the same few columns for every kind, as codes and numbers, and the way back.

A job's submit time becomes `gap_s`, the seconds since the job before it. `cpus` is the size of the job: what it
got or what it asked for, whichever is more. Sizes and limits are categories, because people choose them from few
round values; so a synthetic job never has a size that nobody asked for. Run times are numbers.

Users, groups and accounts are numbered in order of appearance before anything is learned: no model, and no trace
that comes of one, knows who they were. Names of jobs and of programs are not learned at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.traces import schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from presage.traces import Trace

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

Label = str | float | bool | None
GAP, RUN, SIZE = "gap_s", "run_s", "cpus"
NUMBERS = (GAP, RUN)
PEOPLE = {"user": "u", "group": "g", "account": "a"}
"""Columns whose values are replaced by numbers → the letter before the number."""
ORDERED = (SIZE, "nodes_req", "tasks", "gpus_req", "mem_req_bytes", "limit_s")
CATEGORIES = (
    *PEOPLE, "queue", "partition", "qos", "kind", "preemptible", SIZE, "nodes_req", "tasks", "gpus_req",
    "gpu_type_req", "mem_req_bytes", "limit_s", "outcome",
)  # fmt: skip
"""In the order in which people and schedulers decide them; kinds that draw one after the other keep to it."""
MOST_LABELS = 1000
OTHER = "other"
KNOTS = 1025
_OFF = 1e-4
FEWEST_JOBS = 200
STEPS = (60.0, 10.0, 1.0, 0.1, 0.01, 0.001)
"""How finely numbers may be told. See `step_of`."""
LONGEST_S = 366 * 86_400.0
"""Where numbers end that may not be told by the log."""
OVER_SHARE, OVER_FACTOR, OVER_S = 0.02, 1.1, 120.0
"""Limits hold where no larger share of jobs runs that much longer than its own."""


@dataclass(frozen=True)
class Category:
    """A column of few values: code i stands for `labels[i]`. Numbers are in ascending order, missing first."""

    name: str
    labels: tuple[Label, ...]

    @property
    def ordered(self) -> bool:
        """Whether the labels are numbers, so that neighbours are alike."""
        return self.name in ORDERED

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def fit(cls, values: pl.Series, most: int = MOST_LABELS) -> Category:
        """Return the labels of a column; of more than `most` the most frequent."""
        counts = values.value_counts(sort=True)
        labels = counts[values.name].to_list()
        if len(labels) > most:
            labels = labels[:most]
            if values.name not in ORDERED and OTHER not in labels:
                labels[-1] = OTHER
        known = sorted(label for label in labels if label is not None)
        return cls(values.name, (None, *known) if None in labels else tuple(known))

    def encode(self, values: pl.Series) -> IntArray:
        """Return a code for each value: an unknown number becomes the nearest, any other the label `other`.

        Where there is no such label, it is the first.
        """
        places = {label: code for code, label in enumerate(self.labels)}
        unique = values.unique().to_list()
        code_of = {value: places.get(value, -1) for value in unique}
        for value, code in code_of.items():
            if code < 0:
                code_of[value] = self._nearest(value) if self.ordered else places.get(OTHER, 0)
        return np.fromiter((code_of[value] for value in values.to_list()), np.int64, len(values))

    def decode(self, codes: IntArray) -> pl.Series:
        """Return the labels of these codes, in the type of the canonical column."""
        dtype = pl.Float64 if self.name == SIZE else schema.JOBS[self.name]
        return pl.Series(self.name, self.labels, dtype=dtype, strict=False).gather(codes)

    def numbers(self) -> FloatArray:
        """Return the labels of an ordered column as numbers; missing is NaN."""
        return np.array([np.nan if label is None else float(label) for label in self.labels])

    def _nearest(self, value: Label) -> int:
        if value is None:
            return 0
        return int(np.nanargmin(np.abs(self.numbers() - float(value))))


@dataclass(frozen=True)
class Number:
    """A column of many values that are not negative, known by its quantiles."""

    name: str
    knots: tuple[float, ...]
    """Quantiles at equal steps from 0 to 1; equal neighbours are a value that many jobs have."""
    step: float = 1.0
    """What all values are multiples of, one of `STEPS`."""

    @classmethod
    def fit(cls, name: str, values: FloatArray) -> Number:
        """Return the quantiles of `values`."""
        knots = np.quantile(values, np.linspace(0, 1, KNOTS))
        return cls(name, tuple(knots.tolist()), step_of(values))

    @classmethod
    def public(cls, name: str) -> Number:
        """Return a number of which nothing is known but that it is whole seconds, of at most a year."""
        return cls(name, tuple(np.expm1(np.linspace(0, np.log1p(LONGEST_S), KNOTS)).tolist()))

    def to_uniform(self, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the place of each value among all, in (0, 1); one that many jobs have is drawn from its range."""
        knots = np.array(self.knots)
        steps = np.linspace(0, 1, len(knots))
        low, high = np.searchsorted(knots, values, "left"), np.searchsorted(knots, values, "right") - 1
        between = np.interp(np.log1p(values), np.log1p(knots), steps)
        least, most = steps[np.minimum(low, len(knots) - 1)], steps[np.maximum(high, 0)]
        drawn = least + (most - least) * rng.random(len(values))
        return np.clip(np.where(high > low, drawn, between), 1e-6, 1 - 1e-6)

    def from_uniform(self, places: FloatArray) -> FloatArray:
        """Return the values at these places in [0, 1]."""
        steps = np.linspace(0, 1, len(self.knots))
        values = np.expm1(np.interp(places, steps, np.log1p(np.array(self.knots))))
        return self.rounded(np.clip(values, self.knots[0], self.knots[-1]))

    def rounded(self, values: FloatArray) -> FloatArray:
        """Return the values as finely as the column tells them."""
        return multiples(np.rint(values / self.step), self.step)


@dataclass(frozen=True)
class JobTable:
    """Jobs in the order of their arrival, as a synthesizer sees them."""

    codes: dict[str, IntArray]
    """By category."""
    numbers: dict[str, FloatArray]
    """By number; always with `gap_s` and `run_s`."""
    submit_ms: IntArray | None = None
    """When the jobs came; None where only the gaps are known."""

    def __len__(self) -> int:
        return len(self.numbers[RUN])

    def rows(self, places: Any) -> JobTable:
        """Return some of the jobs; gaps stay what they were."""
        return JobTable(
            {name: values[places] for name, values in self.codes.items()},
            {name: values[places] for name, values in self.numbers.items()},
            None if self.submit_ms is None else self.submit_ms[places],
        )

    @classmethod
    def joined(cls, tables: list[JobTable]) -> JobTable:
        """Return the jobs of several tables, one after the other, without times."""
        first = tables[0]
        return cls(
            {name: np.concatenate([each.codes[name] for each in tables]) for name in first.codes},
            {name: np.concatenate([each.numbers[name] for each in tables]) for name in first.numbers},
        )


@dataclass(frozen=True)
class Columns:
    """The columns that a trace has, and what stays the same in all its jobs."""

    categories: tuple[Category, ...]
    numbers: tuple[Number, ...]
    constants: dict[str, Label] = field(default_factory=dict)
    """Columns that have one value in all jobs."""
    limits_hold: bool = False
    """Whether the log's jobs end at their limits, but for a few."""
    grace_s: float = 0.0
    """How much longer than its limit a job of this log may run where limits hold."""

    @classmethod
    def fit(cls, trace: Trace, *, public_grid: bool = False, most_labels: int = MOST_LABELS) -> Columns:
        """Return what `trace` has. Raises InputError if it is too little to learn from.

        `public_grid`: numbers get a fixed logarithmic grid instead of the log's quantiles, and limits no grace, so
        that of single jobs nothing but their labels is told. `most_labels`: of a column that has more, the most
        frequent are kept.
        """
        jobs = usable_jobs(trace)
        categories, constants = [], {}
        for name in CATEGORIES:
            if jobs[name].null_count() == len(jobs):
                continue
            if jobs[name].n_unique() == 1:
                constants[name] = jobs[name][0]
            else:
                categories.append(Category.fit(jobs[name], most_labels))
        holds, grace_s = _limits(jobs)
        if public_grid:
            return cls(tuple(categories), tuple(map(Number.public, NUMBERS)), constants, holds)
        numbers = tuple(Number.fit(name, jobs[name].to_numpy()) for name in NUMBERS)
        return cls(tuple(categories), numbers, constants, holds, grace_s)

    def category(self, name: str) -> Category | None:
        """Return the category called `name`; None where the trace has none, or one value alone."""
        return next((each for each in self.categories if each.name == name), None)

    def number(self, name: str) -> Number:
        """Return the number called `name`."""
        return next(each for each in self.numbers if each.name == name)

    def encode(self, trace: Trace, *, numbered: bool = False) -> JobTable:
        """Return the usable jobs of a trace. Raises InputError if it has too few.

        `numbered`: its people have numbers already, which is so in a synthetic trace.
        """
        jobs = usable_jobs(trace, numbered=numbered)
        return JobTable(
            {each.name: each.encode(jobs[each.name]) for each in self.categories},
            {each.name: jobs[each.name].to_numpy() for each in self.numbers},
            jobs["submit_ms"].to_numpy(),
        )

    def decode(self, table: JobTable) -> pl.DataFrame:
        """Return the jobs as canonical columns, without ids and submit times; runs end where limits hold."""
        series = {each.name: each.decode(table.codes[each.name]) for each in self.categories}
        frame = pl.DataFrame({RUN: self.number(RUN).rounded(table.numbers[RUN]), **series})
        constants = {
            name: pl.lit(value, pl.Float64 if name == SIZE else schema.JOBS[name])
            for name, value in self.constants.items()
        }
        frame = frame.with_columns(**constants)
        if self.limits_hold:
            most_s = pl.col("limit_s") + self.grace_s
            frame = frame.with_columns(pl.min_horizontal(RUN, most_s).alias(RUN))
        if SIZE in frame.columns:
            frame = frame.with_columns(pl.col(SIZE).alias("cpus_req"), pl.col(SIZE).alias("cpus_alloc")).drop(SIZE)
        return frame

    def codes_of(self, jobs: pl.DataFrame) -> dict[str, IntArray]:
        """Return the codes of jobs with canonical columns, also of such as were given another size since `decode`.

        What has one value in all jobs of the log has the code 0 where it is that. -1: no job of the log has it.
        """
        labels = {each.name: each.labels for each in self.categories}
        labels |= {name: (value,) for name, value in self.constants.items()}
        return {
            name: jobs["cpus_req" if name == SIZE else name]
            .replace_strict({label: code for code, label in enumerate(known)}, default=-1, return_dtype=pl.Int64)
            .to_numpy()
            for name, known in labels.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads, for JSON."""
        return {
            "categories": {each.name: list(each.labels) for each in self.categories},
            "numbers": {each.name: {"knots": list(each.knots), "step": each.step} for each in self.numbers},
            "constants": self.constants,
            "limits_hold": self.limits_hold,
            "grace_s": self.grace_s,
        }

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Columns:
        """Return the columns that `to_dict` described."""
        return cls(
            tuple(Category(name, tuple(labels)) for name, labels in known["categories"].items()),
            tuple(Number(name, tuple(each["knots"]), each["step"]) for name, each in known["numbers"].items()),
            dict(known["constants"]),
            bool(known["limits_hold"]),
            float(known["grace_s"]),
        )


def step_of(values: FloatArray, share: float = 1.0) -> float:
    """Return the first of `STEPS` of which such a share of the values are multiples, or the last."""
    positive = values[values > 0]
    for step in STEPS[:-1] if len(positive) else ():
        steps = positive / step
        if (np.abs(steps - np.rint(steps)) < _OFF).mean() >= share:
            return step
    return STEPS[-1] if len(positive) else 1.0


def multiples(steps: FloatArray | IntArray, step: float) -> FloatArray:
    """Return so many times the step, one of `STEPS`, without what floating-point numbers are off by."""
    found: FloatArray = np.round(steps * step, 3)
    return found


def usable_jobs(trace: Trace, *, numbered: bool = False) -> pl.DataFrame:
    """Return the jobs with a submit and a run time, people numbered, with `gap_s` and `cpus`.

    `numbered`: they have numbers already. Raises InputError if there are fewer than `FEWEST_JOBS`, or if all came
    at once.
    """
    jobs = timed_jobs(trace)
    _check_enough(jobs, len(trace))
    return jobs if numbered else jobs.with_columns(_numbered(jobs[name], PEOPLE[name]) for name in PEOPLE)


def timed_jobs(trace: Trace) -> pl.DataFrame:
    """Return the jobs with a submit and a run time, however few, with `gap_s` and `cpus`; people as they are."""
    jobs = trace.jobs.with_columns(schema.size().alias(SIZE)).filter(
        pl.col("submit_ms").is_not_null() & pl.col(RUN).is_not_null() & (pl.col(RUN) >= 0)
    )
    gap_s = (pl.col("submit_ms") - pl.col("submit_ms").shift(1)).fill_null(0) / 1000
    return jobs.with_columns(gap_s.alias(GAP), pl.col("outcome").cast(pl.String))


def _numbered(names: pl.Series, letter: str) -> pl.Series:
    """Return u1, u2, … for the names in the order of their first appearance; missing ones stay missing."""
    known = names.drop_nulls().unique(maintain_order=True).to_list()
    numbers = {name: f"{letter}{place}" for place, name in enumerate(known, 1)}
    return names.replace_strict(numbers, default=None, return_dtype=pl.String)


def _check_enough(jobs: pl.DataFrame, told: int) -> None:
    if len(jobs) < FEWEST_JOBS:
        raise InputError(
            f"Only {len(jobs):,} of {told:,} jobs have a submit time and a run time",
            expected=f"at least {FEWEST_JOBS}, so that there is something to learn",
            remedy="Give a longer log, or use `presage trace generate` for jobs after published statistics",
        )
    if jobs["submit_ms"][0] == jobs["submit_ms"][-1]:
        raise InputError("All jobs came at the same instant", expected="jobs that arrive over time")


def _limits(jobs: pl.DataFrame) -> tuple[bool, float]:
    """Return whether limits hold in this log, and by how many seconds a job may miss its own."""
    over_s = (jobs[RUN] - jobs["limit_s"]).drop_nulls()
    if not len(over_s):
        return False, 0.0
    share = jobs.select((pl.col(RUN) > OVER_FACTOR * pl.col("limit_s") + OVER_S).mean()).item()
    if share > OVER_SHARE:
        return False, 0.0
    late_s = over_s.filter((over_s > 0) & (over_s <= OVER_S))
    return True, float(late_s.quantile(0.9) or 0.0) if len(late_s) else 0.0
