from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers import SYNTHESIZERS, Privacy, Request, Training, sample
from presage.synthesizers._normal import scores_at
from presage.synthesizers.columns import Category
from presage.synthesizers.gaussian_copula import GaussianCopula, _correlation, _order, _places
from presage.traces import Trace


def train(trace: Trace) -> GaussianCopula:
    model = SYNTHESIZERS.get("copula").train(trace)
    assert isinstance(model, GaussianCopula)
    return model


def test_places_of_equal_values_are_one_interval() -> None:
    below, reached = _places(np.array([5.0, 1.0, 5.0, 9.0]))
    assert below.tolist() == [0.25, 0.0, 0.25, 0.75]
    assert reached.tolist() == [0.75, 0.25, 0.75, 1.0]


def test_labels_without_numbers_are_ordered_by_their_jobs() -> None:
    queues = Category("queue", ("a", "b", "c"))
    assert _order(queues, np.array([0, 1, 1, 2]), np.array([0.5, 2.0, 1.0, -1.0])).tolist() == [2, 0, 1]
    sizes = Category("cpus", (1.0, 2.0, 4.0))
    assert _order(sizes, np.array([0, 1, 1, 2]), np.array([0.5, 2.0, 1.0, -1.0])).tolist() == [0, 1, 2]


def test_the_correlation_behind_coarse_columns_is_found() -> None:
    rng = np.random.default_rng(5)
    first = rng.standard_normal(6000)
    second = 0.7 * first + np.sqrt(1 - 0.49) * rng.standard_normal(6000)
    # The second is known only as below or above 0.5, which alone would say 0.5 or so.
    edges = [_places(first), _places((second > 0.5).astype(float))]
    low, high = (scores_at(np.stack([each[side] for each in edges], axis=1)) for side in (0, 1))
    found = _correlation(low, high, 60, np.random.default_rng(0), Training())
    assert found[0, 1] == pytest.approx(0.7, abs=0.04)
    assert found[0, 0] == found[1, 1] == pytest.approx(1)


def test_every_column_keeps_its_distribution(two_worlds: Trace) -> None:
    drawn = sample(train(two_worlds), Request(jobs=4000)).jobs
    log = two_worlds.jobs
    assert (drawn["queue"] == "long").mean() == pytest.approx((log["queue"] == "long").mean(), abs=0.03)
    assert (drawn["cpus_req"] == 16).mean() == pytest.approx((log["cpus_alloc"] == 16).mean(), abs=0.03)
    for share in (0.1, 0.5, 0.9):
        assert drawn["run_s"].quantile(share) == pytest.approx(log["run_s"].quantile(share), rel=0.15)


def test_columns_that_go_together_stay_together(two_worlds: Trace) -> None:
    drawn = sample(train(two_worlds), Request(jobs=2000)).jobs
    assert ((drawn["queue"] == "long") == (drawn["cpus_req"] == 16)).mean() > 0.93
    assert ((drawn["queue"] == "long") == (drawn["run_s"] > 1000)).mean() > 0.9


def test_privacy_is_refused_with_the_kinds_that_have_it(two_worlds: Trace) -> None:
    from presage.errors import UsageError

    with pytest.raises(UsageError, match="tvae, row-transformer, diffusion"):
        SYNTHESIZERS.get("copula").train(two_worlds, {}, Training(privacy=Privacy(1.0, 1e-5)))
