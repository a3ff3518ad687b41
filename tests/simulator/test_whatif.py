from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, UnknownNameError, UsageError
from presage.simulator import Variant, simulate, what_if
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


@settings(max_examples=60, deadline=None)
@given(trace=traces(), more=st.integers(1, 8))
def test_more_processors_delay_nobody_under_strict_first_come_first_served(trace: Trace, more: int) -> None:
    """True job by job without backfilling, by induction over the queue; with backfilling it is not."""
    answer = what_if(trace, [f"processors=+{more}"], policy="fcfs")
    before, after = answer.baseline.jobs, answer.outcomes[0].run.jobs
    assert (after["wait_s"] <= before["wait_s"]).all()
    assert answer.outcomes[0].comparison.differences["makespan_s"].difference <= 0


@settings(max_examples=30, deadline=None)
@given(trace=traces(), limits=st.sampled_from(["exact", "x3", "max=5s"]))
def test_limits_mean_nothing_to_strict_first_come_first_served(trace: Trace, limits: str) -> None:
    answer = what_if(trace, [f"limits={limits}"], policy="fcfs")
    assert answer.baseline.jobs.equals(answer.outcomes[0].run.jobs)


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
