from __future__ import annotations

from math import comb

import numpy as np
import pytest

from presage.foundation.baselines.qbets import Qbets, _Waits, fewest_for, most_misses, rank_above
from presage.foundation.view.examples import at_submits, examples_of
from presage.foundation.view.jobs import history_of
from presage.foundation.view.tasks import Task
from presage.testing import make_job, make_trace


def test_tables_of_tolerance_limits_are_met() -> None:
    # It takes 59 values for the largest, and 93 for the second largest, to bound 95 % of a population at 95 %.
    assert fewest_for(0.95, 0.95) == 59
    assert rank_above(59, 0.95, 0.95) == 59
    assert [rank_above(count, 0.95, 0.95) for count in (92, 93)] == [92, 92]
    assert rank_above(5, 0.5, 0.5) == 3


@pytest.mark.parametrize("count", [3, 40, 150, 300])
@pytest.mark.parametrize(("level", "confidence"), [(0.9, 0.95), (0.5, 0.5), (0.95, 0.95)])
def test_ranks_are_the_first_that_the_binomial_allows(count: int, level: float, confidence: float) -> None:
    terms = [comb(count, hits) * level**hits * (1 - level) ** (count - hits) for hits in range(count + 1)]
    enough = [rank for rank in range(1, count + 1) if sum(terms[:rank]) >= confidence - 1e-9]
    assert rank_above(count, level, confidence) == (enough[0] if enough else count)


def test_ranks_go_on_smoothly_where_the_normal_takes_over() -> None:
    ranks = [rank_above(count, 0.9, 0.95) for count in range(250, 400)]
    assert set(np.diff(ranks)) <= {0, 1}
    assert rank_above(10**6, 0.9, 0.95) == pytest.approx(900_494, abs=2)


def test_independent_waits_keep_their_bounds() -> None:
    rng = np.random.default_rng(1)
    held = []
    for _ in range(40):
        waits = _Waits()
        for wait in rng.lognormal(5, 2, 300):
            waits.add(wait, waits.watched())
        low, median, high = waits.bounds()
        assert low < median < high
        held.append([low <= np.exp(5 - 2 * 1.2816), high >= np.exp(5 + 2 * 1.2816)])
    # 95 % by design, of 40.
    assert (np.sum(held, axis=0) >= 34).all()


def test_the_past_is_forgotten_when_waits_jump() -> None:
    rng = np.random.default_rng(2)
    waits = _Waits()
    for wait in rng.uniform(5, 15, 2000):
        waits.add(wait, waits.watched())
    for wait in rng.uniform(5000, 6000, 60):
        waits.add(wait, waits.watched())
    assert waits.bounds()[1] > 5000


def test_more_misses_are_forgiven_where_waits_are_alike() -> None:
    assert most_misses(0.0) == 3
    assert most_misses(0.5) < most_misses(0.8) < most_misses(0.95)


def test_bounds_are_those_of_the_waits_known_at_the_time() -> None:
    # All wait 100 s and start one by one; of a question's own class only what has started counts.
    jobs = [make_job(10 * number, 100 + number, 50, 1, limit_s=600.0) for number in range(30)]
    history = history_of(make_trace(*jobs, cpus=64))
    examples = examples_of(history, at_submits(history))
    found = Qbets().forecast(examples, np.array([29]), Task.WAIT)[0]
    started = [wait for wait in range(100, 130) if 10 * (wait - 100) + wait < 290]
    assert found == pytest.approx([started[0], started[(len(started) - 1) // 2], started[-1]], abs=1)
