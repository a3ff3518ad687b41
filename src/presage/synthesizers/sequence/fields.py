"""The fields of a job in the order in which they are drawn, and how a job becomes words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.columns import GAP, ORDERED, RUN, SIZE
from presage.synthesizers.sequence.bins import Bins
from presage.synthesizers.sequence.features import REACH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import Columns, FloatArray, IntArray, JobTable

    Flags = NDArray[np.bool_]

LIMIT = "limit_s"
NEAR_LIMIT = 0.01
"""A job whose run time is that near to its limit, as a share of it, has been ended by it."""
REST_KNOTS = 65
LONGEST_RUN_S = 30 * 86_400.0
"""Where ranges of run times end that may not be told by the log."""


@dataclass(frozen=True)
class Fields:
    """What there is to draw: the gap, the categories but for the user, the run time."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    """How many words each field has."""
    gap: Bins
    """Of jobs after the first of their day. Words of the field go on with those of `first`."""
    first: Bins
    """How long after a day began its first job comes."""
    run: Bins
    rest_s: FloatArray
    """Run time less limit of jobs that their limit ended, as quantiles; empty where limits do not hold.

    If there are any, the last word of the run time says that the limit ended the job.
    """
    echo: FloatArray
    """Logarithms of a run time over an earlier one of the same user, sort and range, as quantiles."""
    limits_s: FloatArray
    """The limit that each word of the field `limit_s` stands for; infinite where there is none."""

    @property
    def has_limits(self) -> bool:
        """Whether the limit ends jobs."""
        return len(self.rest_s) > 0

    @property
    def sort(self) -> tuple[int, ...]:
        """The fields that say what sort a job is of: its request."""
        wanted = [place for place, name in enumerate(self.names) if name in ORDERED]
        return tuple(wanted or range(1, len(self.names) - 1)) or (len(self.names) - 1,)

    def place(self, name: str) -> int | None:
        """Return where a field stands; None where the trace does not have it."""
        return self.names.index(name) if name in self.names else None

    def words(self, table: JobTable, gap_s: FloatArray, fresh: Flags) -> IntArray:
        """Return the words of each job: (jobs, fields); `fresh` ones are the first of their day."""
        gap = np.where(fresh, len(self.gap) + self.first.encode(gap_s), self.gap.encode(gap_s))
        columns = [gap, *(table.codes[name] for name in self.names[1:-1])]
        return np.column_stack([*columns, self._run_words(table)])

    def values(self, columns: Columns) -> list[FloatArray | None]:
        """Return the numbers that the words of each field stand for; None where they stand for none."""
        known: list[FloatArray | None] = [np.concatenate([self.gap.high, self.first.high])]
        for name in self.names[1:-1]:
            category = columns.category(name)
            known.append(category.numbers() if category is not None and category.ordered else None)
        return [*known, self.run.high]

    def repetitions(self, place: int, here: IntArray, before: IntArray) -> tuple[Flags, Flags]:
        """Return which jobs can be told to repeat a field of the job before them, and which of these do.

        Words are (jobs, fields) each. Numbers repeat where they are about the same: gaps between jobs of one day,
        and run times of jobs of one sort.
        """
        last, sort = len(self.names) - 1, self.sort
        counted = np.ones(len(here), np.bool_)
        if place == 0:
            counted = np.maximum(here[:, 0], before[:, 0]) < len(self.gap)
        elif place == last:
            counted = (here[:, sort] == before[:, sort]).all(axis=1)
        reach = REACH if place in (0, last) else 0
        return counted, counted & (np.abs(here[:, place] - before[:, place]) <= reach)

    def possible_gaps(self, fresh: Flags) -> Flags:
        """Return which words of the gap are possible for the first job of a day, and for others: (jobs, words)."""
        of_first = np.arange(self.sizes[0]) >= len(self.gap)
        return of_first[None, :] == fresh[:, None]

    def possible_runs(self, words: IntArray) -> Flags:
        """Return which words of the run time are possible under each job's limit: (jobs, words)."""
        bound_s = self.run_bound_s(words)
        possible: Flags = self.run.low[None, :] <= bound_s[:, None]
        possible[:, 0] = True
        return np.column_stack([possible, np.isfinite(bound_s)]) if self.has_limits else possible

    def gap_ranges(self, words: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most seconds that words of the gap stand for."""
        low, high = (
            np.concatenate([getattr(each, end) for each in (self.gap, self.first)]) for end in ("low", "high")
        )
        return low[words], high[words]

    def run_bound_s(self, words: IntArray) -> FloatArray:
        """Return how long each job may run; infinite where nothing bounds it."""
        place = self.place(LIMIT)
        if not self.has_limits or place is None:
            return np.full(len(words), np.inf)
        return self.limits_s[words[:, place]]

    def _run_words(self, table: JobTable) -> IntArray:
        run_s = table.numbers[RUN]
        words = self.run.encode(run_s)
        if self.has_limits:
            limit_s = self.limits_s[table.codes[LIMIT]]
            words[ended_by_limit(run_s, limit_s)] = len(self.run)
        return words


def fit_fields(columns: Columns, table: JobTable, gap_s: FloatArray, fresh: Flags, ranges: int) -> Fields:
    """Return the fields of a table whose jobs came `gap_s` after the one before them, or after the day began."""
    run_s = table.numbers[RUN]
    rest_s = np.zeros(0)
    if columns.limits_hold and columns.category(LIMIT) is not None:
        limit_of_job = _limits_s(columns)[table.codes[LIMIT]]
        ended = ended_by_limit(run_s, limit_of_job)
        if ended.any():
            over = np.minimum(run_s[ended] - limit_of_job[ended], columns.grace_s)
            rest_s = np.quantile(over, np.linspace(0, 1, REST_KNOTS))
            run_s = run_s[~ended] if not ended.all() else run_s
    gap = Bins.fit(gap_s[~fresh] if not fresh.all() else gap_s, ranges)
    first, run = Bins.fit(gap_s[fresh], ranges // 2), Bins.fit(run_s, ranges)
    return _fields(columns, gap, first, run, rest_s)


def public_fields(columns: Columns, ranges: int) -> Fields:
    """Return fields that know nothing of a log but its columns: ranges that are the same for every log."""
    # What a limit ends, ends at the limit.
    rest_s = np.zeros(REST_KNOTS if columns.limits_hold and columns.category(LIMIT) is not None else 0)
    hours = np.linspace(0, 23 * 3600.0, 24)
    gap, first, run = Bins.public(86_400.0, ranges), Bins(hours, hours + 3599), Bins.public(LONGEST_RUN_S, ranges)
    return _fields(columns, gap, first, run, rest_s)


def _fields(columns: Columns, gap: Bins, first: Bins, run: Bins, rest_s: FloatArray) -> Fields:
    categories = [each for each in columns.categories if each.name != "user"]
    return Fields(
        names=(GAP, *(each.name for each in categories), RUN),
        sizes=(len(gap) + len(first), *(len(each) for each in categories), len(run) + (len(rest_s) > 0)),
        gap=gap,
        first=first,
        run=run,
        rest_s=rest_s,
        echo=np.zeros(REST_KNOTS),
        limits_s=_limits_s(columns),
    )


def _limits_s(columns: Columns) -> FloatArray:
    """Return the limit that each label stands for; infinite where there is none."""
    limit = columns.category(LIMIT)
    return np.zeros(0) if limit is None else np.nan_to_num(limit.numbers(), nan=np.inf)


def ended_by_limit(run_s: FloatArray, limit_s: FloatArray) -> Flags:
    """Return which jobs ran as long as they were allowed to, give or take a little, or longer."""
    ended: Flags = np.isfinite(limit_s) & (run_s >= limit_s * (1 - NEAR_LIMIT))
    return ended


def known_numbers(columns: Columns, table: JobTable) -> dict[str, FloatArray]:
    """Return run time, limit and size of each job; NaN where they are missing."""
    missing = np.full(len(table), np.nan)
    known = {RUN: table.numbers[RUN]}
    for name in (LIMIT, SIZE):
        category = columns.category(name)
        known[name] = missing if category is None else category.numbers()[table.codes[name]]
    return known
