from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from presage.synthesizers.sequence.rare import FEW, RareJobs

Array = NDArray[np.float64]


def jobs(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return users and words (gap, size, run time) of equal jobs."""
    return np.zeros(count, np.int64), np.tile([3, 1, 2], (count, 1))


def moved(rare: RareJobs, run_s: Array, most_s: float = np.inf, user: int = 0) -> Array:
    users, words = jobs(len(run_s))
    found = run_s.copy()
    rare.avoid(users + user, words, found, np.full(len(found), most_s), np.random.default_rng(0))
    return found


def test_what_few_jobs_have_is_moved_to_the_nearest_free_second() -> None:
    rare = RareJobs.of(*jobs(3), np.array([100.0, 101.0, 99.0]))
    assert set(np.abs(moved(rare, np.full(40, 100.0)) - 100)) == {2.0}


def test_what_many_jobs_have_stays() -> None:
    rare = RareJobs.of(*jobs(FEW), np.full(FEW, 6.0))
    assert moved(rare, np.full(5, 6.0)).tolist() == [6.0] * 5


def test_no_job_becomes_a_copy_of_a_frequent_one() -> None:
    rare = RareJobs.of(*jobs(2 * FEW + 1), np.array([99.0] * FEW + [101.0] * FEW + [100.0]))
    assert set(np.abs(moved(rare, np.full(40, 100.0)) - 100)) == {2.0}


def test_a_job_of_somebody_else_or_of_another_sort_is_another_job() -> None:
    rare = RareJobs.of(*jobs(1), np.array([100.0]))
    assert moved(rare, np.array([100.0]), user=1).tolist() == [100.0]
    users, words = jobs(1)
    assert rare.known(users, words, np.array([100.0]))[1].all()
    # Neither the gap nor the range of run times counts.
    assert rare.known(users, words + np.array([5, 0, 7]), np.array([100.0]))[1].all()
    assert not rare.known(users, words + np.array([0, 1, 0]), np.array([100.0]))[0].any()


def test_no_run_is_moved_beyond_what_it_may_be_or_below_nothing() -> None:
    rare = RareJobs.of(*jobs(2), np.array([100.0, 0.0]))
    assert set(moved(rare, np.full(20, 100.0), most_s=100.0)) == {99.0}
    assert set(moved(rare, np.zeros(20))) == {1.0}


def test_where_everything_near_is_taken_a_job_stays() -> None:
    rare = RareJobs.of(*jobs(61), np.arange(61.0))
    assert moved(rare, np.array([5.0])).tolist() == [5.0]


def test_where_no_job_of_the_log_may_be_drawn_half_go_up_and_half_down_as_far_as_it_takes() -> None:
    rare = RareJobs.of(*jobs(24 * FEW), np.repeat(np.arange(5.0, 29.0), FEW)).with_all()
    found = moved(rare, np.full(400, 6.0))
    assert set(found) == {4.0, 29.0}
    assert 0.4 < (found == 29.0).mean() < 0.6
    assert set(moved(rare, np.full(40, 6.0), most_s=28.0)) == {4.0}


def test_where_every_second_that_a_job_may_run_is_taken_it_stays_even_then() -> None:
    rare = RareJobs.of(*jobs(61), np.arange(61.0)).with_all()
    assert moved(rare, np.array([5.0]), most_s=60.0).tolist() == [5.0]
    assert moved(rare, np.array([5.0]), most_s=61.5).tolist() == [61.0]


def test_without_rare_jobs_nothing_is_moved() -> None:
    assert moved(RareJobs.none(), np.array([7.0])).tolist() == [7.0]
