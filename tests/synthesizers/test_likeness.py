from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers import Columns, JobTable
from presage.synthesizers._likeness import Likeness, ks_distance, tv_distance
from presage.traces import Trace


def test_distances_by_hand() -> None:
    # At 2 the first has all its values, the second a quarter.
    assert ks_distance(np.array([1.0, 2.0]), np.array([2.0, 3.0, 3.0, 9.0])) == pytest.approx(0.75)
    assert tv_distance(np.array([0, 0, 1, 2]), np.array([0, 2]), 4) == pytest.approx(0.25)


def test_jobs_are_like_themselves_and_unlike_all_others(two_worlds: Trace) -> None:
    columns = Columns.fit(two_worlds)
    table = columns.encode(two_worlds)
    long = table.codes["queue"] == 0
    likeness = Likeness(columns, table.rows(long))
    assert likeness.distance(table.rows(long)) == 0
    assert likeness.distance(table.rows(~long)) > 0.5


def test_columns_that_lost_each_other_are_seen(two_worlds: Trace) -> None:
    columns = Columns.fit(two_worlds)
    table = columns.encode(two_worlds)
    order = np.random.default_rng(0).permutation(len(table))
    apart = JobTable({**table.codes, "cpus": table.codes["cpus"][order]}, table.numbers)
    # Columns stay what they were. Of ten pairs, size with queue and size with run time are each 2 x .3 x .7 apart.
    assert Likeness(columns, table).distance(apart) == pytest.approx(0.042, abs=0.01)
