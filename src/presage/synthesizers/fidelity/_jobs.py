"""Traces as the sections of a report see them: jobs with times, and people who have the same names in all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.synthesizers import _clock
from presage.synthesizers.columns import GAP, ORDERED, PEOPLE, RUN, SIZE
from presage.traces import schema
from presage.traces.statistics import time_zone_of
from presage.traces.trace import sort_by_submit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.traces import Trace

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

NUMBERS = (GAP, RUN, *ORDERED)
"""Columns in which more and less mean something."""
NOMINAL = ("queue", "partition", "qos", "kind", "preemptible", "gpu_type_req", "outcome")


def job_frame(trace: Trace) -> pl.DataFrame:
    """Return the jobs with a submit and a run time, in submit order, with `gap_s` and `cpus`; labels are text.

    Raises InputError if there are fewer than two.
    """
    numbers = [pl.col(name).cast(pl.Float64) for name in (RUN, "wait_s", *ORDERED) if name != SIZE]
    labels = [pl.col(name).cast(pl.String) for name in (*PEOPLE, *NOMINAL)]
    jobs = trace.jobs.select("submit_ms", *numbers, schema.size().alias(SIZE), *labels)
    jobs = jobs.filter(pl.col("submit_ms").is_not_null() & pl.col(RUN).is_finite() & (pl.col(RUN) >= 0))
    if len(jobs) < 2:
        raise InputError(
            f"Only {len(jobs)} of {len(trace):,} jobs have a submit time and a run time",
            expected="at least two, so that there is something to compare",
        )
    jobs = sort_by_submit(jobs)
    gap_s = (pl.col("submit_ms") - pl.col("submit_ms").shift(1)).fill_null(0) / 1000
    return jobs.with_columns(gap_s.alias(GAP))


def has(jobs: pl.DataFrame, column: str) -> bool:
    """Return whether at least one job has a value there."""
    return jobs[column].null_count() < len(jobs)


def numbers_of(jobs: pl.DataFrame, column: str) -> FloatArray:
    """Return a column of numbers; missing is NaN."""
    return jobs[column].cast(pl.Float64).fill_null(np.nan).to_numpy()


def log_numbers_of(jobs: pl.DataFrame, column: str) -> FloatArray:
    """Return the logarithms of 1 + a column of numbers; missing is NaN."""
    return np.log1p(np.maximum(numbers_of(jobs, column), 0.0))


def codes_of(frames: list[pl.DataFrame], column: str) -> list[IntArray]:
    """Return a column of labels as numbers that mean the same in all frames; missing is a label too."""
    together = pl.concat([frame[column].fill_null("") for frame in frames])
    codes = together.rank("dense").cast(pl.Int64).to_numpy() - 1
    return np.split(codes, np.cumsum([len(frame) for frame in frames])[:-1])


def hours_of_week(trace: Trace, submit_ms: IntArray) -> IntArray:
    """Return the hour of the machine's local week of each time, 0 to 167; from the log's zero if undated."""
    first_day = _clock.THURSDAY if trace.manifest.absolute_time else 0
    return _clock.hours_of_week(submit_ms, time_zone_of(trace), first_day)


def with_common_people(real: Trace, synthetic: Trace, later: Trace | None) -> tuple[Trace, Trace, Trace | None]:
    """Return the traces with people named alike, as far as that can be known.

    A synthesizer numbers people in the order in which they appear in the log, and so the log's are numbered here,
    those of the later jobs by the same numbers. Other traces stay as they are.
    """
    if "synthesizer" not in synthetic.manifest.generator:
        return real, synthetic, later
    numbers = {name: _numbers(job_names(real, name), letter) for name, letter in PEOPLE.items()}
    if later is None:
        return _renamed(real, numbers), synthetic, None
    for name, letter in PEOPLE.items():
        known = numbers[name]
        fresh = [each for each in job_names(later, name) if each not in known]
        known.update({each: f"{letter}{place}" for place, each in enumerate(fresh, len(known) + 1)})
    return _renamed(real, numbers), synthetic, _renamed(later, numbers)


def job_names(trace: Trace, column: str) -> list[str]:
    """Return the names in a column of the usable jobs, in the order of their first appearance."""
    return job_frame(trace)[column].drop_nulls().unique(maintain_order=True).to_list()


def people_are_comparable(real: Trace, synthetic: Trace) -> bool:
    """Return whether a name stands for the same person in both: same log, or numbered after it."""
    generator = synthetic.manifest.generator
    if (generator.get("privacy") or {}).get("people") == "invented":
        return False
    return "synthesizer" in generator or (not synthetic.manifest.synthetic and not real.manifest.synthetic)


def _numbers(names: list[str], letter: str) -> dict[str, str]:
    return {name: f"{letter}{place}" for place, name in enumerate(names, 1)}


def _renamed(trace: Trace, numbers: dict[str, dict[str, str]]) -> Trace:
    renamed = (
        pl.col(name).replace_strict(known, default=None, return_dtype=pl.String)
        if known
        else pl.lit(None, pl.String).alias(name)
        for name, known in numbers.items()
    )
    return replace(trace, jobs=trace.jobs.with_columns(*renamed))
