from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from presage.errors import InputError
from presage.synthesizers import SYNTHESIZERS, Request, Training, sample
from presage.synthesizers._conditions import Conditions
from presage.traces import Trace

torch = pytest.importorskip("torch")

CODES = np.array([[0, 0], [0, 1], [0, 2], [1, 2], [0, 2], [0, 2], [0, 2], [0, 2]])
"""Rows of two categories: 7 to 1, and 1 to 1 to 6; the first has a third value that never occurs."""


def test_values_are_drawn_as_often_as_they_occur() -> None:
    conditions = Conditions.fit(CODES, (3, 3))
    blocks, values = conditions.draw(40_000, np.random.default_rng(0), rare=False)
    assert blocks.mean() == pytest.approx(0.5, abs=0.01)
    shares = np.bincount(values[blocks == 0], minlength=3) / (blocks == 0).sum()
    np.testing.assert_allclose(shares, [7 / 8, 1 / 8, 0], atol=0.01)


def test_rare_values_are_drawn_by_the_logarithm_in_training() -> None:
    conditions = Conditions.fit(CODES, (3, 3))
    blocks, values = conditions.draw(40_000, np.random.default_rng(0), rare=True)
    shares = np.bincount(values[blocks == 0], minlength=3) / (blocks == 0).sum()
    # log 8 to log 2
    np.testing.assert_allclose(shares, [0.75, 0.25, 0], atol=0.01)


def test_real_rows_have_the_value_that_was_drawn() -> None:
    conditions = Conditions.fit(CODES, (3, 3))
    rng = np.random.default_rng(0)
    blocks, values = conditions.draw(500, rng, rare=True)
    rows = conditions.rows_with(blocks, values, rng)
    np.testing.assert_array_equal(CODES[rows, blocks], values)
    assert set(rows) == set(range(8))


def test_a_condition_is_written_as_one_place() -> None:
    written = Conditions.fit(CODES, (3, 3)).written(np.array([0, 1]), np.array([1, 2]))
    assert written.tolist() == [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]


def test_without_categories_any_row_will_do() -> None:
    conditions = Conditions.fit(CODES, ())
    rng = np.random.default_rng(0)
    blocks, values = conditions.draw(200, rng, rare=True)
    assert set(conditions.rows_with(blocks, values, rng)) == set(range(8))
    assert conditions.written(blocks, values).shape == (200, 0)


@pytest.mark.slow
def test_it_learns_which_values_go_together(two_worlds: Trace) -> None:
    settings = {"epochs": 25, "patience": 25, "batch": 100, "width": 32, "noise": 8, "rate": 2e-3}
    model = SYNTHESIZERS.get("ctgan").train(two_worlds, settings)
    drawn = sample(model, Request(jobs=1000)).jobs
    assert ((drawn["queue"] == "long") == (drawn["cpus_req"] == 16)).mean() > 0.7
    assert (drawn["queue"] == "long").mean() == pytest.approx(0.3, abs=0.15)
    assert len(model.record["scores"]) == model.record["epochs"]
    assert model.record["best_epoch"] == np.argmin(model.record["scores"]) + 1


def test_the_state_of_another_kind_is_refused(two_worlds: Trace, tmp_path: Path) -> None:
    state = tmp_path / "state"

    def interrupt(done: int, _total: int, _words: str) -> None:
        if done == 2:
            raise KeyboardInterrupt

    settings = {"epochs": 3, "batch": 20, "width": 8, "noise": 4}
    with pytest.raises(KeyboardInterrupt):
        SYNTHESIZERS.get("ctgan").train(two_worlds, settings, Training(checkpoint=state, progress=interrupt))
    with pytest.raises(InputError, match="another training"):
        SYNTHESIZERS.get("copula-gan").train(two_worlds, settings, Training(checkpoint=state))
