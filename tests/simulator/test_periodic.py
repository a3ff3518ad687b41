from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.policies import PeriodicBackfill, Policy
from presage.simulator import Jobs
from presage.simulator.pooled import schedule

from .reference import SCORES, Job
from .reference_periodic import PeriodicCluster, Settings

CAPACITY = 8
SECOND = 1_000
REPLAYS = Path(__file__).parents[2] / "docs" / "results" / "data" / "slurm"


def arrays(jobs: list[Job]) -> Jobs:
    columns = [[getattr(job, name) for job in jobs] for name in ("submit", "run", "limit", "plan", "plan", "size")]
    return Jobs(*(np.array(column, np.int64) for column in columns))


@st.composite
def paces(draw: st.DrawFn) -> Settings:
    """Short intervals and small depths, so that everything cuts in now and then; all in whole seconds."""

    def seconds(least: int, most: int) -> int:
        return draw(st.integers(least, most)) * SECOND

    return Settings(
        interval=seconds(1, 40),
        depth=draw(st.integers(1, 6)),
        window=seconds(0, 200),
        resolution=seconds(1, 70),
        precision=seconds(0, 30),
        main_depth=draw(st.integers(1, 4)),
        main_interval=seconds(1, 60),
        main_gap=seconds(0, 5),
        poll=seconds(1, 3),
        release=seconds(0, 3),
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    """Small jobs in whole seconds with many ties; plans may be shorter than runs."""
    count = draw(st.integers(1, 20))
    unit = draw(st.sampled_from([1, 7, 30])) * SECOND
    submits = sorted(draw(st.lists(st.integers(0, 15), min_size=count, max_size=count)))
    jobs = []
    for number, submit in enumerate(submits):
        run, plan = draw(st.integers(1, 8)) * unit, draw(st.integers(1, 10)) * unit
        limit = max(run, plan) + draw(st.integers(0, 3)) * unit
        size = draw(st.integers(1, CAPACITY))
        jobs.append(Job(number, submit * unit, run, plan, limit, size))
    return jobs


def in_seconds(pace: Settings) -> PeriodicBackfill:
    times = {f"{name}_s": value / 1000 for name, value in vars(pace).items() if "depth" not in name}
    return PeriodicBackfill(depth=pace.depth, main_depth=pace.main_depth, limit_unit_s=0.001, **times)


@pytest.mark.parametrize("order", SCORES)
@settings(max_examples=60)
@given(jobs=workloads(), pace=paces())
def test_the_engine_starts_every_job_when_the_plain_scheduler_does(
    order: str, jobs: list[Job], pace: Settings
) -> None:
    expected = PeriodicCluster(CAPACITY, SCORES[order], pace).simulate([Job(**vars(job)) for job in jobs])
    policy = Policy(order, "periodic", in_seconds(pace))
    assert schedule(arrays(jobs), CAPACITY, policy).tolist() == expected


@settings(max_examples=60)
@given(jobs=workloads(), pace=paces())
def test_no_schedule_breaks_the_laws(jobs: list[Job], pace: Settings) -> None:
    given = arrays(jobs)
    start = schedule(given, CAPACITY, Policy("fcfs", "periodic", in_seconds(pace)))
    assert (start >= given.submit_ms).all()
    for instant in start:
        held = (start <= instant) & (instant < start + given.run_ms + pace.release)
        assert given.processors[held].sum() <= CAPACITY


def starts(rows: list[tuple[int, int, int, int]], text: str = "", capacity: int = 4) -> list[float]:
    """Return the starts of jobs given as (submit, run, limit, size) in seconds; seconds 0, 3, 6 … are passes."""
    jobs = [Job(n, s * 1000, r * 1000, p * 1000, p * 1000, size) for n, (s, r, p, size) in enumerate(rows)]
    policy = Policy.parse(f"fcfs+periodic{':' if text else ''}{text}")
    return [start / 1000 for start in schedule(arrays(jobs), capacity, policy).tolist()]


# Job 0 takes 3 of 4 nodes until 100 and has asked for 180; job 1 wants all 4; job 2 is small and short.
BLOCKED = [(0, 100, 180, 3), (1, 60, 180, 4), (2, 20, 60, 1)]


def test_a_later_job_passes_only_at_the_next_cycle() -> None:
    # A cycle comes with the first submit at 0, the next 30 s later; job 1 starts with the end of job 0.
    assert starts(BLOCKED) == [0, 100, 30]
    assert starts(BLOCKED, "interval_s=45") == [0, 100, 45]


def test_an_end_is_acted_upon_at_the_next_tick() -> None:
    rows = [(0, 10, 60, 4), (1, 10, 60, 4)]
    assert starts(rows, "poll_s=4") == [0, 12]
    assert starts(rows, "poll_s=4,release_s=3") == [0, 16]


def test_passes_of_the_main_scheduler_keep_their_distance() -> None:
    # All fit. The pass at 0 takes the first; the submits at 1 and 2 wait for the pass 3 s later.
    rows = [(0, 50, 60, 1), (1, 50, 60, 1), (2, 50, 60, 1)]
    assert starts(rows, "main_gap_s=3") == [0, 3, 3]
    assert starts(rows, "main_gap_s=5") == [0, 5, 5]


def test_a_long_job_may_not_delay_the_one_in_front() -> None:
    # Job 0 is planned to end at 180, so job 1 has everything from then to 360. At 30, 60 s fit in, 180 s do not.
    assert starts([*BLOCKED, (2, 5, 180, 1)]) == [0, 100, 30, 160]


def test_places_are_rounded_down_to_the_resolution() -> None:
    # The place of job 1 is kept from 180 on with a resolution of 60, from 100 on with one of 100: a job that
    # asks for 120 s at 30 ends at 150 and fits in the first case only.
    rows = [(0, 170, 180, 3), (1, 60, 180, 4), (2, 20, 120, 1)]
    assert starts(rows) == [0, 170, 30]
    assert starts(rows, "resolution_s=100") == [0, 170, 230]


def test_depth_cuts_the_queue() -> None:
    # With a depth of 1 only the job in front is looked at in a cycle, and it does not fit.
    assert starts(BLOCKED, "depth=1") == [0, 100, 160]


def test_a_place_beyond_the_window_is_not_kept() -> None:
    # Job 1 could start at 180. A window of 100 s does not reach that far, so it cannot hold up the long job 2,
    # which then runs until 530.
    rows = [(0, 100, 180, 3), (1, 60, 180, 4), (2, 500, 600, 1)]
    assert starts(rows) == [0, 100, 160]
    assert starts(rows, "window_s=100") == [0, 530, 30]


def test_the_main_scheduler_looks_at_so_many_jobs_only() -> None:
    # One job per pass: the others wait for the full pass at 20. Cycles are kept out of the way.
    rows = [(0, 100, 120, 1), (0, 100, 120, 1), (0, 100, 120, 1)]
    assert starts(rows, "main_depth=1,main_interval_s=20,depth=1,interval_s=1000") == [0, 0, 20]


def test_limits_count_in_whole_minutes() -> None:
    # Job 2 asks for 61 s, which is two minutes: it would end at 150, and job 1 wants everything from 120 on.
    rows = [(0, 100, 120, 3), (1, 60, 180, 4), (2, 20, 61, 1)]
    assert starts(rows) == [0, 100, 160]
    assert starts(rows, "limit_unit_s=1") == [0, 100, 30]


def test_ends_close_together_count_as_the_last_of_them() -> None:
    # Jobs 0 and 1 are planned to end at 180 and 200, job 2 wants three nodes: those are free at 180, but it is
    # planned for 200, when a fourth is free that the long job 3 may have.
    rows = [(0, 170, 180, 2), (0, 170, 200, 1), (1, 60, 60, 3), (2, 600, 600, 1)]
    settings = "limit_unit_s=1,resolution_s=1"
    assert starts(rows, f"{settings},precision_s=30") == [0, 0, 170, 30]
    assert starts(rows, f"{settings},precision_s=0") == [0, 0, 170, 170]


@pytest.mark.skipif(not REPLAYS.is_dir(), reason="the recorded runs are not part of this copy")
def test_recorded_runs_of_slurm_are_met() -> None:
    """The bounds are the aims set before any run: 10 % of the mean wait, a rank correlation of starts of 0.95.

    The first is asked of all runs together, because Slurm misses it from run to run (docs/results/slurm.md).
    """
    errors, correlations = zip(
        *(errors_of(json.loads(path.read_text())) for path in REPLAYS.iterdir()), strict=True
    )
    assert len(errors) >= 6
    assert np.mean(errors) < 0.1
    assert min(correlations) > 0.95


def errors_of(run: dict[str, list[int]]) -> tuple[float, float]:
    start, end = np.array(run["start_ms"]), np.array(run["end_ms"])
    limit = np.array(run["limit_min"]) * 60_000
    jobs = Jobs(np.array(run["submit_ms"]), end - start, limit, limit, limit, np.array(run["nodes"]))
    simulated = schedule(jobs, 32, Policy("fcfs", "periodic"))
    error = (simulated - jobs.submit_ms).mean() / (start - jobs.submit_ms).mean() - 1
    ranks = [np.argsort(np.argsort(times)) for times in (simulated, start)]
    return abs(error), np.corrcoef(*ranks)[0, 1]
