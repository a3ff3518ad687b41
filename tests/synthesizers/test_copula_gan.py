from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers import SYNTHESIZERS, Columns, Request, sample
from presage.synthesizers._rows import Rows
from presage.traces import Trace

pytest.importorskip("torch")


def test_straightened_numbers_are_normal(two_worlds: Trace) -> None:
    columns = Columns.fit(two_worlds)
    codes, places = Rows.straightened(columns).encode(columns.encode(two_worlds), np.random.default_rng(0))
    assert set(codes[:, -1]) == {0}
    scores = 4 * places  # a place of 1 is four standard deviations
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(scores.std(axis=0), 1, atol=0.1)


def test_it_draws_no_number_between_two_worlds(two_worlds: Trace) -> None:
    # No job of the log runs for 200 to 2000 seconds; quantiles leap over that, whatever the network draws.
    runs = two_worlds.jobs["run_s"]
    assert not runs.is_between(200, 2000).any()
    model = SYNTHESIZERS.get("copula-gan").train(two_worlds, {"epochs": 2, "width": 16, "noise": 8})
    drawn = sample(model, Request(jobs=2000)).jobs["run_s"]
    assert drawn.is_between(200, 2000).mean() < 0.01
    assert drawn.is_between(runs.min(), runs.max()).all()
