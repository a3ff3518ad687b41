from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from presage.foundation.load import LOAD_MODELS
from presage.foundation.load.blending import blend_weights
from presage.foundation.load.calibration import error_quantiles, least_spread, recalibrate, stretched
from presage.foundation.load.forecast import past_site
from presage.foundation.load.learned import Learned, pack, unpack
from presage.foundation.load.levels import TARGETS, Levels
from presage.foundation.load.network import QUANTITIES, Network, pinball
from presage.foundation.load.rows import COLUMNS
from presage.foundation.load.site import Site
from presage.foundation.load.training import Lesson, Recipe, train
from tests.foundation.load.examples import HOUR_S, busy_trace, jobs_in

HORIZONS = np.array([1, 6, 24])


@pytest.fixture(scope="module")
def site() -> Site:
    return past_site(jobs_in(busy_trace()), 32.0, 12 * 24 * HOUR_S, HORIZONS)


def cut(site: Site, place: int) -> Site:
    """Return the site as it was at one of its origins."""
    bins = int(site.origins[place]) + 1
    series = {
        each.name: getattr(site.levels, each.name)[:bins]
        for each in fields(Levels)
        if each.name not in {"first_s", "capacity"}
    }
    levels = replace(site.levels, **series)
    return Site(levels, site.origins[: place + 1], site.horizons, site.rows[: place + 1])


@pytest.mark.parametrize("name", list(LOAD_MODELS))
@pytest.mark.parametrize("target", TARGETS)
def test_a_model_keeps_its_contract(site: Site, name: str, target: str) -> None:
    model = LOAD_MODELS.get(name)()
    places = np.array([0, 7, 60, len(site.origins) - 1])
    found = model.forecast(site, target, places)
    assert found.shape == (4, 3, 3)
    assert np.isfinite(found).all()
    assert (np.diff(found, axis=-1) >= 0).all()
    assert (found >= 0).all()
    for row, place in enumerate(places):
        alone = LOAD_MODELS.get(name)().forecast(cut(site, int(place)), target, np.array([place]))
        # Sums of 32-bit numbers over more rows may round differently; nothing else may differ.
        assert alone[0] == pytest.approx(found[row], rel=1e-6, abs=1e-8)


def test_rows_do_not_know_what_comes() -> None:
    jobs = jobs_in(busy_trace())
    whole = past_site(jobs, 32.0, 12 * 24 * HOUR_S, HORIZONS)
    for place in (5, 40, 80):
        now_s = whole.levels.origin_s(int(whole.origins[place]))
        then = past_site(jobs.known_at(now_s), 32.0, now_s, HORIZONS)
        assert then.rows[-1] == pytest.approx(whole.rows[place], rel=1e-12, abs=1e-12)


def test_what_is_settled_says_what_the_batch_says(site: Site) -> None:
    model = Learned()
    last = np.array([len(site.origins) - 1])
    settled = model.settle(site).forecast(site.rows[-1])
    for place, target in enumerate(TARGETS):
        assert settled[:, place] == pytest.approx(model.forecast(site, target, last)[0], rel=1e-5, abs=1e-6)
    assert settled[:, 3] == pytest.approx(model.waits(site, "small", last)[0], rel=1e-5, abs=1e-6)


def test_slopes_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(40, 6)).astype(np.float32)
    truth = rng.normal(size=(40, len(QUANTITIES))).astype(np.float32)
    truth[:5, 2] = np.nan
    weights = rng.random(truth.shape).astype(np.float32)
    network = Network.create(inputs, 7, rng)
    layers = network.forward(network.scaled(inputs))
    slopes = pinball(layers[-1], truth, weights)[1]
    found = network.gradients(layers, slopes)
    for name in ("weight1", "weight2", "bias3"):
        values = network.parameters[name]
        step = np.zeros_like(values)
        step.flat[3] = 1e-2
        after = pinball(Network(network.parameters | {name: values + step}).forward(layers[0])[-1], truth, weights)
        before = pinball(
            Network(network.parameters | {name: values - step}).forward(layers[0])[-1], truth, weights
        )
        assert found[name].flat[3] == pytest.approx((after[0] - before[0]) / 2e-2, abs=2e-3)


def test_training_learns_quantiles_and_repeats_itself() -> None:
    rng = np.random.default_rng(7)
    inputs = rng.normal(size=(4000, 3)).astype(np.float32)
    truths = np.repeat(inputs[:, :1] + rng.normal(0, 0.5, (4000, 1)), len(QUANTITIES), 1).astype(np.float32)
    lessons = [Lesson(inputs[:1000], truths[:1000]), Lesson(inputs[1000:], truths[1000:])]
    losses: list[float] = []
    recipe = Recipe(hidden=12, passes=12, batch=256, members=1)
    (network,) = train(lessons, recipe, losses.append)
    assert losses[-1] < 0.6 * losses[0]
    found = network.quantiles(inputs)
    inside = ((truths >= found[..., 0]) & (truths <= found[..., 2])).mean()
    assert 0.74 < inside < 0.86
    (again,) = train(lessons, recipe)
    assert all((again.parameters[name] == values).all() for name, values in network.parameters.items())
    (stored,) = unpack(pack([network]))
    assert (stored.quantiles(inputs) == found).all()


def test_the_shipped_network_takes_the_rows_of_this_version() -> None:
    settled = Learned()._networks
    assert {each.parameters["mean"].shape for each in settled} == {(len(COLUMNS) + 6,)}


def test_a_blend_follows_who_was_right() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(300, 1))
    good, bad = truth + rng.normal(0, 0.1, truth.shape), truth + rng.normal(0, 1, truth.shape)
    origins = np.arange(300)
    shares = blend_weights(np.stack([good, bad]), truth, origins, np.array([1]))
    assert shares.sum(0) == pytest.approx(1)
    assert shares[:, 0, 0] == pytest.approx([0.5, 0.5])
    assert shares[0, -1, 0] > 0.8
    # With a delay longer than the past, nothing is known of anyone.
    late = blend_weights(np.stack([good, bad]), truth, origins, np.array([1]), delay_h=400)
    assert late == pytest.approx(0.5)


def test_intervals_become_as_wide_as_errors_are() -> None:
    rng = np.random.default_rng(2)
    truths = rng.normal(0, 1, 5000)
    said = np.repeat(np.array([[-0.1, 0.0, 5.0]]), 5000, 0)
    below, above = recalibrate(said, truths)
    low, _, high = stretched(np.array([-0.1, 0.0, 5.0]), np.array([below, above]), np.array(0.0))
    assert low == pytest.approx(-1.28, abs=0.08)
    assert high == pytest.approx(2.0, abs=0.01)  # not narrower than two fifths of what was said
    assert recalibrate(said[:0], truths[:0]) == (1.0, 1.0)
    # With few errors known, no interval is narrow.
    wide = stretched(np.array([-0.1, 0.0, 0.1]), np.ones(2), np.array(least_spread(0.4, 6, 20)))
    assert wide.tolist() == [-0.1, 0.0, 0.1]
    assert stretched(np.zeros(3), np.ones(2), np.array(least_spread(0.4, 24, 10)))[2] == pytest.approx(0.3)


def test_few_errors_are_mixed_with_usual_ones() -> None:
    assert error_quantiles(np.array([np.nan]), 0.5) == (-0.5, 0.5)
    low, high = error_quantiles(np.zeros(15), 0.5)
    assert (low, high) == (-0.25, 0.25)
