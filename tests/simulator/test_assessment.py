from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, UsageError
from presage.simulator import assess, compare, simulate
from presage.simulator.bootstrap import tail_share

from .test_comparison import heavy_waits, schedule
from .test_whatif import busy_trace


def test_values_are_those_computed_by_hand() -> None:
    jobs = schedule([0, 100, 0, 90_000], users=["a", "a", "b", None], deadline_s=[150, 150, None, 300])
    jobs = jobs.with_columns(limit_s=pl.Series([None, 5.0, 50.0, 8999.0]))
    found = assess(jobs, sla_s=99)
    value = {name: each.value for name, each in found.estimates.items()}
    assert (found.jobs, found.blocks) == (4, 0)
    assert value["mean_wait_s"] == 22_525
    assert (value["waited_share"], value["starved_share"], value["late_share"]) == (0.5, 0.25, 0.5)
    # More than ten times the limit: 100 s against 5 s, and 90,000 s against 8,999 s.
    assert value["overwaited_share"] == 0.5
    assert value["missed_deadline_share"] == pytest.approx(2 / 3)
    # The users' means are 1.5 and 1.
    assert value["user_slowdown_jain"] == pytest.approx(2.5**2 / (2 * (1.5**2 + 1)))
    assert value["worst_user_slowdown"] == 1.5
    assert all(each.low is None for each in found.estimates.values())
    assert "late_share" not in assess(jobs).estimates


def test_a_schedule_has_the_values_that_simulate_gives() -> None:
    result = simulate(busy_trace(), "fcfs+easy")
    found = assess(result.trace.jobs).estimates
    metrics = result.metrics.to_dict()
    for name in found.keys() & metrics.keys():
        assert found[name].value == pytest.approx(metrics[name]), name
    assert len(found.keys() & metrics.keys()) >= 12


def test_values_are_those_of_a_comparison() -> None:
    """One home for each formula: a schedule against itself has the same metrics."""
    jobs = schedule(heavy_waits(np.random.default_rng(5), 300), users=[str(n % 7) for n in range(300)])
    alone, both = assess(jobs, sla_s=60), compare(jobs, jobs, sla_s=60)
    assert alone.estimates.keys() == both.differences.keys()
    for name, estimate in alone.estimates.items():
        assert both.differences[name].baseline == both.differences[name].variant == estimate.value


def test_intervals_are_those_of_drawn_blocks() -> None:
    waits = heavy_waits(np.random.default_rng(3), 400)
    found = assess(schedule(waits), seed=9, resamples=300).estimates["mean_wait_s"]
    times = np.random.default_rng(9).multinomial(20, np.full(20, 1 / 20), size=300)
    means = times @ waits.reshape(20, 20).mean(axis=1) / 20
    low, high = np.quantile(means, [tail_share(20), 1 - tail_share(20)])
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_ends_can_be_left_out() -> None:
    jobs = schedule([900, 900, *[5.0] * 6, 900, 900])
    found = assess(jobs, warm_up=2, cool_down=0.2)
    assert (found.jobs, found.estimates["mean_wait_s"].value) == (6, 5)
    with pytest.raises(UsageError, match="leave none of 10 jobs"):
        assess(jobs, warm_up=10)
    with pytest.raises(InputError, match="10 jobs cannot be compared"):
        assess(jobs.with_columns(run_s=pl.lit(0.0)))
