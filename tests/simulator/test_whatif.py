from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, UnknownNameError, UsageError
from presage.simulator import Variant, simulate, what_if
from presage.simulator.detailed import Failures
from presage.simulator.detailed.failures import draw_outages
from presage.testing import make_job, make_trace
from presage.traces import Machine, Trace

CAPACITY = 8


def busy_trace(seed: int = 0, count: int = 120) -> Trace:
    """Jobs of three users that keep 8 processors about full."""
    rng = np.random.default_rng(seed)
    submits = np.cumsum(rng.exponential(60, count))
    runs = rng.integers(10, 300, count)
    sizes = rng.integers(1, 5, count)
    factors = rng.uniform(1, 4, count)
    jobs = [
        make_job(float(s), 0, float(r), int(p), limit_s=float(round(r * f)), user=f"u{n % 3}", queue=f"q{n % 2}")
        for n, (s, r, p, f) in enumerate(zip(submits, runs, sizes, factors, strict=True))
    ]
    return make_trace(*jobs, machine=Machine(nodes=2, cpus=CAPACITY))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Small jobs with many ties."""
    count = draw(st.integers(1, 20))
    submits = sorted(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
    jobs = [
        make_job(s, 0, draw(st.integers(1, 10)), draw(st.integers(1, CAPACITY)), limit_s=draw(st.floats(1, 20)))
        for s in submits
    ]
    return make_trace(*jobs, machine=Machine(cpus=CAPACITY))


def test_differences_are_those_computed_by_hand() -> None:
    """Three jobs of 4 processors on 4: starts 0, 100, 160; on 8: starts 0, 10, 70."""
    trace = make_trace(make_job(0, 0, 100, 4), make_job(10, 0, 60, 4), make_job(20, 0, 5, 4), cpus=4)
    answer = what_if(trace, ["double: processors=x2"], policy="fcfs")
    (outcome,) = answer.outcomes
    assert answer.baseline.metrics.mean_wait_s == pytest.approx((0 + 90 + 140) / 3)
    assert outcome.run.processors == 8
    wait = outcome.comparison.differences["mean_wait_s"]
    assert wait.variant == pytest.approx((0 + 0 + 50) / 3)
    assert wait.difference == pytest.approx(-60)
    makespan = outcome.comparison.differences["makespan_s"]
    assert (makespan.baseline, makespan.variant, makespan.low) == (165, 100, None)
    utilization = outcome.comparison.differences["utilization"]
    assert utilization.baseline == pytest.approx(1)
    assert utilization.variant == pytest.approx(660 / 800)


def test_a_variant_that_changes_nothing_has_no_difference() -> None:
    texts = ["as it is:", "by name: policy=fcfs+easy", "load=1", "nodes=2", "limits=x1", "seed=9"]
    for outcome in what_if(busy_trace(), texts).outcomes:
        for metric, difference in outcome.comparison.differences.items():
            assert (difference.difference, difference.low or 0, difference.high or 0) == (0, 0, 0), metric


@settings(max_examples=60)
@given(trace=traces(), more=st.integers(1, 8))
def test_more_processors_delay_nobody_under_strict_first_come_first_served(trace: Trace, more: int) -> None:
    """True job by job without backfilling, by induction over the queue; with backfilling it is not."""
    answer = what_if(trace, [f"processors=+{more}"], policy="fcfs")
    before, after = answer.baseline.jobs, answer.outcomes[0].run.jobs
    assert (after["wait_s"] <= before["wait_s"]).all()
    assert answer.outcomes[0].comparison.differences["makespan_s"].difference <= 0


@settings(max_examples=30)
@given(trace=traces(), limits=st.sampled_from(["exact", "x3", "max=5s"]))
def test_limits_mean_nothing_to_strict_first_come_first_served(trace: Trace, limits: str) -> None:
    answer = what_if(trace, [f"limits={limits}"], policy="fcfs")
    before, after = (run.jobs.drop("limit_s") for run in (answer.baseline, answer.outcomes[0].run))
    assert before.equals(after)


def test_runs_are_those_of_simulate() -> None:
    trace = busy_trace()
    answer = what_if(trace, ["policy=sjf+easy", "backfill=none"], policy="saf+easy")
    assert answer.baseline.metrics == simulate(trace, "saf+easy").metrics
    assert answer.outcomes[0].run.metrics == simulate(trace, "sjf+easy").metrics
    assert answer.outcomes[1].run.metrics == simulate(trace, "saf").metrics


def test_the_same_seed_gives_the_same_answer_in_processes_too() -> None:
    trace = busy_trace()
    texts = ["arrivals=poisson", "burst=5@10min", "nodes=+10%"]
    answer = what_if(trace, texts, seed=3).to_dict()
    assert what_if(trace, texts, seed=3, engine="local", workers=2).to_dict() == answer
    assert what_if(trace, texts, seed=4).to_dict() != answer


def test_variants_have_common_random_numbers() -> None:
    answer = what_if(
        busy_trace(), ["arrivals=poisson", "arrivals=poisson, policy=sjf+easy", "arrivals=poisson, seed=5"]
    )
    first, second, other = (outcome.run.jobs["submit_ms"] for outcome in answer.outcomes)
    assert first.equals(second)
    assert not first.equals(other)


def test_a_burst_is_compared_on_the_jobs_that_were_there_before() -> None:
    (outcome,) = what_if(busy_trace(), ["burst=30@30min"]).outcomes
    assert outcome.run.metrics.jobs == 150
    assert outcome.comparison.jobs == 120
    assert outcome.comparison.differences["mean_wait_s"].difference > 0


def test_fewer_jobs_are_compared_on_what_is_left() -> None:
    trace = busy_trace()
    answer = what_if(trace, ["queue=q1", "small: processors=3, oversized=drop"])
    assert answer.outcomes[0].comparison.jobs == 60
    left = (trace.jobs["cpus_alloc"] <= 3).sum()
    assert answer.outcomes[1].comparison.jobs == answer.outcomes[1].run.metrics.jobs == left


def test_schedules_are_kept_when_asked_for() -> None:
    answer = what_if(busy_trace(), ["policy=sjf"], keep_schedules=True)
    schedule = answer.outcomes[0].run.schedule
    assert schedule is not None
    assert schedule.manifest.generator["simulated"]["policy"] == "sjf"
    assert schedule.jobs["user"].null_count() == 0
    assert what_if(busy_trace(), ["policy=sjf"]).baseline.schedule is None


def test_what_decisions_know_is_the_same_for_all() -> None:
    trace = busy_trace()
    guessed = trace.with_jobs(trace.jobs.with_columns(x_guess=trace.jobs["run_s"] + 1))
    answer = what_if(guessed, ["policy=sjf"], order_by="x_guess", plan_by="actual", kill=True)
    expected = simulate(guessed, "sjf", order_by="x_guess", plan_by="actual", kill=True).metrics
    assert answer.outcomes[0].run.metrics == expected


def test_partitions_have_pools_of_their_own() -> None:
    """On one pool of 8 the second job starts at once; with 4 for its partition it waits for the first."""
    trace = make_trace(
        make_job(0, 0, 100, 4, partition="a"),
        make_job(10, 0, 60, 4, partition="a"),
        make_job(20, 0, 5, 2, partition="b"),
        cpus=8,
    )
    answer = what_if(trace, ["apart: partitions=a:4;b:4", "small: partitions=a:8;b:1, oversized=drop"])
    apart, small = (outcome.run for outcome in answer.outcomes)
    assert answer.baseline.jobs["wait_s"].to_list() == [0, 0, 50]
    assert apart.jobs["wait_s"].to_list() == [0, 90, 0]
    assert apart.processors == 8
    assert apart.metrics == simulate(trace, "fcfs+easy", partitions={"a": 4, "b": 4}).metrics
    assert apart.to_dict()["partitions"]["a"]["mean_wait_s"] == 45
    assert small.to_dict()["partitions"]["b"] == {"processors": 1, "jobs": 0}
    assert "partitions" not in answer.baseline.to_dict()
    with pytest.raises(InputError, match=r"needs 2 .* variant 'tight' has 1 in the partition 'b'.*oversized=drop"):
        what_if(trace, ["tight: partitions=a:8;b:1"])


HOUR_S = 3600
SEED = 10


def one_node() -> tuple[Trace, float, float]:
    """A job of 10 hours and one behind it on a single node, which fails once while they run: from when to when."""
    failures = Failures(node_mtbf_h=10, node_repair_h=4, seed=SEED)
    first, second = draw_outages(failures, np.zeros(1, np.int64), 0, 40 * HOUR_S * 1000)
    down_s, up_s = first.from_ms / 1000, first.to_ms / 1000
    assert 7.7 * HOUR_S < down_s < 8 * HOUR_S
    assert second.from_ms / 1000 > up_s + 12 * HOUR_S
    jobs = [make_job(0, 0, 10 * HOUR_S, 4, gpus_req=2.0, priority=0.0), make_job(60, 0, 60, 3, priority=9.0)]
    return make_trace(*jobs, machine=Machine(nodes=1, cpus=4)), down_s, up_s


def test_failures_interrupt_jobs_and_checkpoints_save_their_work() -> None:
    trace, down_s, up_s = one_node()
    texts = ["failures=10h", "saved: failures=10h, checkpoints=1h", "slow: failures=10h, checkpoints=1h/6min/2min"]
    answer = what_if(trace, texts, policy="fcfs", seed=SEED)
    lost, saved, slow = (outcome.run for outcome in answer.outcomes)
    assert answer.baseline.jobs["run_s"].to_list() == [36_000, 60]
    # From the beginning again; with checkpoints the last three hours; that they take six minutes each makes ten
    # hours eleven, of which seven periods are done, and then two minutes to load the last.
    ends_s = [up_s + 10 * HOUR_S, up_s + 3 * HOUR_S, up_s + 3.3 * HOUR_S + 120]
    for run, end_s in zip((lost, saved, slow), ends_s, strict=True):
        assert run.jobs["run_s"][0] == pytest.approx(end_s)
        assert run.jobs["wait_s"].to_list() == [0, pytest.approx(end_s - 60)]
    differences = answer.outcomes[0].comparison.differences
    assert (differences["interruptions"].baseline, differences["interruptions"].variant) == (0, 1)
    assert differences["lost_cpu_s"].variant == pytest.approx(4 * down_s)
    assert differences["mean_response_s"].variant == pytest.approx(lost.metrics.mean_response_s)
    assert lost.to_dict()["nodes"] == 1
    assert lost.to_dict()["disruptions"]["node_failures"] == 1


def test_all_variants_run_on_nodes_as_soon_as_one_fails() -> None:
    """On nodes of 4 processors, jobs of 3 cannot share one; a larger machine has more nodes, of the same size."""
    jobs = [make_job(0, 0, 100, 3, gpus_req=1.0) for _ in range(3)]
    trace = make_trace(*jobs, machine=Machine(nodes=2, cpus=8))
    assert what_if(trace, ["processors=12"]).outcomes[0].run.jobs["wait_s"].to_list() == [0, 0, 0]
    assert what_if(trace, ["processors=9"]).outcomes[0].run.jobs["wait_s"].to_list() == [0, 0, 0]
    texts = ["failures=9999d", "processors=12", "nodes=+1, failures=9999d"]
    answer = what_if(trace, texts, keep_schedules=True)
    assert answer.baseline.jobs["wait_s"].to_list() == [0, 0, 100]
    assert [outcome.run.nodes for outcome in answer.outcomes] == [2, 3, 3]
    assert answer.outcomes[1].run.jobs["wait_s"].to_list() == [0, 0, 0]
    assert not answer.outcomes[0].comparison.differences["mean_wait_s"].difference
    schedule = answer.outcomes[0].run.schedule
    assert schedule is not None
    assert schedule.jobs["node_list"].to_list() == [["node0"], ["node1"], ["node0"]]
    assert schedule.jobs["cpus_req"].equals(trace.jobs["cpus_req"])


def test_one_node_without_failures_is_a_pool() -> None:
    trace = busy_trace()
    answer = what_if(trace, ["failures=100000d@1", "policy=sjf"], policy="saf+easy")
    assert answer.baseline.metrics == simulate(trace, "saf+easy").metrics
    assert answer.outcomes[1].run.metrics == simulate(trace, "sjf").metrics


def test_failures_are_the_same_for_all_variants_and_with_schedules_kept() -> None:
    trace = busy_trace()
    texts = ["failures=2h/10min", "again: failures=2h/10min", "failures=2h/10min, seed=5"]
    answer = what_if(trace, texts, seed=3)
    first, again, other = (outcome.run for outcome in answer.outcomes)
    assert first.disruptions is not None
    assert first.disruptions.node_failures
    assert first.jobs.equals(again.jobs)
    assert not first.jobs.equals(other.jobs)
    assert what_if(trace, texts, seed=3, keep_schedules=True).to_dict() == answer.to_dict()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["failures=500h@3"], "8 processors are not 3 equal nodes.*500h/4h@32"),
        (["failures=500h@2", "failures=400h@4"], "into 2 and 4 nodes"),
        (["failures=500h", "processors=+1"], r"'processors=\+1' has 9 processors.*a multiple of 4"),
        (["failures=500h", "backfill=conservative"], "'conservative', which nodes do not have.*none, easy"),
        (["failures=500h", "apart: partitions=a:4;b:4"], "'apart' has partitions"),
        (["failures=500h", "processors=1000000000000"], "at most 100,000"),
        (["failures=1s/1s"], "about .* failures of 2 nodes"),
    ],
)
def test_what_cannot_be_simulated_on_nodes_is_said_before_anything_runs(texts: list[str], message: str) -> None:
    jobs = [make_job(0, 0, 10, 4, partition="a"), make_job(9, 0, 10, 4, partition="b")]
    with pytest.raises(UsageError, match=message):
        what_if(make_trace(*jobs, machine=Machine(nodes=2, cpus=8)), texts)


def test_failures_need_nodes_and_jobs_that_fit() -> None:
    with pytest.raises(UsageError, match=r"does not say how many nodes.*500h/4h@32"):
        what_if(make_trace(make_job(0, 0, 1), cpus=8), ["failures=500h"])
    with pytest.raises(InputError, match="needs 9 processors and the machine has 8"):
        what_if(make_trace(make_job(0, 0, 1, 9), cpus=8), ["failures=500h@2"])
    with pytest.raises(InputError, match="no size"):
        what_if(make_trace({"submit_ms": 0, "run_s": 1.0}, cpus=8), ["failures=500h@2"])
    with pytest.raises(InputError, match="do not come to an end"):
        what_if(make_trace(make_job(0, 0, 90_000), cpus=1), ["failures=1h@1"])


def test_progress_counts_all_runs() -> None:
    told: list[tuple[int, int]] = []
    what_if(busy_trace(), ["load=1.1"], progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]


def test_trimming_is_that_of_the_comparison() -> None:
    (outcome,) = what_if(busy_trace(), ["load=1.1"], warm_up=10, cool_down=0.25).outcomes
    assert outcome.comparison.jobs == 120 - 10 - 30


def test_mistakes_are_answered() -> None:
    trace = busy_trace()
    with pytest.raises(InputError, match=r"variant 'nodes=-1' has 4.*oversized=drop"):
        what_if(make_trace(make_job(0, 0, 1, 5), machine=Machine(nodes=2, cpus=8)), ["nodes=-1"])
    with pytest.raises(UsageError, match="nothing to change"):
        what_if(trace, [])
    with pytest.raises(UsageError, match="'a' is taken"):
        what_if(trace, ["a: load=1", "a: load=2"])
    with pytest.raises(UsageError, match="'baseline' is taken"):
        what_if(trace, [Variant("baseline", ())])
    with pytest.raises(UsageError, match="'nothing'"):
        what_if(trace, ["load=2"], order_by="nothing")
    with pytest.raises(UsageError, match="--processors"):
        what_if(make_trace(make_job(0, 0, 1)), ["load=2"])
    with pytest.raises(UnknownNameError, match="Did you mean 'serial'"):
        what_if(trace, ["load=2"], engine="serail")
    with pytest.raises(InputError, match="no run"):
        what_if(make_trace({"submit_ms": 0}, cpus=1), ["nodes=+10%"])


@pytest.mark.shared_data
def test_more_processors_on_a_real_log(shared_data: Path) -> None:
    """HPC2N's first 10,000 jobs: the values of both policies are the published ones."""
    from presage.traces import read_trace
    from presage.traces.cleaning import clean

    trace = clean(read_trace(shared_data / "HPC2N-2002-2.2-cln.swf.gz", format="swf"), ["archive"])
    trace = trace.with_jobs(trace.jobs.head(10_000))
    answer = what_if(trace, ["policy=sjf+easy", "nodes=+10%"])
    assert [outcome.run.processors for outcome in answer.outcomes] == [240, 264]
    slowdown = answer.outcomes[0].comparison.differences["mean_bounded_slowdown"]
    assert slowdown.baseline == pytest.approx(58.056180, abs=5e-7)
    assert slowdown.variant == pytest.approx(37.984407, abs=5e-7)
    # A third less, and still no more than chance may do with so few jobs in bursts.
    assert slowdown.clear is False
    assert answer.outcomes[0].comparison.differences["mean_wait_s"].clear is True
