from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from presage.errors import InputError, MissingDependencyError, UnknownNameError, UsageError
from presage.policies.placements import PLACEMENTS, PlacedPolicy
from presage.simulator.nodes import placed_jobs_of
from presage.simulator.placed import schedule_placed, simulate_placed
from presage.testing import make_job, make_trace
from presage.traces import Trace, read_trace, schema
from presage.traces.cleaning import clean
from presage.traces.validation import Severity, validate


def with_nodes(trace: Trace, *rows: dict[str, object]) -> Trace:
    table = schema.conform(pl.DataFrame([{"node_id": f"n{at}", **row} for at, row in enumerate(rows)]), "nodes")
    return replace(trace, nodes=table).described()


GIB = 2**30
MACHINE = (
    {
        "cpus": 8.0,
        "mem_bytes": 32 * GIB,
        "gpus": 2.0,
        "gpu_type": "A100",
        "rack": "r1",
        "features": ["ib", "nvme"],
    },
    {"cpus": 8.0, "mem_bytes": 32 * GIB, "gpus": 2.0, "gpu_type": "T4", "rack": "r1", "features": ["ib"]},
    {"cpus": 16.0, "mem_bytes": 64 * GIB, "gpus": None, "gpu_type": None, "rack": "r2", "features": None},
)


@pytest.fixture
def trace() -> Trace:
    """A gang, a share bound to a type, a constrained job, and one that asks for nothing."""
    common = {"user": "a", "outcome": "completed", "cpus_alloc": None}
    return with_nodes(
        make_trace(
            make_job(
                0, 5, 100, **common | {"tasks": 2, "cpus_req": 8.0, "gpus_req": 2.0, "mem_req_bytes": 16 * GIB}
            ),
            make_job(1, 5, 50, **common | {"cpus_req": 0.25, "gpus_req": 0.5, "gpu_type_req": "V100|T4"}),
            make_job(2, 5, 50, **common | {"cpus_req": 4.0, "constraint": "ib&nvme"}),
            make_job(3, 5, 50, **common),
        ),
        *MACHINE,
    )


def test_what_jobs_want_is_divided_among_their_members(trace: Trace) -> None:
    jobs, nodes = placed_jobs_of(trace)
    assert jobs.tasks.tolist() == [2, 1, 1, 1]
    assert jobs.cpu_milli.tolist() == [4000, 250, 4000, 0]
    assert jobs.mem_mib.tolist() == [8192, 0, 0, 0]
    assert jobs.gpus.tolist() == [1, 0, 0, 0]
    assert jobs.gpu_milli.tolist() == [0, 500, 0, 0]
    assert jobs.jobs.processors.tolist() == [2, 1, 1, 1]  # GPUs, because there are GPU jobs
    assert nodes.cpu_milli.tolist() == [8000, 8000, 16_000]
    assert nodes.gpus.tolist() == [2, 2, 0]
    assert nodes.rack.tolist() == [0, 0, 1]
    assert jobs.gpu_types[1] & nodes.type_bit.tolist()[1]
    assert not jobs.gpu_types[1] & nodes.type_bit.tolist()[0]


def test_processors_are_the_size_where_nobody_wants_gpus(trace: Trace) -> None:
    plain = trace.with_jobs(trace.jobs.with_columns(gpus_req=pl.lit(None, pl.Float64)))
    assert placed_jobs_of(plain)[0].jobs.processors.tolist() == [8, 1, 4, 1]


def test_a_resource_that_no_node_knows_is_not_modelled(trace: Trace) -> None:
    bare = replace(trace, nodes=trace.nodes.with_columns(mem_bytes=pl.lit(None, pl.Int64)))
    assert placed_jobs_of(bare)[0].mem_mib.tolist() == [0, 0, 0, 0]


def test_the_schedule_is_a_valid_trace_with_nodes(trace: Trace) -> None:
    result = simulate_placed(trace, "fcfs", "first-fit")
    jobs = result.trace.jobs
    assert jobs["start_ms"].to_list() == [0, 1000, 100_000, 100_000]
    assert jobs["node_list"].to_list() == [["n0"], ["n1"], ["n0"], ["n0"]]
    assert jobs["nodes_alloc"].to_list() == [1, 1, 1, 1]
    assert jobs["gpu_type"].to_list() == ["A100", "T4", None, None]
    assert result.trace.manifest.machine.gpus == 4
    assert result.trace.manifest.generator["simulated"]["policy"] == "fcfs@first-fit"
    assert not [finding for finding in validate(result.trace) if finding.severity is Severity.ERROR]
    # 2 GPUs for 100 s and half a GPU, counted as 1, for 50 s, and two jobs that count 1 for 50 s, of 4 for 150 s.
    assert result.metrics.utilization == pytest.approx((200 + 50 + 50 + 50) / 600)


def test_a_gang_lists_each_of_its_nodes_once(trace: Trace) -> None:
    spread = simulate_placed(trace, "fcfs+skip@worst-fit").trace.jobs
    assert spread["node_list"].to_list()[0] == ["n0", "n1"]
    assert spread["gpu_type"].to_list()[0] is None


def test_jobs_that_fit_nowhere_are_named_or_dropped_and_counted(trace: Trace) -> None:
    impossible = trace.with_jobs(
        trace.jobs.with_columns(gpu_type_req=pl.col("gpu_type_req").replace("V100|T4", "V100"))
    )
    with pytest.raises(InputError, match="Job 2 fits on no nodes"):
        simulate_placed(impossible)
    result = simulate_placed(impossible, drop_unplaceable=True)
    assert (result.dropped, result.metrics.jobs) == (1, 3)
    assert result.trace.jobs["job_id"].to_list() == ["1", "3", "4"]
    assert result.trace.manifest.generator["simulated"]["dropped"] == 1


def test_limits_kill_only_when_asked_to(trace: Trace) -> None:
    limited = trace.with_jobs(trace.jobs.with_columns(limit_s=pl.lit(60.0)))
    killed = simulate_placed(limited, kill=True).trace.jobs
    assert killed["run_s"].to_list() == [60.0, 50.0, 50.0, 50.0]
    assert killed["outcome"].to_list() == ["timeout", "completed", "completed", "completed"]


def test_what_cannot_be_used_is_said(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no table of nodes"):
        simulate_placed(make_trace(make_job(0, 0, 1)))
    with pytest.raises(InputError, match="is more than placement understands"):
        simulate_placed(trace.with_jobs(trace.jobs.with_columns(constraint=pl.lit("[ib|nvme]"))))
    with pytest.raises(InputError, match="no run"):
        simulate_placed(trace.with_jobs(trace.jobs.with_columns(run_s=pl.lit(None, pl.Float64))))
    with pytest.raises(InputError, match="63 GPUs"):
        simulate_placed(replace(trace, nodes=trace.nodes.with_columns(gpus=pl.lit(63.0))))
    with pytest.raises(UnknownNameError, match="Did you mean 'best-fit'"):
        simulate_placed(trace, "fcfs", "bestfit")
    with pytest.raises(UsageError, match="lacks a name"):
        simulate_placed(trace, "fcfs@")
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingDependencyError, match=r"presage\[simulate\]"):
        simulate_placed(trace)


@pytest.mark.parametrize("text", ["fcfs@first-fit", "saf+easy@rack-packing", "wfp3+skip@fgd"])
def test_policies_are_parsed_and_printed(text: str) -> None:
    assert str(PlacedPolicy.parse(text.upper())) == text


@pytest.fixture(scope="module")
def openb(shared_data: Path) -> Trace:
    """Alibaba's pods of 2023 with their 1,523 nodes."""
    folder = shared_data / "openb"
    return read_trace(folder / "openb_pod_list_default.csv.gz", folder / "openb_node_list_all_node.csv.gz")


@pytest.mark.shared_data
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_recorded_arrivals_leave_a_real_cluster_almost_empty(placement: str, openb: Trace) -> None:
    ran = clean(openb, ["drop-unrun"])
    result = simulate_placed(ran, "fcfs+skip", placement)
    assert result.metrics.jobs == 7221
    assert result.metrics.max_wait_s == 0
    assert result.trace.manifest.machine.gpus == 6212
    assert result.engine_s < 4  # 0.6 s at most on an idle machine; the promise is 2 s


def saturating(openb: Trace, seed: int) -> Trace:
    """Pods drawn with replacement until they want as many GPUs as there are, all at once and for good."""
    rng = np.random.default_rng(seed)
    drawn = openb.jobs[rng.integers(0, len(openb), 2 * len(openb))]
    drawn = drawn.filter(drawn["gpus_req"].cum_sum() <= 6212)
    number = pl.int_range(len(drawn)).cast(pl.String)
    return openb.with_jobs(drawn.with_columns(job_id=number, submit_ms=pl.lit(0, pl.Int64), run_s=pl.lit(1e6)))


@pytest.mark.shared_data
def test_rules_allocate_about_as_much_of_a_saturated_cluster_as_published(openb: Trace) -> None:
    """GPU allocation in percent, mean of two draws, near the table of Weng et al. (ATC 2023, ten draws).

    Ours over five draws: dot product 91.4, best fit 92.8, FGD 94.8; also first fit 94.1, kube-default 93.0,
    rack-packing 91.7, worst fit 89.3. Arrivals, ties and the form of the shares differ, so a point either way.
    """
    published = {"dot-product": 90.6, "best-fit": 92.9, "fgd": 95.2}
    allocated: dict[str, list[float]] = {placement: [] for placement in PLACEMENTS}
    for seed in range(2):
        jobs, nodes = placed_jobs_of(saturating(openb, seed))
        wanted = jobs.gpus * 1000 + jobs.gpu_milli
        for placement, values in allocated.items():
            schedule = schedule_placed(jobs, nodes, PlacedPolicy("fcfs", "skip", placement))
            values.append(wanted[schedule.start_ms == 0].sum() / 62_120)
    mean = {placement: float(np.mean(values)) for placement, values in allocated.items()}
    assert max(mean, key=lambda placement: mean[placement]) == "fgd", mean
    for placement, percent in published.items():
        # The draw of pods is ours, not the paper's. The range was set after the first measurement: it guards
        # against change and proves no agreement.
        assert mean[placement] == pytest.approx(percent, abs=1.2), placement
