from __future__ import annotations

from statistics import NormalDist

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, UsageError
from presage.simulator import Difference, compare
from presage.simulator.bootstrap import tail_share


def schedule(
    wait_s: list[float] | np.ndarray,
    run_s: float | list[float] = 100.0,
    users: list[str | None] | None = None,
    deadline_s: list[float | None] | None = None,
    ids: list[str] | None = None,
) -> pl.DataFrame:
    """Jobs that are submitted one second after the other and wait so long."""
    count = len(wait_s)
    frame = pl.DataFrame(
        {
            "job_id": ids or [str(number) for number in range(count)],
            "user": pl.Series(users or [None] * count, dtype=pl.String),
            "submit_ms": np.arange(count) * 1000,
            "wait_s": np.asarray(wait_s, np.float64),
            "run_s": pl.Series(np.full(count, run_s) if isinstance(run_s, float) else run_s),
            "limit_s": pl.Series([None] * count, dtype=pl.Float64),
            "deadline_ms": pl.Series(
                [None if at is None else round(at * 1000) for at in deadline_s or [None] * count], dtype=pl.Int64
            ),
        }
    )
    end_s = pl.col("submit_ms") / 1000 + pl.col("wait_s") + pl.col("run_s")
    return frame.with_columns(end_ms=(end_s * 1000).cast(pl.Int64))


def heavy_waits(rng: np.random.Generator, count: int) -> np.ndarray:
    """Waits that hang together: long ones come in rows."""
    level = np.convolve(rng.standard_normal(count + 19), np.ones(20) / np.sqrt(20), mode="valid")
    return np.exp(5 + 1.2 * level)


def test_values_are_those_computed_by_hand() -> None:
    before = schedule([0, 100, 0, 300], users=["a", "a", "b", None])
    after = schedule([0, 50, 0, 90_000], users=["a", "a", "b", None])
    found = compare(before, after)
    assert (found.jobs, found.blocks) == (4, 0)
    wait = found.differences["mean_wait_s"]
    assert (wait.baseline, wait.variant, wait.difference) == (100, 22_512.5, 22_412.5)
    assert wait.ratio == pytest.approx(225.125)
    assert found.differences["waited_share"].difference == 0
    assert found.differences["starved_share"].difference == 0.25
    assert found.differences["max_wait_s"].variant == 90_000
    assert found.differences["median_wait_s"].difference == -25
    assert found.differences["mean_bounded_slowdown"].baseline == pytest.approx((1 + 2 + 1 + 4) / 4)
    # The users' means are 1.5 and 1, then 1.25 and 1; the job without a user does not count.
    assert found.differences["worst_user_slowdown"].difference == pytest.approx(-0.25)
    assert found.differences["user_slowdown_gini"].baseline == pytest.approx(0.5 / (2 * 2 * 1.25) * 1)
    # Four jobs are too few to say anything about chance.
    assert all(each.low is None and each.clear is None for each in found.differences.values())


@pytest.mark.parametrize(("blocks", "student"), [(10, 2.26216), (20, 2.09302), (200, 1.97196)])
def test_tails_are_those_of_student(blocks: int, student: float) -> None:
    expected = NormalDist().cdf(-student * (blocks / (blocks - 1)) ** 0.5)
    assert tail_share(blocks) == pytest.approx(expected, rel=2e-3)


def test_deadlines_count_where_both_have_one() -> None:
    before = schedule([0, 0, 0, 0], deadline_s=[150, 50, None, 300])
    after = schedule([0, 0, 500, 500], deadline_s=[150, 50, None, 300])
    missed = compare(before, after).differences["missed_deadline_share"]
    assert (missed.baseline, missed.variant) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert "missed_deadline_share" not in compare(schedule([1]), schedule([2])).differences


def test_no_change_is_exactly_none() -> None:
    rng = np.random.default_rng(0)
    jobs = schedule(heavy_waits(rng, 500), users=[str(n % 7) for n in range(500)])
    for difference in compare(jobs, jobs).differences.values():
        assert difference.difference == 0
        assert difference.low in {0, None}
        assert difference.high in {0, None}
        assert not difference.clear


def test_a_constant_shift_is_certain() -> None:
    waits = heavy_waits(np.random.default_rng(1), 400)
    found = compare(schedule(waits), schedule(waits + 60)).differences
    for metric in ("mean_wait_s", "median_wait_s", "p90_wait_s", "p99_wait_s", "mean_response_s"):
        assert (found[metric].low, found[metric].high) == (pytest.approx(60), pytest.approx(60)), metric
        assert found[metric].clear


def test_intervals_cover_a_known_shift_as_often_as_they_say() -> None:
    """100 pairs of schedules whose waits differ by 20 s on average, with noise that hangs together.

    Over 300 pairs 93 % of the intervals covered the shift; fewer than 86 of 100 happen once in 200 times then.
    """
    covered = clear = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        waits = heavy_waits(rng, 600)
        noise = np.convolve(rng.standard_normal(609), np.ones(10), mode="valid") * 10
        wait = compare(schedule(waits), schedule(waits + 20 + noise), seed=seed + 1000, resamples=300)
        difference = wait.differences["mean_wait_s"]
        assert difference.low is not None
        assert difference.high is not None
        covered += difference.low <= 20 <= difference.high
        clear += bool(difference.clear)
    assert 86 <= covered <= 99
    assert clear >= 95


def test_pairing_sees_what_waits_alone_would_hide() -> None:
    """The waits vary by hundreds of seconds, the difference of each job by one."""
    rng = np.random.default_rng(2)
    waits = heavy_waits(rng, 2000)
    wait = compare(schedule(waits), schedule(waits + rng.normal(1, 1, 2000))).differences["mean_wait_s"]
    assert wait.low is not None
    assert wait.high is not None
    assert 0.8 < wait.low < 1 < wait.high < 1.2
    assert wait.high - wait.low < waits.std() / np.sqrt(2000)


def test_percentiles_of_draws_are_those_of_the_drawn_jobs() -> None:
    """Against drawing the jobs themselves, with the same blocks."""
    rng = np.random.default_rng(3)
    before, after = heavy_waits(rng, 400), heavy_waits(rng, 400)
    found = compare(schedule(before), schedule(after), seed=9, resamples=300).differences
    times = np.random.default_rng(9).multinomial(20, np.full(20, 1 / 20), size=300)
    blocks = np.arange(400).reshape(20, 20)
    drawn = []
    for row in times:
        jobs = np.concatenate([np.tile(block, count) for block, count in zip(blocks, row, strict=True)])
        drawn.append(np.percentile(after[jobs], [50, 90, 99]) - np.percentile(before[jobs], [50, 90, 99]))
    low, high = np.quantile(drawn, [tail_share(20), 1 - tail_share(20)], axis=0)
    for index, metric in enumerate(("median_wait_s", "p90_wait_s", "p99_wait_s")):
        assert found[metric].low == pytest.approx(low[index]), metric
        assert found[metric].high == pytest.approx(high[index]), metric


@pytest.mark.parametrize(
    ("jobs", "blocks"), [(9, 0), (10, 10), (15, 15), (20, 20), (10_239, 20), (10_240, 10), (30_000, 29)]
)
def test_blocks_have_1024_jobs_or_there_are_20(jobs: int, blocks: int) -> None:
    waits = np.arange(jobs) % 97
    assert compare(schedule(waits), schedule(waits), resamples=10).blocks == blocks


def test_the_same_seed_gives_the_same_intervals() -> None:
    rng = np.random.default_rng(4)
    pair = schedule(heavy_waits(rng, 300)), schedule(heavy_waits(rng, 300))
    assert compare(*pair, seed=1) == compare(*pair, seed=1)
    assert compare(*pair, seed=1) != compare(*pair, seed=2)


def test_only_common_jobs_are_compared() -> None:
    before = schedule([10, 20, 30], ids=["a", "b", "c"])
    after = schedule([1000, 30, 10], ids=["new", "c", "a"])
    found = compare(before, after)
    assert found.jobs == 2
    assert found.differences["mean_wait_s"].difference == 0
    with pytest.raises(InputError, match="no job in common"):
        compare(before, schedule([1], ids=["z"]))


def test_jobs_that_did_not_run_cannot_be_compared() -> None:
    whole = schedule([1, 2, 3])
    for lacking in (pl.col("wait_s") + None, pl.col("run_s") * 0, pl.col("run_s") + None):
        with pytest.raises(InputError, match="3 jobs cannot be compared"):
            compare(whole, whole.with_columns(lacking))


def test_both_ends_can_be_left_out() -> None:
    before, after = schedule([0.0] * 10), schedule([900, 900, *[5.0] * 6, 900, 900])
    assert compare(before, after, warm_up=2, cool_down=0.2).differences["mean_wait_s"].variant == 5
    assert compare(before, after, warm_up=0.2, cool_down=2).jobs == 6
    with pytest.raises(UsageError, match="leave none of 10 jobs"):
        compare(before, after, warm_up=5, cool_down=0.5)
    with pytest.raises(UsageError, match="below 0"):
        compare(before, after, warm_up=-1)


def test_nothing_is_related_to_zero() -> None:
    found = compare(schedule([0.0] * 50), schedule([7.0] * 50)).differences["mean_wait_s"]
    assert (found.ratio, found.ratio_low, found.low, found.clear) == (None, None, 7, True)
    assert Difference(2.0, 3.0).to_dict() == {
        "baseline": 2.0, "variant": 3.0, "difference": 1.0, "ratio": 1.5,
        "low": None, "high": None, "ratio_low": None, "ratio_high": None,
    }  # fmt: skip
