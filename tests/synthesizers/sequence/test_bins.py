from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from presage.synthesizers.sequence.bins import Bins, draw_below, draw_between

whole_numbers = st.lists(st.integers(0, 10**6), min_size=1, max_size=60)


def test_a_value_that_many_jobs_have_is_a_range_of_its_own() -> None:
    bins = Bins.fit(np.array([5.0] * 80 + [100.0, 200.0, 300.0, 400.0]), 4)
    at = bins.encode(np.array([5.0]))[0]
    assert (bins.low[at], bins.high[at]) == (5.0, 5.0)


@given(whole_numbers, st.integers(2, 20))
def test_ranges_hold_what_they_were_made_of(values: list[int], most: int) -> None:
    numbers = np.array(values, dtype=np.float64)
    bins = Bins.fit(numbers, most)
    codes = bins.encode(numbers)
    assert len(bins) <= most
    assert (bins.low[codes] <= numbers).all()
    assert (numbers <= bins.high[codes]).all()


@given(whole_numbers, st.floats(0, 1))
def test_what_is_drawn_lies_in_its_range_and_under_the_bound(values: list[int], place: float) -> None:
    bins = Bins.fit(np.array(values, dtype=np.float64), 8)
    drawn = draw_below(bins.low, bins.high, np.full(len(bins), 1000.0), np.full(len(bins), place))
    assert (drawn <= 1000).all()
    assert (drawn == np.floor(drawn)).all()
    free = draw_between(bins.low, bins.high, np.full(len(bins), place))
    assert ((bins.low <= free) & (free <= bins.high)).all()
