from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers import Columns
from presage.synthesizers._modes import Modes
from presage.synthesizers._normal import places_of, scores_at
from presage.synthesizers._rows import Rows, drawn_codes, one_hot
from presage.traces import Trace

RNG = np.random.default_rng


def test_normal_scores_are_those_of_the_tables() -> None:
    np.testing.assert_allclose(scores_at(np.array([0.5, 0.841344746, 0.975])), [0, 1, 1.959964], atol=1e-5)
    np.testing.assert_allclose(places_of(np.array([-1.959964, 0.0, 1.0])), [0.025, 0.5, 0.841344746], atol=1e-6)


def test_normal_scores_of_the_ends_are_finite() -> None:
    assert scores_at(np.array([0.0, 1.0])).tolist() == [-6.0, 6.0]


def test_modes_find_the_peaks() -> None:
    values = np.concatenate([RNG(1).normal(2, 0.1, 3000), RNG(2).normal(9, 0.5, 1000)])
    modes = Modes.fit(values, 2, RNG(0))
    np.testing.assert_allclose(modes.middles, [2, 9], atol=0.05)
    np.testing.assert_allclose(modes.spreads, [0.1, 0.5], rtol=0.1)
    np.testing.assert_allclose(modes.shares, [0.75, 0.25], atol=0.01)


def test_a_value_that_all_have_is_one_mode() -> None:
    modes = Modes.fit(np.full(500, 3.0), 10, RNG(0))
    codes, places = modes.encode(np.full(5, 3.0), RNG(0))
    assert len(modes) == 1
    assert modes.decode(codes, places).tolist() == [3.0] * 5


def test_values_come_back_from_their_modes() -> None:
    values = RNG(1).lognormal(0, 1, 2000)
    modes = Modes.fit(values, 8, RNG(0))
    codes, places = modes.encode(values, RNG(3))
    assert np.abs(places).max() <= 1
    kept = np.abs(places) < 1
    assert kept.mean() > 0.99
    np.testing.assert_allclose(modes.decode(codes, places)[kept], values[kept], atol=1e-9)


@pytest.mark.parametrize("straight", [False, True])
def test_jobs_come_back_from_their_rows(two_worlds: Trace, straight: bool) -> None:
    columns = Columns.fit(two_worlds)
    table = columns.encode(two_worlds)
    rows = Rows.straightened(columns) if straight else Rows.fit(columns, table, 5, RNG(0))
    codes, places = rows.encode(table, RNG(1))
    assert codes.shape == (400, 5)
    assert places.shape == (400, 2)
    again = rows.decode(codes, places)
    for name, values in table.codes.items():
        np.testing.assert_array_equal(again.codes[name], values)
    for name, numbers in table.numbers.items():
        np.testing.assert_allclose(again.numbers[name], numbers, rtol=0.05, atol=2)


def test_numbers_beyond_the_log_are_not_drawn(two_worlds: Trace) -> None:
    columns = Columns.fit(two_worlds)
    rows = Rows.fit(columns, columns.encode(two_worlds), 5, RNG(0))
    last = [width - 1 for width in rows.widths]
    found = rows.decode(np.array([last]), np.full((1, 2), 50.0)).numbers["run_s"]
    assert found[0] == columns.number("run_s").knots[-1]


def test_blocks_are_written_out() -> None:
    assert one_hot(np.array([[1, 0], [0, 2]]), (2, 3)).tolist() == [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_places_of_blocks_are_drawn_by_their_scores() -> None:
    scores = np.tile(np.log(np.array([0.2, 0.8, 0.5, 0.25, 0.25], np.float32)), (20_000, 1))
    drawn = drawn_codes(scores, (2, 3), RNG(0))
    np.testing.assert_allclose(np.bincount(drawn[:, 0]) / 20_000, [0.2, 0.8], atol=0.01)
    np.testing.assert_allclose(np.bincount(drawn[:, 1]) / 20_000, [0.5, 0.25, 0.25], atol=0.01)
