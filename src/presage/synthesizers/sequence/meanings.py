"""What words stand for: limits and sizes, and gaps and run times within the ranges that were drawn.

The functions take arrays, or single numbers where the kernels compile them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from presage.synthesizers.columns import SIZE
from presage.synthesizers.sequence.bins import draw_below, draw_between
from presage.synthesizers.sequence.features import where
from presage.synthesizers.sequence.fields import LIMIT

if TYPE_CHECKING:
    from presage.synthesizers.columns import Columns, FloatArray, IntArray
    from presage.synthesizers.sequence.fields import Fields

CALM_GAP_S = 3600.0
"""From this gap on, when in the week the next job comes matters more than how long it has been."""
WEEK_H = 168


class Meanings(NamedTuple):
    """The numbers that words stand for."""

    gap_low: FloatArray
    """Least and most seconds of each word of the gap, and of each but the last that may be of the run time."""
    gap_high: FloatArray
    run_low: FloatArray
    run_high: FloatArray
    echo: FloatArray
    """See `Fields`, as the next one."""
    rest_s: FloatArray
    hours: FloatArray
    """(169,): 0 to 168."""
    sessions: FloatArray
    """(169,): how many sessions have begun since Monday at each of these hours."""
    limits_s: FloatArray
    """Of each word of the field `limit_place`; NaN where there is none."""
    sizes: FloatArray
    limit_place: int
    size_place: int

    @classmethod
    def of(cls, columns: Columns, fields: Fields, week: FloatArray) -> Meanings:
        """Return those of the fields, where sessions begin as likely as `week` says at each hour of the week."""

        def plain(values: FloatArray) -> FloatArray:
            # A copy: what was read from a file may be read-only, which is another type to the kernels.
            return np.array(values, np.float64)

        gap_low, gap_high = fields.gap_ranges(np.arange(fields.sizes[0]))
        limit_place, limits_s = _numbers_of(LIMIT, columns, fields)
        size_place, sizes = _numbers_of(SIZE, columns, fields)
        return cls(
            gap_low=plain(gap_low),
            gap_high=plain(gap_high),
            run_low=plain(fields.run.low),
            run_high=plain(fields.run.high),
            echo=plain(fields.echo),
            rest_s=plain(fields.rest_s),
            hours=np.arange(WEEK_H + 1.0),
            sessions=np.concatenate([[0.0], np.cumsum(week)]),
            limits_s=plain(limits_s),
            sizes=plain(sizes),
            limit_place=limit_place,
            size_place=size_place,
        )


def _numbers_of(name: str, columns: Columns, fields: Fields) -> tuple[int, FloatArray]:
    """Return where a field stands, and the numbers of its words; NaN at any place where there are none."""
    category, place = columns.category(name), fields.place(name)
    if category is None or place is None:
        return 0, np.full(fields.sizes[0], np.nan)
    return place, category.numbers()


def gap_seconds(meanings: Meanings, words: IntArray, now_s: FloatArray, places: FloatArray) -> FloatArray:
    """Return a gap in the range of each word, at a time of the week at which people come where it is long."""
    low, high = meanings.gap_low[words], meanings.gap_high[words]
    from_h = now_s / 3600
    at_h = calm_hours(meanings, from_h + low / 3600, from_h + high / 3600, places)
    calm_s = np.minimum(np.maximum(np.rint((at_h - from_h) * 3600), low), high)
    return where((high - low) * 2 >= CALM_GAP_S, calm_s, draw_between(low, high, places))


def calm_hours(meanings: Meanings, low_h: FloatArray, high_h: FloatArray, places: FloatArray) -> FloatArray:
    """Return a time between two, counted in hours of the week, as likely as the week has sessions begin."""
    low, high = sessions_until(meanings, low_h), sessions_until(meanings, high_h)
    at, of_a_week = low + (high - low) * places, meanings.sessions[-1]
    return at // of_a_week * WEEK_H + np.interp(at % of_a_week, meanings.sessions, meanings.hours)


def sessions_until(meanings: Meanings, hours: FloatArray) -> FloatArray:
    """Return how many sessions have begun by so many hours after the first Monday."""
    within = np.interp(hours % WEEK_H, meanings.hours, meanings.sessions)
    return meanings.sessions[-1] * (hours // WEEK_H) + within


def run_seconds(
    meanings: Meanings, words: IntArray, bound_s: FloatArray, before_s: FloatArray, places: FloatArray
) -> FloatArray:
    """Return run times of these words, not above `bound_s`, and near `before_s` where that is known."""
    inner = np.minimum(words, len(meanings.run_low) - 1)
    low, high = meanings.run_low[inner], meanings.run_high[inner]
    echo = np.interp(places, np.linspace(0, 1, len(meanings.echo)), meanings.echo)
    again_s = np.rint((before_s + 1) * np.exp(echo) - 1)
    again_s = np.maximum(np.minimum(np.maximum(again_s, low), np.minimum(high, bound_s)), 0.0)
    run_s = where(np.isnan(before_s), draw_below(low, high, bound_s, places), again_s)
    if len(meanings.rest_s):
        over_s = np.interp(places, np.linspace(0, 1, len(meanings.rest_s)), meanings.rest_s)
        ended_s = np.maximum(np.rint(bound_s + over_s), 0.0)
        run_s = where(words == len(meanings.run_low), ended_s, run_s)
    return run_s + 0.0  # or kernels, to which the greater of -0.0 and 0.0 is the first, would give -0.0
