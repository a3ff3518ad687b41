from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import ConfigError, InputError, UnknownNameError, UsageError
from presage.policies import ORDERS, PLACED_BACKFILLINGS, PLACEMENTS, PlacedPolicy
from presage.policies.cluster_orders import CLUSTER_ORDERS
from presage.policies.cluster_policy import ClusterPolicy
from presage.policies.scorer import FEATURES, Scorer
from presage.simulator import simulate_placed
from presage.simulator.detailed import (
    Checkpoints,
    Conditions,
    Drain,
    Failures,
    KindSpeeds,
    Override,
    Throughput,
    read_conditions,
    simulate_detailed,
)
from presage.simulator.detailed.failures import draw_outages
from presage.testing import make_job, make_trace
from presage.traces.schema import EDGES, NODES

if TYPE_CHECKING:
    from presage.simulator.detailed.engine import Engine
    from presage.traces import Trace

GIB = 2**30


def cluster(
    *jobs: dict[str, Any],
    nodes: int = 1,
    cpus: float = 4,
    gpus: float = 0,
    edges: list[tuple[Any, ...]] | None = None,
    **columns: list[Any],
) -> Trace:
    """Jobs on equal nodes n0, n1, …; times in seconds, `columns` of the nodes as lists."""
    rows = []
    for number, job in enumerate(jobs):
        given = dict(job)
        submit_s, run_s = given.pop("submit"), given.pop("run")
        wanted = float(given.pop("cpus", 1))
        limit_s = float(given.pop("limit", run_s))
        columns_of_job = {"job_id": str(number), "limit_s": limit_s, "cpus_req": wanted, **given}
        rows.append(make_job(submit_s, 0, float(run_s), wanted, **columns_of_job))
    table = {"node_id": [f"n{number}" for number in range(nodes)], "cpus": [float(cpus)] * nodes}
    table |= {"gpus": [float(gpus)] * nodes, **columns}
    frame = pl.DataFrame(
        {name: pl.Series(table.get(name, [None] * nodes), dtype=kind) for name, kind in NODES.items()}
    )
    links = pl.DataFrame(edges or [], schema=EDGES, orient="row")
    return replace(make_trace(*rows), nodes=frame, edges=links)


def times(trace: Trace, *names: str) -> list[Any]:
    """The starts of all jobs in seconds, or other columns."""
    table = trace.jobs.sort(pl.col("job_id").cast(pl.Int64))
    columns = [table[name].to_list() for name in names or ["start_ms"]]
    return [value if value is None else value / 1000 for value in columns[0]] if not names else columns


def run(trace: Trace, policy: str = "fcfs", conditions: Conditions | None = None, **options: Any) -> Trace:
    return simulate_detailed(trace, policy, conditions, **options).trace


@st.composite
def workloads(draw: st.DrawFn) -> Trace:
    """Small gangs with CPUs, memory and shares of GPUs on a few nodes, with many ties."""
    jobs = []
    for _ in range(draw(st.integers(1, 14))):
        members = draw(st.integers(1, 3))
        jobs.append(
            {
                "submit": draw(st.integers(0, 12)),
                "run": draw(st.integers(1, 9)),
                "limit": draw(st.integers(1, 12)),
                "cpus": draw(st.integers(1, 3)) * members,
                "tasks": members,
                "gpus_req": draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])) * members,
                "user": draw(st.sampled_from(["ann", "bob", "cy"])),
                "priority": float(draw(st.integers(0, 2))),
            }
        )
    return cluster(*sorted(jobs, key=lambda job: job["submit"]), nodes=3, cpus=4, gpus=2, rack=["a", "a", "b"])


@pytest.mark.parametrize("backfilling", PLACED_BACKFILLINGS)
@settings(max_examples=25)
@given(trace=workloads(), order=st.sampled_from(list(ORDERS)), placement=st.sampled_from(list(PLACEMENTS)))
def test_without_conditions_it_does_what_the_fast_engine_does(
    backfilling: str, trace: Trace, order: str, placement: str
) -> None:
    policy = f"{order}+{backfilling}@{placement}"
    fast = simulate_placed(trace, PlacedPolicy.parse(policy), drop_unplaceable=True).trace
    detailed = run(trace, policy, drop_unplaceable=True)
    for name in ("start_ms", "end_ms", "node_list"):
        assert detailed.jobs[name].to_list() == fast.jobs[name].to_list()


@pytest.mark.parametrize("order", CLUSTER_ORDERS)
@settings(max_examples=15)
@given(
    trace=workloads(),
    fails=st.booleans(),
    saves=st.booleans(),
    kill=st.booleans(),
    sharing=st.booleans(),
    backfilling=st.sampled_from(list(PLACED_BACKFILLINGS)),
)
def test_laws_hold_whatever_happens(
    order: str, trace: Trace, fails: bool, saves: bool, kill: bool, sharing: bool, backfilling: str
) -> None:
    conditions = Conditions(
        failures=Failures(node_mtbf_h=0.02, node_repair_h=0.001, rack_mtbf_h=0.05, rack_repair_h=0.001)
        if fails
        else Failures(),
        checkpoints=Checkpoints(every_s=1, restart_s=0.5) if saves else None,
        throughput=Throughput(across_racks=0.5, gpu_sharing=(0.7,)) if sharing else None,
    )
    policy = f"{order}+{backfilling}"
    result = simulate_detailed(trace, policy, conditions, kill=kill, drop_unplaceable=True)
    again = simulate_detailed(trace, policy, conditions, kill=kill, drop_unplaceable=True)
    assert result.trace.jobs.equals(again.trace.jobs)
    done = result.trace.jobs.filter(pl.col("end_ms").is_not_null())
    assert len(done) + result.disruptions.never_started == len(result.trace.jobs)
    assert result.disruptions.never_started == 0
    assert (done["start_ms"] >= done["submit_ms"]).all()
    assert_nothing_is_oversubscribed(result.trace)
    if not sharing and not kill and not fails:
        # Work is conserved: without checkpoints the last stretch of running is the whole job.
        held = stretches(result.trace).group_by("job_id").agg(pl.col("run_ms").sum(), last=pl.col("run_ms").last())
        runs = dict(zip(trace.jobs["job_id"], trace.jobs["run_s"], strict=True))
        for job, total, last in held.iter_rows():
            assert total >= runs[job] * 1000
            assert saves or last == runs[job] * 1000


def stretches(trace: Trace) -> pl.DataFrame:
    """Every stretch of running: from the attempts, or from the job itself if it ran but once."""
    once = trace.jobs.filter(pl.col("end_ms").is_not_null() & (pl.col("restarts") == 0))
    columns = ["job_id", "start_ms", "end_ms"]
    return pl.concat([once.select(columns), trace.attempts.select(columns)]).with_columns(
        run_ms=pl.col("end_ms") - pl.col("start_ms")
    )


def assert_nothing_is_oversubscribed(trace: Trace) -> None:
    capacity = {"cpus_req": trace.nodes["cpus"].sum(), "gpus_req": trace.nodes["gpus"].sum()}
    running = stretches(trace).join(trace.jobs.select("job_id", *capacity), on="job_id")
    for instant in running["start_ms"].unique():
        inside = running.filter((pl.col("start_ms") <= instant) & (instant < pl.col("end_ms")))
        for name, most in capacity.items():
            assert inside[name].sum() <= most


def test_a_failed_node_sends_its_jobs_back_to_their_last_checkpoint() -> None:
    trace = cluster({"submit": 0, "run": 100}, nodes=1)
    drawn = (Failures(node_mtbf_h=1 / 40, node_repair_h=1 / 360, seed=seed) for seed in range(100))
    failures, outages = next(
        (failures, outages)
        for failures in drawn
        if 20_000 < (outages := draw_outages(failures, np.zeros(1, np.int64), 0, 10**6))[0].from_ms < 90_000
        and outages[1].from_ms > 300_000
    )
    first = outages[0]
    saving = Conditions(failures=failures, checkpoints=Checkpoints(every_s=10, restart_s=2))
    result = simulate_detailed(trace, "fcfs", saving)
    attempts = result.trace.attempts
    assert attempts["start_ms"][:2].to_list() == [0, first.to_ms]
    assert attempts["end_ms"][0] == first.from_ms
    assert attempts["outcome"].to_list() == ["node_failure", "completed"]
    kept_ms = first.from_ms // 10_000 * 10_000
    assert attempts["end_ms"][1] == first.to_ms + 2_000 + 100_000 - kept_ms
    assert result.disruptions.node_failures == 1


def test_a_job_that_cannot_save_starts_from_the_beginning() -> None:
    trace = cluster({"submit": 0, "run": 100}, nodes=1)
    failures = Failures(node_mtbf_h=1 / 60, node_repair_h=1 / 360, seed=3)
    result = simulate_detailed(trace, "fcfs", Conditions(failures=failures))
    attempts = result.trace.attempts
    assert attempts["end_ms"][-1] - attempts["start_ms"][-1] == 100_000
    lost_s = (attempts["end_ms"] - attempts["start_ms"])[:-1].sum() / 1000
    assert result.disruptions.lost_cpu_s == pytest.approx(lost_s)


def test_checkpoints_cost_time() -> None:
    trace = cluster({"submit": 0, "run": 100})
    conditions = Conditions(checkpoints=Checkpoints(every_s=10, cost_s=1))
    assert times(run(trace, "fcfs", conditions), "run_s") == [[110.0]]


def test_a_rack_takes_all_its_nodes_with_it() -> None:
    racks = np.array([0, 0, 1])
    outages = draw_outages(Failures(rack_mtbf_h=10, seed=1), racks, 0, 10**9)
    by_rack = {0: [], 1: []}  # type: dict[int, list[tuple[int, int]]]
    for node in (0, 1, 2):
        by_rack.setdefault(node + 10, [(o.from_ms, o.to_ms) for o in outages if o.node == node])
    assert by_rack[10] == by_rack[11] != by_rack[12]


def test_more_time_only_adds_failures() -> None:
    failures = Failures(node_mtbf_h=5, rack_mtbf_h=20, seed=2)
    racks = np.array([0, 0, 1])
    short = set(draw_outages(failures, racks, 7, 10**8))
    assert short < set(draw_outages(failures, racks, 7, 10**9))


def test_failures_that_never_let_a_job_end_are_told() -> None:
    trace = cluster({"submit": 0, "run": 36_000}, nodes=1)
    with pytest.raises(InputError, match="do not come to an end"):
        run(trace, "fcfs", Conditions(failures=Failures(node_mtbf_h=0.1, node_repair_h=0.01)))


def test_a_drained_node_finishes_its_jobs_and_takes_no_others() -> None:
    trace = cluster(
        {"submit": 0, "run": 50, "cpus": 4}, {"submit": 10, "run": 5}, {"submit": 95, "run": 5}, nodes=1
    )
    drained = Conditions(drains=(Drain(nodes=("n0",), from_s=5, to_s=80),))
    assert times(run(trace, "fcfs+skip", drained)) == [0, 80, 95]


def test_a_node_that_never_comes_back_leaves_jobs_unstarted() -> None:
    trace = cluster({"submit": 0, "run": 5}, {"submit": 10, "run": 5}, nodes=1)
    result = simulate_detailed(trace, "fcfs", Conditions(drains=(Drain(nodes=("n0",), from_s=7),)))
    assert times(result.trace) == [0, None]
    assert result.disruptions.never_started == 1
    assert times(result.trace, "outcome")[0][1] == "pending"


def test_an_override_goes_before_the_order() -> None:
    jobs = [{"submit": 0, "run": 10, "cpus": 4}, *({"submit": 1, "run": run, "cpus": 4} for run in (2, 3, 4))]
    trace = cluster(*jobs)
    assert times(run(trace, "sjf")) == [0, 10, 12, 15]
    for policy in ("sjf", "lxf"):
        first = Conditions(overrides=(Override(job="3", at_s=5, priority=9),))
        assert times(run(trace, policy, first))[3] == 10


@pytest.mark.parametrize(
    ("kind", "outcome", "start"),
    [
        ("afterok", "completed", 12),
        ("afterok", "failed", None),
        ("afternotok", "failed", 12),
        ("afternotok", "completed", None),
        ("afterany", "failed", 12),
        ("think", "completed", 12),
        ("after", "completed", 2),
    ],
)
def test_a_job_waits_for_what_it_depends_on(kind: str, outcome: str, start: float | None) -> None:
    trace = cluster(
        {"submit": 0, "run": 10, "outcome": outcome},
        {"submit": 1, "run": 5},
        {"submit": 1, "run": 1},
        edges=[("1", "0", kind, 2.0), ("2", "1", "afterany", None)],
    )
    followed = None if start is None else start + 5
    assert times(run(trace)) == [0, start, followed]


def test_dependencies_in_a_circle_are_told() -> None:
    trace = cluster(
        {"submit": 0, "run": 1}, {"submit": 0, "run": 1},
        edges=[("1", "0", "afterok", None), ("0", "1", "afterok", None)],
    )  # fmt: skip
    with pytest.raises(InputError, match="in a circle"):
        run(trace)
    assert times(run(trace, "fcfs", Conditions(dependencies=False))) == [0, 0]


def test_partitions_bind_jobs_to_their_nodes() -> None:
    both = {"partitions": [["small"], ["small", "big"]]}
    trace = cluster(
        {"submit": 0, "run": 10, "cpus": 4, "partition": "big"},
        {"submit": 0, "run": 10, "cpus": 4, "partition": "big"},
        {"submit": 0, "run": 10, "cpus": 4, "partition": "small"},
        nodes=2, **both,
    )  # fmt: skip
    assert times(run(trace, "fcfs+skip")) == [0, 10, 0]
    lost = trace.with_jobs(trace.jobs.with_columns(partition=pl.lit("nowhere")))
    with pytest.raises(InputError, match="nowhere"):
        run(lost)


def test_shortest_remaining_time_interrupts_what_takes_longer() -> None:
    trace = cluster({"submit": 0, "run": 100, "cpus": 4}, {"submit": 10, "run": 5, "cpus": 4})
    saves = Conditions(checkpoints=Checkpoints(every_s=1000, restart_s=3))
    result = simulate_detailed(trace, "srtf", saves)
    # Interrupted at 10 with 90 left; goes on at 15 after 3 s of loading.
    assert times(result.trace, "end_ms") == [[15_000 + 3_000 + 90_000, 15_000]]
    assert result.disruptions.preemptions == 1
    kept = Conditions(preemptible=False)
    assert times(run(trace, "srtf", kept)) == [0, 100]


def test_no_more_jobs_are_interrupted_than_must_be() -> None:
    trace = cluster(
        {"submit": 0, "run": 100, "cpus": 1},
        {"submit": 0, "run": 200, "cpus": 3},
        {"submit": 10, "run": 5, "cpus": 3},
    )
    result = simulate_detailed(trace, "srtf", Conditions(checkpoints=Checkpoints(every_s=1)))
    assert times(result.trace, "restarts") == [[0, 1, 0]]


def test_tiresias_lets_new_jobs_pass_those_that_had_their_share() -> None:
    trace = cluster({"submit": 0, "run": 100, "cpus": 4}, {"submit": 10, "run": 20, "cpus": 4})
    saves = Conditions(checkpoints=Checkpoints(every_s=1))
    # The first job has held 4 x 15 = 60 processor seconds at 15 and falls to the second queue.
    assert times(run(trace, "tiresias:first_s=60,second_s=1e9", saves)) == [35, 15]


def test_tiresias_goes_on_by_arrival_within_a_queue() -> None:
    trace = cluster({"submit": 0, "run": 100, "cpus": 4}, {"submit": 10, "run": 20, "cpus": 4})
    saves = Conditions(checkpoints=Checkpoints(every_s=1))
    # At 15 the second starts; at 30 it has held 60 too and the first, which came earlier, does not interrupt it.
    result = run(trace, "tiresias:first_s=60,second_s=1e9", saves)
    assert times(result, "end_ms") == [[120_000, 35_000]]


def test_priorities_interrupt_lower_ones_only() -> None:
    trace = cluster(
        {"submit": 0, "run": 100, "cpus": 4, "priority": 1.0},
        {"submit": 1, "run": 10, "cpus": 4, "priority": 1.0},
        {"submit": 2, "run": 10, "cpus": 4, "priority": 2.0},
    )
    saves = Conditions(checkpoints=Checkpoints(every_s=1))
    assert times(run(trace, "priority", saves)) == [12, 110, 2]


def test_fairness_by_dominant_share_alternates_between_users() -> None:
    jobs = [{"submit": 0, "run": 100, "cpus": 1, "user": "ann"} for _ in range(4)]
    jobs += [{"submit": 0, "run": 100, "cpus": 1, "user": "bob"} for _ in range(2)]
    assert times(run(cluster(*jobs), "fcfs+skip")) == [0, 0, 0, 0, 100, 100]
    assert times(run(cluster(*jobs), "drf")) == [0, 0, 100, 100, 0, 0]


def test_the_dominant_resource_counts() -> None:
    # Ann holds 1 of 2 GPUs, half of them; Bob holds 1 of 4 processors, a quarter: he is next.
    jobs = [
        {"submit": 0, "run": 100, "cpus": 0.1, "gpus_req": 1.0, "user": "ann"},
        {"submit": 0, "run": 100, "cpus": 1, "user": "bob"},
        {"submit": 1, "run": 10, "cpus": 2, "user": "ann"},
        {"submit": 1, "run": 10, "cpus": 2, "user": "bob"},
    ]
    assert times(run(cluster(*jobs, gpus=2), "drf")) == [0, 0, 11, 1]


def test_volcano_looks_at_priorities_first_and_packs() -> None:
    jobs = [
        {"submit": 0, "run": 100, "cpus": 3, "user": "ann"},
        {"submit": 0, "run": 10, "cpus": 2, "user": "ann", "priority": 5.0},
        {"submit": 1, "run": 10, "cpus": 1, "user": "bob"},
    ]
    result = run(cluster(*jobs, nodes=2), "volcano")
    assert times(result) == [0, 0, 1]
    assert times(result, "node_list") == [[["n1"], ["n0"], ["n1"]]]


def test_qssf_goes_by_what_the_users_jobs_took() -> None:
    jobs = [
        {"submit": 0, "run": 50, "limit": 50, "cpus": 2, "user": "long"},
        {"submit": 0, "run": 5, "limit": 50, "cpus": 2, "user": "short"},
        {"submit": 6, "run": 45, "limit": 45, "cpus": 4, "user": "other"},
        {"submit": 7, "run": 5, "limit": 60, "cpus": 4, "user": "short"},
    ]
    # The last job asks for most, but its user's jobs took 5 s so far.
    assert times(run(cluster(*jobs), "qssf")) == [0, 0, 55, 50]


def test_multifactor_favours_users_who_used_little() -> None:
    jobs = [
        {"submit": 0, "run": 100, "cpus": 4, "user": "heavy"},
        {"submit": 1, "run": 10, "cpus": 4, "user": "heavy"},
        {"submit": 2, "run": 10, "cpus": 4, "user": "light"},
    ]
    assert times(run(cluster(*jobs), "multifactor")) == [0, 110, 100]
    by_age = "multifactor:fair_share=0,max_age_s=1000"
    assert times(run(cluster(*jobs), by_age)) == [0, 100, 110]


def test_multifactor_counts_size_and_quality_of_service() -> None:
    jobs = [
        {"submit": 0, "run": 100, "cpus": 4},
        {"submit": 1, "run": 10, "cpus": 3},
        {"submit": 1, "run": 10, "cpus": 4, "priority": 1.0},
        {"submit": 1, "run": 10, "cpus": 1.5},
    ]
    none = "multifactor:age=0,fair_share=0,qos=0"
    assert times(run(cluster(*jobs), f"{none},size=1+none")) == [0, 110, 100, 120]
    assert times(run(cluster(*jobs), f"{none},size=1,small_first=1+none")) == [0, 110, 120, 100]
    assert times(run(cluster(*jobs), "multifactor:age=0,fair_share=0+none"))[2] == 100


def test_speed_depends_on_the_type_and_the_kind_of_job() -> None:
    jobs = [
        {"submit": 0, "run": 100, "gpus_req": 1.0, "gpu_type_req": "old"},
        {"submit": 0, "run": 100, "gpus_req": 1.0, "gpu_type_req": "new"},
        {"submit": 0, "run": 100, "gpus_req": 1.0, "gpu_type_req": "new", "name": "bert"},
    ]
    trace = cluster(*jobs, nodes=3, gpus=1, gpu_type=["old", "new", "new"])
    table = Throughput(speeds={"new": 2.0}, kind_column="name", kinds={"bert": KindSpeeds(speeds={"new": 4.0})})
    assert times(run(trace, "fcfs", Conditions(throughput=table)), "run_s") == [[100.0, 50.0, 25.0]]


def test_recorded_run_times_are_scaled_from_the_type_they_were_measured_on() -> None:
    trace = cluster(
        {"submit": 0, "run": 100, "gpus_req": 1.0, "gpu_type": "new"}, nodes=1, gpus=1, gpu_type=["old"]
    )
    table = Throughput(speeds={"new": 2.0}, recorded=True)
    assert times(run(trace, "fcfs", Conditions(throughput=table)), "run_s") == [[200.0]]


def test_a_gang_runs_slower_when_it_is_spread() -> None:
    gang = {"submit": 0, "run": 90, "cpus": 8, "tasks": 2}
    table = Conditions(throughput=Throughput(across_nodes=0.9, across_racks=0.5))
    near = cluster(gang, nodes=2, rack=["a", "a"])
    far = cluster(gang, nodes=2, rack=["a", "b"])
    together = cluster({**gang, "cpus": 4}, nodes=2, rack=["a", "b"])
    assert times(run(near, "fcfs", table), "run_s") == [[100.0]]
    assert times(run(far, "fcfs", table), "run_s") == [[180.0]]
    assert times(run(together, "fcfs", table), "run_s") == [[90.0]]


def test_neighbours_on_a_gpu_slow_each_other_down_while_they_are_there() -> None:
    trace = cluster(
        {"submit": 0, "run": 100, "cpus": 1, "gpus_req": 0.5},
        {"submit": 20, "run": 40, "cpus": 1, "gpus_req": 0.5},
        gpus=1,
    )
    table = Conditions(throughput=Throughput(gpu_sharing=(0.5,)))
    # The second does 40 s of work at half speed until 100; the first did 20 + 40 by then and has 40 left.
    assert times(run(trace, "fcfs", table), "end_ms") == [[140_000, 100_000]]


def test_a_moldable_gang_starts_with_fewer_members_and_takes_longer() -> None:
    trace = cluster({"submit": 0, "run": 100, "cpus": 4}, {"submit": 0, "run": 30, "cpus": 8, "tasks": 2}, nodes=2)
    assert times(run(trace)) == [0, 100]
    molded = run(trace, "fcfs", Conditions(least_members=0.5))
    assert times(molded) == [0, 0]
    assert times(molded, "run_s") == [[100.0, 60.0]]


def test_jobs_are_killed_at_their_limit() -> None:
    trace = cluster(
        {"submit": 0, "run": 100, "limit": 60},
        {"submit": 1, "run": 5},
        edges=[("1", "0", "afterok", None)],
    )
    killed = run(trace, kill=True)
    assert times(killed, "end_ms", "outcome") == [[60_000, None], ["timeout", "pending"]]


def test_deadlines_that_were_missed_are_counted() -> None:
    trace = cluster(
        {"submit": 0, "run": 10, "cpus": 4, "deadline_ms": 10_000},
        {"submit": 0, "run": 10, "cpus": 4, "deadline_ms": 19_000},
    )
    assert simulate_detailed(trace).disruptions.missed_deadlines == 1


def test_a_function_can_order_the_queue() -> None:
    def longest_first(engine: Engine) -> np.ndarray:
        return -engine.jobs["estimate"][engine.waiting].astype(float)

    jobs = [{"submit": 0, "run": 10, "cpus": 4}, *({"submit": 1, "run": run, "cpus": 4} for run in (2, 3, 4))]
    trace = cluster(*jobs)
    assert times(run(trace, score=longest_first)) == times(run(trace, "ljf"))
    with pytest.raises(UsageError, match="scores"):
        run(trace, score=lambda engine: np.zeros(7))


def test_a_function_can_choose_the_nodes() -> None:
    def last_with_room(engine: Engine, job: int) -> np.ndarray | None:
        room = np.flatnonzero(engine.free.cpu >= engine.jobs["cpu"][job])
        return room[-1:] if len(room) else None

    trace = cluster(*({"submit": 0, "run": 10, "cpus": 3} for _ in range(3)), nodes=2)
    result = run(trace, "fcfs+skip", choose_nodes=last_with_room)
    assert times(result) == [0, 0, 10]
    assert times(result, "node_list") == [[["n1"], ["n0"], ["n1"]]]
    with pytest.raises(UsageError, match="nodes"):
        run(trace, choose_nodes=lambda engine, job: np.array([5]))
    with pytest.raises(UsageError, match="EASY"):
        run(trace, "fcfs+easy", choose_nodes=last_with_room)


def test_a_scorer_given_as_arrays_orders_inside_the_engine() -> None:
    shortest = np.zeros((1, len(FEATURES) + 1))
    shortest[0, 0] = 1.0
    jobs = [{"submit": 0, "run": 10, "cpus": 4}, *({"submit": 1, "run": run, "cpus": 4} for run in (4, 2, 3))]
    trace = cluster(*jobs)
    expected = times(run(trace, "sjf+easy"))
    linear = ClusterPolicy(Scorer(shortest), "scorer", "easy")
    assert times(simulate_detailed(trace, linear).trace) == expected
    hidden = Scorer(np.vstack([shortest * 0.1, shortest * 0]), np.array([2.0, 1.0, 0.5]))
    assert times(simulate_detailed(trace, ClusterPolicy(hidden, "scorer", "easy")).trace) == expected
    with pytest.raises(UsageError, match="shape"):
        Scorer(np.zeros((1, 3)))


@pytest.mark.parametrize("text", ["tiresias:first_s=600+skip@best-fit", "drf", "multifactor:age=5", "sjf+easy"])
def test_policies_round_trip(text: str) -> None:
    policy = ClusterPolicy.parse(text)
    assert str(ClusterPolicy.parse(str(policy))) == str(policy)


def test_wrong_policies_are_told() -> None:
    with pytest.raises(UnknownNameError, match="tiresias"):
        ClusterPolicy.parse("tiresia")
    with pytest.raises(UsageError, match="no setting 'third_s=3'"):
        ClusterPolicy.parse("tiresias:third_s=3")
    with pytest.raises(UsageError, match="cannot be 'x'"):
        ClusterPolicy.parse("tiresias:first_s=x")
    with pytest.raises(UsageError, match="no settings"):
        ClusterPolicy.parse("sjf:a=1")


def test_conditions_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "conditions.toml"
    file.write_text(
        "least_members = 0.5\n[failures]\nnode_mtbf_h = 100\n[checkpoints]\nevery_s = 60\n"
        '[[drains]]\nnodes = ["n0"]\nfrom_s = 5\n[throughput.speeds]\nA100 = 2\n'
    )
    conditions = read_conditions(file)
    assert conditions.failures.node_mtbf_h == 100
    assert conditions.drains[0].nodes == ("n0",)
    assert conditions.throughput is not None
    for wrong, where in (("[failures]\nnode_mtbf_h = -1", "failures.node_mtbf_h"), ("frogs = 1", "frogs")):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=where):
            read_conditions(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_conditions(tmp_path / "missing.toml")


def test_unknown_names_in_conditions_are_told() -> None:
    trace = cluster({"submit": 0, "run": 1})
    with pytest.raises(InputError, match="n9"):
        run(trace, "fcfs", Conditions(drains=(Drain(nodes=("n9",), from_s=0),)))
    with pytest.raises(InputError, match="'77'"):
        run(trace, "fcfs", Conditions(overrides=(Override(job="77", at_s=0, priority=1),)))
