from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import UsageError
from presage.traces import Machine, Manifest, SourceFile, Trace, read_trace
from presage.traces.statistics import (
    arrivals_by_hour,
    arrivals_by_weekday,
    cdf,
    queue_length_over_time,
    summarise,
    user_shares,
    utilisation_over_time,
)

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000


def trace_of(rows: list[dict[str, Any]], manifest: Manifest | None = None, **tables: pl.DataFrame) -> Trace:
    rows = [{"job_id": str(number), **row} for number, row in enumerate(rows)]
    return Trace.create(pl.DataFrame(rows, infer_schema_length=None), manifest or Manifest(), **tables)


@pytest.fixture
def four_jobs() -> Trace:
    """Four processors; two jobs run one after the other, one ends as it starts, one still waits at 200 s."""
    rows = [
        {"submit_ms": 0, "wait_s": 0.0, "run_s": 100.0, "start_ms": 0, "end_ms": 100_000,
         "user": "ann", "cpus_alloc": 2.0, "limit_s": 200.0, "outcome": "completed", "queue": "short"},
        {"submit_ms": 10_000, "wait_s": 90.0, "run_s": 100.0, "start_ms": 100_000, "end_ms": 200_000,
         "user": "ann", "cpus_alloc": 4.0, "cpus_req": 3.0, "limit_s": 50.0, "outcome": "completed",
         "queue": "long"},
        {"submit_ms": 100_000, "user": "bob", "cpus_req": 1.0, "outcome": "pending", "queue": "long"},
        {"submit_ms": 50_000, "wait_s": 150.0, "run_s": 0.0, "start_ms": 200_000, "end_ms": 200_000,
         "user": "bob", "cpus_alloc": 1.0, "limit_s": 100.0, "outcome": "completed", "queue": "long"},
    ]  # fmt: skip
    manifest = Manifest(name="four", machine=Machine(nodes=2, cpus=4.0), sources=(SourceFile("four", "swf", 4),))
    return trace_of(rows, manifest)


def test_summarises_a_trace_computed_by_hand(four_jobs: Trace) -> None:
    got = summarise(four_jobs)
    assert (got.name, got.formats, got.jobs, got.rejected) == ("four", ("swf",), 4, 0)
    assert (got.users, got.queues, got.partitions, got.accounts) == (2, 2, None, None)
    assert (got.nodes, got.processors, got.gpus) == (2, 4.0, None)
    assert got.span_s == 200.0
    assert got.load == pytest.approx((100 * 2 + 100 * 4) / (4 * 100))
    assert got.utilisation == pytest.approx((100 * 2 + 100 * 4) / (4 * 200))
    assert (got.mean_wait_s, got.median_wait_s) == (80.0, 90.0)
    assert got.p90_wait_s == pytest.approx(90 + 0.8 * 60)
    assert got.mean_run_s == pytest.approx(200 / 3)
    assert got.mean_bounded_slowdown == pytest.approx((1 + 1.9 + 15) / 3)
    assert got.median_bounded_slowdown == pytest.approx(1.9)
    assert (got.mean_size, got.max_size, got.multi_cpu_share) == (2.0, 4.0, 0.5)
    assert got.mean_limit_use == pytest.approx((0.5 + 2 + 0) / 3)
    assert got.overrun_share == pytest.approx(1 / 3)
    assert got.median_limit_s == 100.0
    assert got.arrivals_per_day == pytest.approx(4 * 86_400 / 100)
    assert got.same_user_share == pytest.approx(2 / 3)
    assert got.top_user_share == 0.5
    assert got.outcomes == {"completed": 3, "pending": 1}
    assert (got.first_submit, got.last_submit) == ("1970-01-01T00:00:00Z", "1970-01-01T00:01:40Z")
    assert (got.gpu_jobs, got.gpu_load, got.attempts_per_job) == (None, None, None)


def test_counts_gpus_where_there_are_any() -> None:
    rows = [
        {"submit_ms": 0, "start_ms": 0, "run_s": 10.0, "gpus_req": 2.0},
        {"submit_ms": 5_000, "start_ms": 5_000, "run_s": 15.0, "gpus_req": 4.0, "gpus_alloc": 1.0},
        {"submit_ms": 10_000, "start_ms": 10_000, "run_s": 10.0, "gpus_req": 0.0},
    ]
    trace = trace_of(rows, Manifest(machine=Machine(gpus=4.0)))
    got = summarise(trace)
    assert (got.gpu_jobs, got.mean_gpus, got.max_gpus) == (2, 1.5, 2.0)
    assert got.gpu_load == pytest.approx((10 * 2 + 15 * 1) / (4 * 10))
    assert got.gpu_utilisation == pytest.approx((10 * 2 + 15 * 1) / (4 * 20))
    assert (got.load, got.utilisation, got.processors) == (None, None, None)
    busy = utilisation_over_time(trace, 2, resource="gpus")
    assert busy.capacity == 4.0
    assert busy.mean.tolist() == [1.0 * 2 + 0.5 * 1, 1.0]  # two bins of ten seconds


def test_says_nothing_where_the_log_says_nothing() -> None:
    got = summarise(trace_of([{}])).to_dict()
    told = {key for key, value in got.items() if value is not None}
    assert told == {"name", "formats", "synthetic", "jobs", "rejected", "outcomes", "has", "notes"}
    assert got["outcomes"] == {"unknown": 1}


def test_relative_time_has_no_dates(four_jobs: Trace) -> None:
    relative = trace_of([{"submit_ms": 0}, {"submit_ms": 5000}], Manifest(absolute_time=False))
    assert (summarise(relative).first_submit, summarise(relative).last_submit) == (None, None)
    assert summarise(relative).span_s == 5.0
    assert not arrivals_by_hour(relative).meaningful
    assert arrivals_by_hour(four_jobs).meaningful


def test_a_single_instant_has_a_span_of_zero_and_no_load() -> None:
    got = summarise(
        trace_of([{"submit_ms": 7, "run_s": 5.0, "cpus_req": 1.0}], Manifest(machine=Machine(cpus=1.0)))
    )
    assert (got.span_s, got.load, got.utilisation, got.arrivals_per_day) == (0.0, None, None, None)


def test_counts_attempts_per_gang_member_or_from_restarts() -> None:
    attempts = pl.DataFrame({"job_id": ["0", "0", "0", "1"], "task": [0, 0, 1, None], "attempt": [0, 1, 0, 0]})
    assert summarise(trace_of([{}, {}], attempts=attempts)).attempts_per_job == pytest.approx(4 / 3)
    assert summarise(trace_of([{"restarts": 0}, {"restarts": 3}])).attempts_per_job == 2.5


def test_unusable_floats_do_not_spoil_the_rest() -> None:
    rows = [{"run_s": float("nan"), "cpus_req": 1.0}, {"run_s": 4.0, "cpus_req": float("inf")}, {"run_s": 2.0}]
    got = summarise(trace_of(rows))
    assert (got.mean_run_s, got.mean_size) == (3.0, 1.0)
    json.dumps(got.to_dict(), allow_nan=False)


def test_hours_and_weekdays_are_told_in_the_zone_of_the_machine() -> None:
    # 1970 began on a Thursday; 20:30 UTC is 05:30 of Friday in Tokyo.
    rows = [{"submit_ms": 20 * HOUR_MS + HOUR_MS // 2}, {"submit_ms": 0}, {"submit_ms": None}]
    tokyo = trace_of(rows, Manifest(time_zone="Asia/Tokyo"))
    assert [hour for hour, count in enumerate(arrivals_by_hour(tokyo).counts) if count] == [5, 9]
    assert arrivals_by_weekday(tokyo).counts == (0, 0, 0, 1, 1, 0, 0)
    assert arrivals_by_weekday(tokyo).time_zone == "Asia/Tokyo"
    utc = trace_of(rows)
    assert [hour for hour, count in enumerate(arrivals_by_hour(utc).counts) if count] == [0, 20]
    assert arrivals_by_weekday(utc).counts == (0, 0, 0, 2, 0, 0, 0)


def test_a_zone_that_nobody_knows_reads_as_utc() -> None:
    lost = arrivals_by_hour(trace_of([{"submit_ms": 0}], Manifest(time_zone="Middle/Earth")))
    assert (lost.time_zone, lost.counts[0]) == ("UTC", 1)


def test_levels_over_time_computed_by_hand(four_jobs: Trace) -> None:
    busy = utilisation_over_time(four_jobs, 20)
    assert busy.width_s == 10.0
    assert busy.edges_ms.tolist() == list(range(0, 200_001, 10_000))
    assert busy.mean.tolist() == [2.0] * 10 + [4.0] * 10
    assert utilisation_over_time(four_jobs, 2).mean.tolist() == [3.0]
    waiting = queue_length_over_time(four_jobs, 20)
    assert waiting.mean.tolist() == [0.0] + [1.0] * 4 + [2.0] * 15
    with pytest.raises(UsageError, match="0 bins"):
        utilisation_over_time(four_jobs, 0)


def test_who_waits_without_ever_starting() -> None:
    started = {"submit_ms": 0, "start_ms": 0, "end_ms": 40_000}
    cancelled = {"submit_ms": 10_000, "end_ms": 30_000, "outcome": "cancelled"}
    pending = {"submit_ms": 20_000, "outcome": "pending"}
    ran_unseen = {"submit_ms": 0, "end_ms": 40_000, "outcome": "completed"}
    waiting = queue_length_over_time(trace_of([started, cancelled, pending, ran_unseen]), 4)
    assert waiting.mean.tolist() == [0.0, 1.0, 2.0, 1.0]
    assert len(queue_length_over_time(trace_of([cancelled, pending, ran_unseen]), 4).mean) == 0


def test_the_last_bin_is_averaged_over_what_there_is_of_it() -> None:
    rows = [{"submit_ms": 0, "start_ms": 0, "end_ms": 25_000, "cpus_req": 3.0}]
    busy = utilisation_over_time(trace_of(rows), 3)
    assert busy.edges_ms.tolist() == [0, 10_000, 20_000, 25_000]
    assert busy.mean.tolist() == [3.0, 3.0, 3.0]


def test_nothing_known_gives_no_bins() -> None:
    for rows in ([{}], [{"submit_ms": 0}], [{"submit_ms": 0, "run_s": 5.0, "cpus_req": 1.0}, {"submit_ms": 9}]):
        assert len(utilisation_over_time(trace_of(rows)).mean) == 0
        assert len(queue_length_over_time(trace_of(rows)).mean) == 0


def test_cdf_counts_and_weighs() -> None:
    values, share = cdf([3.0, 1.0, 3.0, float("nan"), 2.0])
    assert (values.tolist(), share.tolist()) == ([1.0, 2.0, 3.0], [0.25, 0.5, 1.0])
    values, share = cdf([1.0, 2.0, 5.0], weights=[3.0, 1.0, 0.0])
    assert (values.tolist(), share.tolist()) == ([1.0, 2.0], [0.75, 1.0])
    assert [part.tolist() for part in cdf([])] == [[], []]


def test_shares_of_users(four_jobs: Trace) -> None:
    shares = user_shares(four_jobs, top=1).row(0, named=True)
    assert shares == {"user": "ann", "jobs": 2, "job_share": 0.5, "work_share": 1.0}
    assert user_shares(trace_of([{"user": "ann"}]))["work_share"].to_list() == [None]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(1, 20))
def test_a_thinned_cdf_keeps_the_ends_and_stays_on_the_curve(values: list[float], points: int) -> None:
    x, share = cdf(values, points=points)
    exact_x, exact_share = cdf(values)
    assert len(x) <= max(points, 2)
    assert (x[0], x[-1]) == (exact_x[0], exact_x[-1])
    assert share[-1] == 1.0
    assert dict(zip(x, share, strict=True)).items() <= dict(zip(exact_x, exact_share, strict=True)).items()
    assert np.all(np.diff(x) > 0)
    assert np.all(np.diff(share) > 0)


durations_s = st.none() | st.floats(0, 1e7) | st.sampled_from([0.0, float("nan"), float("inf"), 1e300])
counts = st.none() | st.floats(0, 1e5)
instants_ms = st.none() | st.integers(0, 10**12) | st.sampled_from([-(2**62), 2**62])
job_rows = st.fixed_dictionaries(
    {
        "submit_ms": instants_ms, "start_ms": instants_ms, "end_ms": instants_ms, "wait_s": durations_s,
        "run_s": durations_s, "limit_s": durations_s, "cpus_req": counts, "gpus_req": counts,
        "user": st.none() | st.sampled_from("abc"), "outcome": st.none() | st.sampled_from(["failed", "pending"]),
    }
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(job_rows, max_size=12))
def test_any_trace_has_a_summary_fit_for_json(rows: list[dict[str, Any]]) -> None:
    manifest = Manifest(machine=Machine(cpus=8.0, gpus=2.0), time_zone="Europe/Paris")
    schema_only = pl.DataFrame(schema={"job_id": pl.String})
    trace = trace_of(rows, manifest) if rows else Trace.create(schema_only, manifest)
    got = summarise(trace)
    json.dumps(got.to_dict(), allow_nan=False)
    assert sum(got.outcomes.values()) == got.jobs == len(rows)
    for share in (got.multi_cpu_share, got.overrun_share, got.same_user_share, got.top_user_share):
        assert share is None or 0 <= share <= 1
    assert got.mean_bounded_slowdown is None or got.mean_bounded_slowdown >= 1
    known = sum(row["submit_ms"] is not None for row in rows)
    assert sum(arrivals_by_hour(trace).counts) == sum(arrivals_by_weekday(trace).counts) == known
    for series in (utilisation_over_time(trace, 50), queue_length_over_time(trace, 50)):
        assert len(series.mean) <= 50
        assert np.all(series.mean >= 0)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(1, 10**8), st.integers(1, 64)),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 500),
)
def test_the_area_under_the_utilisation_is_the_work_done(jobs: list[tuple[int, int, int, int]], bins: int) -> None:
    rows = [
        {"submit_ms": submit, "start_ms": submit + wait, "end_ms": submit + wait + run, "cpus_alloc": float(size)}
        for submit, wait, run, size in jobs
    ]
    trace = trace_of(rows, Manifest(machine=Machine(cpus=10.0)))
    busy = utilisation_over_time(trace, bins)
    area_ms = float(np.sum(busy.mean * np.diff(busy.edges_ms)))
    assert area_ms == pytest.approx(sum(run * size for _, _, run, size in jobs), rel=1e-6)
    whole = summarise(trace)
    assert whole.utilisation == pytest.approx(area_ms / 1000 / 10 / whole.span_s)


# Users, days, share of jobs with more than one processor and share of overruns (of all jobs), as the data's
# README gives them.
REAL = {
    "KTH-SP2-1996-2.1-cln": (28_476, 214, 333, 0.67, 0.017),
    "NASA-iPSC-1993-3.1-cln": (18_239, 69, 92, 0.73, None),
    "CTC-SP2-1996-3.1-cln": (77_222, 679, 339, 0.58, 0.093),
    "DOST-ASTI_COARE-Saliksik-2020-cln": (19_760, 89, 182, 1.0, 0.070),
    "SDSC-Par-1996-3.1-cln": (32_135, 60, 371, 0.92, None),
    "OSC-Clust-2000-3.1-cln": (36_097, 253, 677, 0.25, None),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", REAL)
def test_agrees_with_what_is_known_of_real_logs(shared_data: Path, name: str) -> None:
    jobs, users, days, multi, overrun = REAL[name]
    trace = read_trace(shared_data / f"{name}.swf.gz", format="swf")
    got = summarise(trace)
    assert (got.jobs, got.users) == (jobs, users)
    submits = trace.jobs["submit_ms"]
    assert (submits.max() - submits.min()) / 86_400_000 == pytest.approx(days, abs=0.6)
    assert got.multi_cpu_share == pytest.approx(multi, abs=0.006)
    assert got.overrun_share == (None if overrun is None else pytest.approx(overrun, abs=0.0006))


@pytest.mark.shared_data
def test_loads_of_real_logs(shared_data: Path) -> None:
    # Summed over the columns of the files with awk.
    kth = summarise(read_trace(shared_data / "KTH-SP2-1996-2.1-cln.swf.gz", format="swf"))
    nasa = summarise(read_trace(shared_data / "NASA-iPSC-1993-3.1-cln.swf.gz", format="swf"))
    assert kth.load == pytest.approx(0.7011, abs=1e-4)
    assert nasa.load == pytest.approx(0.4661, abs=1e-4)
    assert (nasa.mean_wait_s, nasa.utilisation, nasa.outcomes) == (None, None, {"unknown": 18_239})


@pytest.mark.shared_data
def test_mean_wait_of_a_real_log(shared_data: Path) -> None:
    cerit = summarise(read_trace(shared_data / "CERIT-wagap-2013.swf.gz", format="swf"))
    assert cerit.mean_wait_s == pytest.approx(14 * 3600, rel=0.04)
    assert cerit.users == 75
