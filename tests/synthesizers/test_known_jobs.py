from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from presage.synthesizers._moves import shares_up_to
from presage.synthesizers.columns import GAP, RUN, SIZE, Category, Columns, JobTable, Number
from presage.synthesizers.known_jobs import COMMON, IN_A_ROW, KnownJobs

Array = NDArray[np.float64]
ENDS_S = np.concatenate([np.arange(0.0, 60.0), np.arange(60.0, 100_000.0, 10.0)])
"""A range for each second up to a minute, and for every ten from there on."""
NUMBERS = Number(GAP, (0.0, 1.0)), Number(RUN, (0.0, 1.0))
LIMITS_S = (100.0, 1000.0)
COLUMNS = Columns(
    (Category("user", ("u1", "u2", "u3")), Category(SIZE, (1.0, 2.0)), Category("limit_s", LIMITS_S)), NUMBERS
)
BOUND = replace(COLUMNS, limits_hold=True, grace_s=30.0)


def table(run_s: Array | list[float], user: int = 0, size: int = 0, limit: int = 0) -> JobTable:
    """Return jobs of one user, all of one size and the same limit."""
    jobs = len(run_s)
    codes = {"user": np.full(jobs, user), SIZE: np.full(jobs, size), "limit_s": np.full(jobs, limit)}
    return JobTable(codes, {GAP: np.zeros(jobs), RUN: np.array(run_s, np.float64)})


def moved(
    log: JobTable, drawn: JobTable, share: float = 0.0, columns: Columns = COLUMNS, seed: int = 0
) -> list[float]:
    """Return run times of what is drawn when what the log has is avoided."""
    found = KnownJobs.of(columns, log, ENDS_S).avoid(
        columns, columns.decode(drawn), share, np.random.default_rng(seed)
    )
    run_s: list[float] = found[RUN].to_list()
    return run_s


def test_what_few_jobs_have_goes_to_the_nearest_second_that_none_has() -> None:
    log = table([100.0, 101.0, 99.0])
    assert moved(log, table([100.0]), share=1.0)[0] in {98.0, 102.0}
    assert moved(log, table([101.0]), share=1.0) == [102.0]
    assert moved(log, table([97.0]), share=1.0) == [97.0]


@pytest.mark.parametrize(("share", "stay"), [(0.0, 0), (0.01, 2), (0.2, 40), (1.0, 200)])
def test_what_many_jobs_have_stays_up_to_a_share(share: float, stay: int) -> None:
    drawn = np.tile([6.0, 90.0], 100)
    log = np.tile([6.0, 90.0], 4 * COMMON)  # so that four in a row are common too
    found = moved(table(log), table(drawn), share)
    assert (np.array(found) == drawn).sum() == stay


def test_chance_decides_which_of_them_stay() -> None:
    stayed = np.array(moved(table([301.0] * 4 * COMMON), table([301.0] * 400), share=0.5)) == 301
    assert stayed.sum() == 200
    assert 50 < stayed[:200].sum() < 150


def test_no_job_becomes_a_copy_of_what_many_have() -> None:
    log = table([99.0] * COMMON + [101.0] * COMMON + [100.0])
    assert moved(log, table([100.0]), share=1.0)[0] in {98.0, 102.0}


def test_a_job_of_somebody_else_or_of_another_sort_is_another_job() -> None:
    log = table([100.0])
    assert moved(log, table([100.0], user=1)) == [100.0]
    assert moved(log, table([100.0], size=1)) == [100.0]
    assert moved(log, table([100.0])) != [100.0]


def test_copies_are_counted() -> None:
    known = KnownJobs.of(COLUMNS, table([100.0, 7.0]), ENDS_S)
    assert known.count(COLUMNS, COLUMNS.decode(table([100.0, 8.0, 100.0]))) == 2


def test_the_gap_of_a_job_does_not_count() -> None:
    drawn = table([100.0])
    drawn.numbers[GAP][:] = 77.0
    assert moved(table([100.0]), drawn) != [100.0]


def test_no_run_reaches_its_limit_or_becomes_shorter_than_nothing() -> None:
    log = table([99.0, 0.0])
    assert moved(log, table([99.0]), columns=BOUND) == [98.0]
    assert moved(log, table([0.0]), columns=BOUND) == [1.0]


def test_a_job_that_ran_to_its_limit_still_does() -> None:
    log = table([100.0, 101.0, 130.0])
    assert moved(log, table([100.0]), columns=BOUND) == [102.0]
    # Where limits hold no job runs further beyond than those of the log.
    assert moved(log, table([130.0]), columns=BOUND) == [129.0]
    every = table(np.arange(100.0, 131.0))
    assert moved(every, table([115.0]), columns=BOUND) == [115.0]
    assert moved(every, table([115.0])) != [115.0]


def test_a_job_without_a_limit_may_run_as_long_as_it_likes() -> None:
    some = replace(BOUND, categories=(*COLUMNS.categories[:2], Category("limit_s", (None, 100.0))))
    assert moved(table(np.arange(5000.0)), table([7.0]), columns=some) == [5000.0]


def test_a_limit_that_all_jobs_have_bounds_them_too() -> None:
    one_limit = Columns(COLUMNS.categories[:2], NUMBERS, {"limit_s": 100.0}, limits_hold=True, grace_s=30.0)

    def without_limit(jobs: JobTable) -> JobTable:
        return replace(jobs, codes={name: jobs.codes[name] for name in ("user", SIZE)})

    log, drawn = without_limit(table([99.0])), without_limit(table([99.0, 99.0]))
    assert moved(log, drawn, columns=one_limit) == [98.0, 98.0]


def test_where_every_second_that_a_job_may_run_is_taken_it_stays() -> None:
    assert moved(table(np.arange(100.0)), table([5.0]), columns=BOUND) == [5.0]
    assert moved(table(np.arange(99.0)), table([5.0]), columns=BOUND) == [99.0]


def test_where_both_sides_are_equally_near_half_go_to_each() -> None:
    run_s = np.arange(1000.0, 90_000.0, 17.0)
    away_s = np.array(moved(table(run_s), table(run_s))) - run_s
    assert set(away_s) == {-1.0, 1.0}
    assert abs(away_s.mean()) < 0.1


def test_jobs_move_by_what_the_logs_run_times_are_multiples_of() -> None:
    found = moved(table([*np.arange(120.0, 12_000.0, 60.0), 7.5]), table([120.0, 12_060.0]))
    assert found == [60.0, 12_060.0]


def test_fractions_of_seconds_move_by_fractions() -> None:
    fractional = replace(COLUMNS, numbers=(NUMBERS[0], replace(NUMBERS[1], step=0.001)))
    log = table([0.25, 4.6, 4.601])
    found = moved(log, table([0.25, 4.6, 4.5995, 5.0]), columns=fractional)
    assert found[0] in {0.249, 0.251}
    assert found[1] == 4.599
    # What lies between two milliseconds counts as the nearer.
    assert found[2] == 4.599
    assert found[3] == 5.0


def test_a_job_of_another_machine_is_no_copy_unless_the_log_has_it_there() -> None:
    log = table([100.0])
    drawn = COLUMNS.decode(table([100.0, 100.0], size=1))
    drawn = drawn.with_columns(pl.Series("cpus_req", [1.0, 3.0]))
    found = KnownJobs.of(COLUMNS, log, ENDS_S).avoid(COLUMNS, drawn, 0.0, np.random.default_rng(0))
    assert found[RUN][0] != 100.0
    assert found[RUN][1] == 100.0


def test_of_one_size_for_all_jobs_another_one_is_no_copy() -> None:
    one_size = Columns((COLUMNS.categories[0],), NUMBERS, {SIZE: 4.0})
    log = JobTable({"user": np.zeros(1, np.int64)}, {GAP: np.zeros(1), RUN: np.array([100.0])})
    known, jobs = KnownJobs.of(one_size, log, ENDS_S), one_size.decode(log)
    assert known.count(one_size, jobs) == 1
    assert known.count(one_size, jobs.with_columns(pl.lit(8.0).alias("cpus_req"))) == 0


def test_jobs_without_users_and_limits_are_compared_too() -> None:
    bare = Columns((Category(SIZE, (1.0, 2.0)),), NUMBERS)
    log = JobTable({SIZE: np.array([0, 1])}, {GAP: np.zeros(2), RUN: np.array([11.0, 20.0])})
    drawn = JobTable({SIZE: np.array([0, 0])}, {GAP: np.zeros(2), RUN: np.array([11.0, 20.0])})
    found = moved(log, drawn, columns=bare)
    assert found[0] in {10.0, 12.0}
    assert found[1] == 20.0


def test_where_jobs_part_short_ones_become_shorter_and_long_ones_longer() -> None:
    log = table(np.repeat(np.arange(5.0, 29.0), COMMON))
    drawn = np.tile([5.0, 6.0, 7.0, 8.0], 100)
    found = np.array(moved(log, table(drawn)))
    assert (found[drawn < 7] <= 4).mean() > 0.9
    assert (found[drawn >= 7] >= 29).mean() > 0.7


@pytest.mark.parametrize("seed", range(5))
def test_as_many_become_longer_as_keep_the_distribution_near_to_the_logs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log, drawn = (20 + np.rint(rng.uniform(0, width, 2000)) for width in (10, 12))
    # The log has every second from 20 to 30: jobs must leave for 19 or 31, and a tenth of those drawn are beyond.
    found = np.array(moved(table(log), table(drawn), seed=seed))
    assert ((found < 20) | (found > 30)).all()
    assert abs((found < 20).mean() - 0.5) < 0.01
    assert np.abs(shares_up_to(found, ENDS_S) - shares_up_to(log, ENDS_S)).max() < 0.51


@pytest.mark.parametrize("seed", range(5))
def test_a_job_goes_to_the_nearest_run_time_on_one_side(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log, drawn = (np.rint(rng.uniform(0, 150, 200)) for _ in range(2))
    free = np.setdiff1d(np.arange(-1.0, 200.0), log)
    for before, after in zip(drawn, moved(table(log), table(drawn)), strict=True):
        shorter, longer = free[free <= before].max(), free[free >= before].min()
        assert after in ({longer} if shorter < 0 else {shorter, longer})


def in_a_row(jobs: JobTable, run_s: Array | list[float]) -> set[tuple[tuple[int, float], ...]]:
    """Return sizes and run times of all four jobs in a row of a user."""
    found = set()
    for user in set(jobs.codes["user"].tolist()):
        own = np.flatnonzero(jobs.codes["user"] == user)
        steps = [(int(jobs.codes[SIZE][each]), float(run_s[each])) for each in own]
        found |= {tuple(steps[at : at + IN_A_ROW]) for at in range(len(steps) - IN_A_ROW + 1)}
    return found


def random_jobs(rng: np.random.Generator, jobs: int) -> JobTable:
    codes = {
        "user": rng.integers(0, 3, jobs), SIZE: rng.integers(0, 2, jobs), "limit_s": np.zeros(jobs, np.int64)
    }  # fmt: skip
    return JobTable(codes, {GAP: np.zeros(jobs), RUN: np.rint(rng.exponential(4, jobs))})


@pytest.mark.parametrize("seed", range(5))
def test_neither_jobs_nor_four_in_a_row_of_a_user_are_those_of_the_log(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log, drawn = random_jobs(rng, 600), random_jobs(rng, 600)
    known = KnownJobs.of(BOUND, log, ENDS_S)
    found = known.avoid(BOUND, BOUND.decode(drawn), 0.0, rng)
    assert known.count(BOUND, found) == 0
    assert found[RUN].max() <= LIMITS_S[0]
    assert not in_a_row(log, log.numbers[RUN]) & in_a_row(drawn, found[RUN].to_list())


def test_of_jobs_in_a_row_as_few_are_moved_as_it_takes() -> None:
    log, drawn = table([301.0] * 4), table([301.0] * 9, user=1)
    found = [moved(log, drawn, seed=seed) for seed in range(20)]
    assert all((np.array(each) != 301).sum() == 2 for each in found)
    assert not any(in_a_row(log, log.numbers[RUN]) & in_a_row(drawn, each) for each in found)
    assert {second for each in found for second in each} == {300.0, 301.0, 302.0}


def test_four_in_a_row_of_other_limits_are_another_row() -> None:
    assert moved(table([300.0] * 4), table([300.0] * 4, user=1, limit=1)) == [300.0] * 4


def test_near_is_meant_by_the_factor() -> None:
    # Three seconds less are half of it, and four more not twice as much.
    assert moved(table([4.0, 5.0, 6.0, 7.0, 8.0, 9.0]), table([6.0])) == [10.0]


def test_a_row_is_parted_by_another_job_where_the_last_one_has_nowhere_to_go() -> None:
    row = [table([300.0] * 3, limit=1), table([7.0])]
    log = JobTable.joined([*row, table(np.arange(101.0), user=1)])
    drawn = JobTable.joined([table([300.0] * 3, user=1, limit=1), table([7.0], user=1)])
    found = moved(log, drawn, columns=BOUND)
    assert found[:2] == [300.0] * 2
    assert found[2] in {299.0, 301.0}
    assert found[3] == 7.0


def test_jobs_that_stay_may_be_in_a_row_if_that_is_common_too() -> None:
    drawn = table([300.0] * 40)
    assert moved(table([300.0] * (COMMON + IN_A_ROW - 1)), drawn, share=1.0) == [300.0] * 40
    found = moved(table([300.0] * (COMMON + IN_A_ROW - 2)), drawn, share=1.0)
    assert (np.array(found) != 300).sum() == 10


def test_jobs_that_are_no_copies_are_not_in_a_row_like_any_of_the_log() -> None:
    found = moved(table([301.0] * 4 * COMMON), table([301.0] * 4, user=1), share=1.0)
    assert (np.array(found) != 301).sum() == 1


def test_rows_of_three_are_no_rows_and_nothing_is_learned_from_them() -> None:
    assert moved(table([300.0] * 3), table([300.0] * 9, user=1)) == [300.0] * 9


@pytest.mark.parametrize("jobs", [0, 1])
def test_traces_of_no_job_and_of_one_are_traces(jobs: int) -> None:
    assert moved(table([7.0]), table([9.0] * jobs)) == [9.0] * jobs


def test_many_equal_jobs_take_no_longer_than_one() -> None:
    # Each would have to go past two thousand seconds: a quarter of a billion steps if each went by itself.
    log = table(np.arange(2000.0))
    found = moved(log, table([5.0] * 100_000))
    assert set(found) == {2000.0}


def test_many_jobs_of_a_dense_log_take_no_longer_than_one() -> None:
    # Each by itself would have to go past all those that are longer: a billion steps.
    log = table(np.arange(50_000.0))
    assert set(moved(log, log)) == {50_000.0}


def test_jobs_that_were_drawn_stay_as_they_are() -> None:
    drawn = table([7.0])
    moved(table([7.0]), drawn)
    assert drawn.numbers[RUN].tolist() == [7.0]
