from __future__ import annotations

import numpy as np
import pytest

from presage.synthesizers.fidelity.marginals import compare_marginals, ks_distance
from presage.testing.traces import make_job, make_trace
from presage.traces import Trace


def test_ks_distance_is_the_largest_difference_of_the_distributions() -> None:
    # Shares at or below 1, 2, 3, 4 and 5: 1/4 and 0, 2/4 and 1/2, 3/4 and 1/2, 1 and 1/2, 1 and 1.
    assert ks_distance(np.array([1.0, 2, 3, 4]), np.array([2.0, 5])) == pytest.approx(0.5)


def test_missing_counts_as_less_than_everything() -> None:
    assert ks_distance(np.array([0.0, 1, 2, 3]), np.array([np.nan, 1, 2, np.nan])) == pytest.approx(0.5)
    assert ks_distance(np.array([7.0, 8]), np.array([np.nan, np.nan])) == 1.0


def test_a_trace_is_at_no_distance_from_itself(log: Trace) -> None:
    found = compare_marginals(log, log, same_people=True)
    assert (found.mean_ks, found.mean_tv, found.mean_tv_by_label) == (0.0, 0.0, 0.0)
    assert {each.name for each in found.numbers} == {"gap_s", "run_s", "cpus", "limit_s"}
    assert {each.name for each in found.labels} == {"user", "queue", "outcome"}


def trace_of(users: str, queues: str) -> Trace:
    jobs = (make_job(at, 0, 10, user=u, queue=q) for at, (u, q) in enumerate(zip(users, queues, strict=True)))
    return make_trace(*jobs)


def test_people_are_compared_by_rank_and_queues_by_name() -> None:
    found = compare_marginals(trace_of("aaab", "xxyy"), trace_of("cccd", "yyyx"), same_people=True)
    tv = {each.name: each.tv for each in found.labels}
    assert tv == {"user": 0.0, "queue": pytest.approx(0.25)}
    assert found.people_by_label == {"user": 1.0}
    assert found.mean_tv_by_label == pytest.approx((1.0 + 0.25) / 2)


def test_a_column_that_the_synthetic_trace_lacks_is_as_far_away_as_can_be(log: Trace) -> None:
    bare = make_trace(*(make_job(at * 60, 0, 10) for at in range(300)))
    found = compare_marginals(log, bare)
    assert {each.name: each.ks for each in found.numbers}["limit_s"] == 1.0
    assert {each.name: each.tv for each in found.labels}["queue"] == 1.0
    assert found.as_dict()["mean_tv_by_label"] is None


def test_columns_that_the_log_lacks_are_left_out(log: Trace) -> None:
    bare = make_trace(*(make_job(at * 60, 0, 10) for at in range(300)))
    assert {each.name for each in compare_marginals(bare, log).numbers} == {"gap_s", "run_s", "cpus"}
    assert np.isnan(compare_marginals(bare, log).mean_tv)
