from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from presage.testing import WorkloadContract
from presage.traces import Trace
from presage.traces.workloads import make_model
from presage.traces.workloads._gpu_presets import PRESETS, PROBABILITIES, Preset
from presage.traces.workloads.gpu_cluster import apportion, at_quantiles, quantile_mean

GIB = 1 << 30
WEEK_S = 7 * 86_400
JOBS = 100_000
BAD = (
    {"preset": "opemb"},
    {"nodes": 0},
    {"nodes": 2.5},
    {"nodes_per_rack": 0},
    {"typed_share": 1.5},
    {"users": -1},
    {"user_exponent": "steep"},
)


class TestOpenb(WorkloadContract):
    name = "gpu-cluster"
    settings = {"preset": "openb", "nodes": 40}  # noqa: RUF012  (the suite reads it only)
    bad_settings = BAD


class TestPhilly(WorkloadContract):
    name = "gpu-cluster"
    settings = {"preset": "philly", "nodes": 60}  # noqa: RUF012  (the suite reads it only)
    days = 60.0
    bad_settings = BAD


@pytest.fixture(scope="module", params=["openb", "philly"])
def made(request: pytest.FixtureRequest) -> tuple[Preset, Trace]:
    return PRESETS[request.param], make_model("gpu-cluster", {"preset": request.param}).generate(JOBS, seed=3)


def classes(jobs: pl.DataFrame, preset: Preset) -> list[pl.DataFrame]:
    """The jobs by size class."""
    bounds = [-1.0, *(kind.gpus for kind in preset.classes)]
    gpus = pl.col("gpus_req")
    return [jobs.filter((gpus > low) & (gpus <= high)) for low, high in pairwise(bounds)]


def assert_share(count: int, of: int, expected: float) -> None:
    """Assert a share within four standard deviations of its sampling error."""
    error = 4 * np.sqrt(max(expected * (1 - expected), 1e-6) / of)
    assert count / of == pytest.approx(expected, abs=error)


def test_requests_come_up_as_often_as_in_the_log(made: tuple[Preset, Trace]) -> None:
    preset, trace = made
    total = sum(shape.jobs for shapes in preset.groups.values() for shape in shapes)
    for group, shapes in preset.groups.items():
        jobs = trace.jobs.filter(pl.col("partition").eq_missing(group or None))
        assert_share(len(jobs), JOBS, sum(shape.jobs for shape in shapes) / total)
        for gpus in {shape.gpus for shape in shapes}:
            expected = sum(shape.jobs for shape in shapes if shape.gpus == gpus) / total
            assert_share(int((jobs["gpus_req"] == gpus).sum()), JOBS, expected)


def test_run_times_have_the_quantiles_of_their_class(made: tuple[Preset, Trace]) -> None:
    preset, trace = made
    for measured, jobs in zip(preset.classes, classes(trace.jobs, preset), strict=True):
        run_s = np.sort(jobs["run_s"].to_numpy())
        here = np.searchsorted(run_s, measured.run_s, side="right") / len(run_s)
        # Whole seconds and equal quantiles make steps; the inner quantiles are far from both.
        inner = slice(4, 16)
        error = 4 * 0.5 / np.sqrt(len(run_s))
        assert np.abs(here[inner] - PROBABILITIES[inner]).max() < max(error, 0.005)
        assert run_s[-1] <= measured.run_s[-1]


def test_outcomes_come_up_as_often_as_in_the_log(made: tuple[Preset, Trace]) -> None:
    preset, trace = made
    for measured, jobs in zip(preset.classes, classes(trace.jobs, preset), strict=True):
        counts = {outcome: int((jobs["outcome"] == outcome).sum()) for outcome in ("failed", "cancelled")}
        assert jobs["outcome"].null_count() == 0
        assert_share(counts["failed"], len(jobs), measured.failed)
        assert_share(counts["cancelled"], len(jobs), (1 - measured.failed) * measured.cancelled)


def test_short_runs_fail_in_openb_and_long_runs_are_killed_in_philly() -> None:
    openb = make_model("gpu-cluster", {"preset": "openb"}).generate(JOBS, seed=3).jobs
    whole = openb.filter(pl.col("gpus_req") == 1)
    rank = whole["run_s"].rank() / len(whole)
    # Density 1.95 (1 - u) ** .95 has the mean 1 / 2.95.
    assert rank.filter(whole["outcome"] == "failed").mean() == pytest.approx(1 / 2.95, abs=0.01)
    philly = make_model("gpu-cluster", {"preset": "philly"}).generate(JOBS, seed=3).jobs
    work = philly["run_s"] * philly["gpus_req"]
    # The paper: 13.5 % of the jobs were killed, and took 37.7 % of the GPU time.
    assert work.filter(philly["outcome"] == "cancelled").sum() / work.sum() == pytest.approx(0.377, abs=0.06)


@pytest.mark.parametrize(("name", "tolerance"), [("openb", 0.004), ("philly", 0.012)])
def test_the_week_has_the_measured_rhythm(name: str, tolerance: float) -> None:
    # Tolerances are some four deviations of the share of an hour: Philly's gaps have so long a tail that counts
    # swing three times as much as openb's.
    preset = PRESETS[name]
    trace = make_model("gpu-cluster", {"preset": name, "load": "none"}).generate(JOBS, seed=3)
    seconds = (trace.jobs["submit_ms"].to_numpy() - trace.manifest.origin_ms) // 1000
    seconds = seconds[seconds < seconds[-1] // WEEK_S * WEEK_S]
    hours = np.bincount(seconds // 3600 % 24) / len(seconds)
    days = np.bincount(seconds // 86_400 % 7) / len(seconds)
    assert np.abs(hours - np.array(preset.hours) / sum(preset.hours)).max() < tolerance
    assert np.abs(days - np.array(preset.weekdays) / sum(preset.weekdays)).max() < 2 * tolerance


def test_without_a_load_jobs_come_at_the_pace_of_the_log() -> None:
    jobs = make_model("gpu-cluster", {"preset": "openb", "load": "none"}).generate(JOBS, seed=3).jobs
    assert (jobs["submit_ms"][-1] - jobs["submit_ms"][0]) / 1000 / JOBS == pytest.approx(402, rel=0.02)


def test_the_machine_is_that_of_the_log() -> None:
    openb = make_model("gpu-cluster", {"preset": "openb"}).generate(100, seed=1)
    assert (openb.manifest.machine.nodes, openb.manifest.machine.gpus) == (1518, 6205)
    assert openb.manifest.machine.cpus == openb.nodes["cpus"].sum()
    assert openb.nodes.filter(gpu_type="V100M32")["gpu_mem_bytes"].unique().to_list() == [32 * GIB]
    assert openb.nodes["rack"].value_counts()["count"].max() == 16
    philly = make_model("gpu-cluster", {"preset": "philly"}).generate(100, seed=1)
    assert (philly.manifest.machine.nodes, philly.manifest.machine.gpus) == (552, 2490)
    assert philly.manifest.machine.cpus is None


def test_gangs_have_one_member_per_node() -> None:
    jobs = make_model("gpu-cluster", {"preset": "philly"}).generate(JOBS, seed=3).jobs
    members = dict(jobs.select("gpus_req", "tasks").unique().rows())
    assert members == {1: 1, 2: 1, 4: 1, 8: 1, 12: 2, 16: 2, 24: 3, 32: 4, 64: 8, 128: 16}
    assert jobs["nodes_req"].equals(jobs["tasks"])
    pods = make_model("gpu-cluster", {"preset": "openb"}).generate(1000, seed=3).jobs
    assert pods["tasks"].unique().to_list() == [1]


@pytest.mark.parametrize("preset", ["openb", "philly"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 17, 100])
def test_every_job_fits_on_the_empty_machine(preset: str, nodes: int) -> None:
    model = make_model("gpu-cluster", {"preset": preset, "nodes": nodes, "typed_share": 0.5})
    trace = model.generate(3000, seed=nodes)
    assert len(trace.nodes) == nodes
    columns = ["gpus_req", "cpus_req", "mem_req_bytes", "tasks", "gpu_type_req"]
    for gpus, cpus, mem_bytes, tasks, types in trace.jobs.select(columns).unique().rows():
        able = trace.nodes.filter(
            pl.col("gpus") * tasks >= gpus,
            pl.col("cpus").is_null() | (pl.col("cpus") * tasks >= (cpus or 0)),
            pl.col("mem_bytes").is_null() | (pl.col("mem_bytes") * tasks >= (mem_bytes or 0)),
            pl.col("gpu_type").is_in(types.split("|")) if types else pl.lit(True),
        )
        assert len(able) >= tasks


def test_gpu_types_are_asked_for_by_a_share_of_the_gpu_jobs() -> None:
    jobs = make_model("gpu-cluster", {"preset": "openb"}).generate(JOBS, seed=3).jobs
    typed = jobs.filter(pl.col("gpu_type_req").is_not_null())
    assert typed["gpus_req"].min() > 0
    assert_share(len(typed), int((jobs["gpus_req"] > 0).sum()), 0.2)
    weights = dict(PRESETS["openb"].types)
    single = typed.filter(pl.col("gpus_req") <= 1)
    # A few wide requests rule out small nodes; T4 nodes hold every single-GPU request.
    assert_share(int((single["gpu_type_req"] == "T4").sum()), len(single), weights["T4"] / sum(weights.values()))
    untyped = make_model("gpu-cluster", {"preset": "openb", "typed_share": 0}).generate(1000, seed=3).jobs
    assert untyped["gpu_type_req"].null_count() == 1000


def test_users_belong_to_one_virtual_cluster() -> None:
    jobs = make_model("gpu-cluster", {"preset": "philly", "users": 100}).generate(JOBS, seed=3).jobs
    assert jobs.group_by("user").agg(pl.col("partition").n_unique())["partition"].max() == 1
    assert jobs["user"].n_unique() == pytest.approx(100, abs=2)
    first = jobs.filter(partition="vc01")["user"].value_counts(sort=True, normalize=True).row(0)
    assert first == ("vc01-user1", pytest.approx(1 / sum(1 / k for k in range(1, 11)), abs=0.01))
    nobody = make_model("gpu-cluster", {"users": 0}).generate(100, seed=3)
    assert not nobody.manifest.has["users"]


def test_tables_of_quantiles() -> None:
    values = [float(np.exp(10 * p)) for p in PROBABILITIES]
    rank = np.array([0.0, 0.123, 0.5, 1.0])
    assert at_quantiles(rank, values) == pytest.approx(np.exp(10 * rank))
    assert quantile_mean(values) == pytest.approx((np.exp(10) - 1) / 10)
    assert quantile_mean([3.0] * len(PROBABILITIES)) == pytest.approx(3.0)


def test_apportioning_adds_up() -> None:
    assert apportion(10, [1, 1, 1]) == [4, 3, 3]
    assert apportion(1, [321, 231]) == [1, 0]
    assert apportion(552, [321, 231]) == [321, 231]


def ks(sample: np.ndarray, reference: np.ndarray) -> float:
    """The largest distance between the two distribution functions."""
    points = np.unique(reference)
    here, there = (np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (sample, reference))
    return float(np.abs(here - there).max())


def openb_pods(shared_data: Path) -> pl.DataFrame:
    pods = pl.read_csv(shared_data / "openb" / "openb_pod_list_default.csv.gz")
    assert len(pods) == 8152
    return pods.filter(pl.col("creation_time") >= 115 * 86_400).with_columns(
        run_s=pl.col("deletion_time") - pl.col("scheduled_time"),
        gpus_req=(pl.col("num_gpu") * pl.col("gpu_milli") / 1000).round(2),
    )


def philly_jobs(shared_data: Path) -> pl.DataFrame:
    jobs = pl.read_csv(shared_data / "philly-2017-gpu-jobs.csv.gz", try_parse_dates=True)
    assert len(jobs) == 66_156
    return jobs.rename({"duration": "run_s", "num_gpus": "gpus_req"})


@pytest.mark.shared_data
def test_openb_looks_like_its_log(shared_data: Path) -> None:
    """Shares within sampling error and one point for requests left out; KS of run times up to the log's ties."""
    pods, jobs = (
        openb_pods(shared_data),
        make_model("gpu-cluster", {"preset": "openb"}).generate(JOBS, seed=3).jobs,
    )
    for name, kind in {
        "GPU pods": pl.col("gpus_req") > 0,
        "shared": pl.col("gpus_req").is_between(0.01, 0.99),
        "many GPUs": pl.col("gpus_req") > 1,
        "all of a GPU node": pl.col("gpus_req") == 8,
        "best effort": pl.col("qos") == "BE",
    }.items():
        there, here = (frame.select(kind.mean()).item() for frame in (pods, jobs))
        assert here == pytest.approx(there, abs=0.01 + 3 * np.sqrt(there / len(pods))), name
    assert jobs["gpus_req"].mean() == pytest.approx(pods["gpus_req"].mean(), rel=0.04)
    assert jobs["cpus_req"].mean() == pytest.approx(pods["cpu_milli"].mean() / 1000, rel=0.05)
    assert jobs["mem_req_bytes"].mean() == pytest.approx(pods["memory_mib"].mean() * 2**20, rel=0.05)
    started = pods.filter(pl.col("run_s").is_not_null())
    assert (jobs["outcome"] == "failed").mean() == pytest.approx(
        (started["pod_phase"] == "Failed").mean(), abs=0.02
    )
    # CPU-only pods pile up on a few seconds, and there are only 73 started pods of several GPUs.
    for tolerance, here, there in zip(
        (0.06, 0.035, 0.035, 0.1),
        classes(jobs, PRESETS["openb"]),
        classes(started, PRESETS["openb"]),
        strict=True,
    ):
        assert ks(here["run_s"].to_numpy(), there["run_s"].to_numpy()) < tolerance


@pytest.mark.shared_data
def test_philly_looks_like_its_log(shared_data: Path) -> None:
    """As above; the largest gangs are 270 jobs. Mean GPU time within 15 %, for its tail is a handful of jobs."""
    real, jobs = (
        philly_jobs(shared_data),
        make_model("gpu-cluster", {"preset": "philly"}).generate(JOBS, seed=3).jobs,
    )
    for gpus in (1, 2, 4, 8, 16, 32):
        there, here = (float((frame["gpus_req"] == gpus).mean()) for frame in (real, jobs))
        assert here == pytest.approx(there, abs=0.001 + 4 * np.sqrt(there * (1 - there) / JOBS)), gpus
    shares = [frame[column].value_counts(sort=True)["count"].head(10).to_numpy() / len(frame)
              for frame, column in ((real, "cluster"), (jobs, "partition"))]  # fmt: skip
    assert np.abs(shares[0] - shares[1]).max() < 0.01
    for tolerance, here, there in zip(
        (0.035, 0.06, 0.055, 0.11), classes(jobs, PRESETS["philly"]), classes(real, PRESETS["philly"]), strict=True
    ):
        assert ks(here["run_s"].to_numpy(), there["run_s"].to_numpy()) < tolerance
    work, real_work = ((frame["run_s"] * frame["gpus_req"]).mean() for frame in (jobs, real))
    assert work == pytest.approx(real_work, rel=0.15)


@pytest.mark.shared_data
def test_the_measured_rhythms_are_those_of_the_logs(shared_data: Path) -> None:
    """The tables of hours and weekdays, measured anew."""
    pods = openb_pods(shared_data)["creation_time"].to_numpy() - 8 * 3600
    pods = pods[(pods >= 119 * 86_400) & (pods < 147 * 86_400)]
    minutes = np.unique(pods // 60)
    assert np.bincount(minutes // 60 % 24).tolist() == list(PRESETS["openb"].hours)
    # Day 2 of the log's week is the quietest and is taken as Sunday, so day 3 is Monday.
    assert np.roll(np.bincount(minutes // 1440 % 7), -3).tolist() == list(PRESETS["openb"].weekdays)
    submits = philly_jobs(shared_data)["timestamp"].dt.offset_by("-9h").unique()
    submits = submits.filter(submits.is_between(pl.date(2017, 9, 25), pl.date(2017, 12, 18), closed="left"))
    minutes = submits.dt.truncate("1m").unique()
    assert np.bincount(minutes.dt.hour().to_numpy()).tolist() == list(PRESETS["philly"].hours)
    assert np.bincount(minutes.dt.weekday().to_numpy() - 1).tolist() == list(PRESETS["philly"].weekdays)
