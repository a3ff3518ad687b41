from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, PresageError, UnknownNameError, UsageError
from presage.policies import Policy
from presage.simulator import Scenario, Variant
from presage.simulator.changes import (
    PATTERNS,
    add_burst,
    cap_limits,
    limit_to_run,
    redraw_arrivals,
    scale_limits,
    scale_load,
)
from presage.simulator.detailed import Checkpoints, Failures
from presage.simulator.variants import KEYS
from presage.testing import make_job, make_trace
from presage.traces import Machine, Trace
from presage.traces.validation import Severity, validate
from presage.units import parse_seconds


@pytest.fixture
def trace() -> Trace:
    """Jobs at 100, 160, 220 and 400 s on 8 processors of 2 nodes; the last has no limit."""
    return make_trace(
        make_job(100, 5, 50, 4, limit_s=100.0, deadline_ms=300_000, partition="cpu", queue="short"),
        make_job(160, 0, 80, 2, limit_s=60.0, partition="cpu", queue="long"),
        make_job(220, 10, 20, 8, limit_s=7200.0, partition="gpu", queue="long"),
        make_job(400, 0, 30, 1, partition="gpu", queue="long"),
        machine=Machine(nodes=2, cpus=8),
    )


@pytest.fixture
def scenario(trace: Trace) -> Scenario:
    return Scenario(trace, 8, Policy("fcfs", "easy"))


def changed(scenario: Scenario, *texts: str) -> Scenario:
    return Variant.of(texts).apply(scenario)


def offered_load(trace: Trace) -> float:
    work = (trace.jobs["run_s"] * trace.jobs["cpus_alloc"]).sum()
    return float(work) / (trace.jobs["submit_ms"].max() - trace.jobs["submit_ms"].min())


def test_load_scales_gaps_around_the_first_submit(trace: Trace) -> None:
    faster = scale_load(trace, 1.5)
    # Gaps of 60, 60 and 180 s become 40, 40 and 120 s.
    assert faster.jobs["submit_ms"].to_list() == [100_000, 140_000, 180_000, 300_000]
    assert offered_load(faster) == pytest.approx(1.5 * offered_load(trace))
    # Everything of a job moves with its submit: its start in the log, and its deadline.
    assert faster.jobs["start_ms"].to_list() == [105_000, 140_000, 190_000, 300_000]
    assert faster.jobs["deadline_ms"].to_list() == [300_000, None, None, None]
    assert faster.jobs["run_s"].to_list() == trace.jobs["run_s"].to_list()
    assert scale_load(trace, 0.5).jobs["submit_ms"].to_list() == [100_000, 220_000, 340_000, 700_000]


def test_deadlines_keep_their_distance(trace: Trace) -> None:
    late = make_trace(make_job(0, 0, 1), make_job(100, 0, 1, deadline_ms=150_000), cpus=1)
    assert scale_load(late, 2).jobs["deadline_ms"].to_list() == [None, 100_000]


def test_limits_are_cut_scaled_and_made_exact(trace: Trace) -> None:
    # The job without a limit counts as if it had asked for its 30 s.
    assert limit_to_run(trace).jobs["limit_s"].to_list() == [50, 80, 20, 30]
    assert scale_limits(trace, 1.5).jobs["limit_s"].to_list() == [150, 90, 10_800, 45]
    assert cap_limits(trace, 90).jobs["limit_s"].to_list() == [90, 60, 90, 30]
    assert cap_limits(trace, 90).jobs["run_s"].to_list() == [50, 80, 20, 30]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_other_arrivals_keep_jobs_and_load(trace: Trace, pattern: str) -> None:
    drawn = redraw_arrivals(trace, pattern, seed=3)
    assert drawn.jobs["job_id"].to_list() == trace.jobs["job_id"].to_list()
    assert drawn.jobs["submit_ms"].is_sorted()
    assert drawn.jobs["submit_ms"].to_list()[:: len(trace) - 1] == [100_000, 400_000]
    assert redraw_arrivals(trace, pattern, seed=3).jobs.equals(drawn.jobs)


def test_days_can_change_places() -> None:
    """Jobs of three days, the last of which begins within the third: each keeps its time of the day."""
    day_s = 86_400
    submits = [100, 200, day_s + 150, 2 * day_s + 120, 2 * day_s + 5000]
    trace = make_trace(*(make_job(submit, 3, 10, job_id=f"{n}") for n, submit in enumerate(submits)))
    orders = set()
    for seed in range(20):
        drawn = redraw_arrivals(trace, "shuffled-days", seed=seed).jobs
        assert drawn["submit_ms"].is_sorted()
        moved = dict(zip(drawn["job_id"], (drawn["submit_ms"] / 1000).to_list(), strict=True))
        assert all((moved[f"{n}"] - submit) % day_s == 0 for n, submit in enumerate(submits))
        days = [int((moved[job] - 100) // day_s) for job in "023"]
        assert sorted(days) == [0, 1, 2]
        assert (moved["1"] - moved["0"], moved["4"] - moved["3"]) == (100, 4880)
        assert (drawn["start_ms"] - drawn["submit_ms"]).to_list() == [3000] * 5
        orders.add(tuple(days))
    assert len(orders) == 6


def test_arrivals_are_as_their_pattern_says(trace: Trace) -> None:
    assert redraw_arrivals(trace, "even").jobs["submit_ms"].to_list() == [100_000, 200_000, 300_000, 400_000]
    gaps = redraw_arrivals(trace, "shuffled", seed=1).jobs["submit_ms"].diff().drop_nulls()
    assert sorted(gaps) == [60_000, 60_000, 180_000]
    steady = make_trace(*(make_job(10 * n, 0, 1) for n in range(4000)), cpus=1)
    gaps_s = redraw_arrivals(steady, "poisson", seed=1).jobs["submit_ms"].diff().drop_nulls().to_numpy() / 1000
    # An exponential distribution has its mean as deviation, and 1/e of it beyond the mean.
    assert gaps_s.mean() == pytest.approx(10)
    assert gaps_s.std() == pytest.approx(10, rel=0.1)
    assert (gaps_s > 10).mean() == pytest.approx(np.exp(-1), abs=0.03)
    assert len(redraw_arrivals(make_trace(make_job(5, 0, 1)), "poisson")) == 1


def test_a_burst_adds_copies_at_one_instant(trace: Trace) -> None:
    more = add_burst(trace, 3, at_s=60, seed=5)
    assert more.jobs["job_id"].to_list() == ["1", "2", "burst-1", "burst-2", "burst-3", "3", "4"]
    burst = more.jobs.filter(pl.col("job_id").str.starts_with("burst"))
    assert burst["submit_ms"].to_list() == [160_000] * 3
    originals = {(job["run_s"], job["cpus_alloc"], job["limit_s"]) for job in trace.jobs.to_dicts()}
    assert {(job["run_s"], job["cpus_alloc"], job["limit_s"]) for job in burst.to_dicts()} <= originals
    assert not [finding for finding in validate(more) if finding.severity is Severity.ERROR]
    again = add_burst(more, 2, at_s=0)
    assert again.jobs["job_id"].n_unique() == len(again) == 9


def test_draws_of_one_change_do_not_depend_on_the_others(scenario: Scenario) -> None:
    alone = changed(scenario, "burst=4@0s")
    both = changed(scenario, "burst=4@0s", "arrivals=poisson")
    drawn = [each.trace.jobs.filter(pl.col("job_id").str.starts_with("burst"))["run_s"] for each in (alone, both)]
    assert drawn[0].to_list() == drawn[1].to_list()
    assert not changed(scenario, "arrivals=poisson", "seed=1").trace.jobs.equals(
        changed(scenario, "arrivals=poisson", "seed=2").trace.jobs
    )


@pytest.mark.parametrize(
    ("text", "processors"),
    [
        ("processors=100", 100),
        ("processors=+32", 40),
        ("processors=-3", 5),
        ("processors=+10%", 9),  # 8.8
        ("processors=-50%", 4),
        ("processors=x1.5", 12),
        ("nodes=+10%", 9),
        ("nodes=3", 12),  # 4 processors each
        ("nodes=+2", 16),
        ("nodes=-1", 4),
    ],
)
def test_the_machine_changes_size(scenario: Scenario, text: str, processors: int) -> None:
    assert changed(scenario, text).processors == processors


def test_policies_change_whole_or_in_part(scenario: Scenario) -> None:
    assert changed(scenario, "policy=sjf").policy == Policy("sjf")
    assert changed(scenario, "backfill=none").policy == Policy("fcfs")
    assert changed(scenario, "backfill=conservative", "policy=saf+easy").policy == Policy("saf", "conservative")


def test_jobs_are_chosen(scenario: Scenario) -> None:
    assert changed(scenario, "partition=gpu").trace.jobs["job_id"].to_list() == ["3", "4"]
    assert changed(scenario, "queue=long", "partition=cpu").trace.jobs["job_id"].to_list() == ["2"]
    assert changed(scenario, "processors=4", "oversized=drop").trace.jobs["job_id"].to_list() == ["1", "2", "4"]
    with pytest.raises(UnknownNameError, match="Did you mean 'gpu'"):
        changed(scenario, "partition=gpus")


def test_the_machine_is_divided_into_partitions(scenario: Scenario) -> None:
    parts = changed(scenario, "partitions= cpu:4 ; gpu : 8", "burst=2@1s")
    assert (parts.partitions, parts.processors) == ({"cpu": 4, "gpu": 8}, 12)
    small = changed(scenario, "partitions=cpu:3;gpu:8", "oversized=drop")
    assert small.trace.jobs["job_id"].to_list() == ["2", "3", "4"]
    one = changed(scenario, "partitions=gpu:8", "partition=gpu")
    assert (one.processors, len(one.trace)) == (8, 2)
    with pytest.raises(InputError, match=r"2 jobs name none of the partitions cpu, ml, like 'gpu'"):
        changed(scenario, "partitions=cpu:4;ml:8")
    with pytest.raises(InputError, match="1 jobs name none of the partitions cpu\\. "):
        changed(Scenario(make_trace(make_job(0, 0, 1), cpus=8), 8, Policy()), "partitions=cpu:8")


def test_failures_and_checkpoints_have_times_seeds_and_nodes(scenario: Scenario) -> None:
    plain = changed(scenario, "failures=500h", "seed=3")
    assert plain.nodes is None
    assert plain.conditions is not None
    assert plain.conditions.failures == Failures(node_mtbf_h=500, node_repair_h=4, seed=3)
    assert plain.conditions.checkpoints is None
    full = changed(scenario, "checkpoints=1h/60s/2min", "failures=30d/90min@4")
    assert full.nodes == 4
    assert full.conditions is not None
    assert full.conditions.failures == Failures(node_mtbf_h=720, node_repair_h=1.5)
    assert full.conditions.checkpoints == Checkpoints(every_s=3600, cost_s=60, restart_s=120)


@pytest.mark.parametrize("text", ["failures=500h", "partitions=cpu:4;gpu:8"])
def test_the_present_has_neither_partitions_nor_failures(scenario: Scenario, text: str) -> None:
    with pytest.raises(UsageError, match="cannot be asked from the present on"):
        changed(replace(scenario, now_ms=200_000), text)


def test_a_burst_comes_on_the_clock_of_the_changed_load(scenario: Scenario) -> None:
    both = changed(scenario, "burst=1@10s", "load=2")
    submits = dict(both.trace.jobs.select("job_id", "submit_ms").iter_rows())
    assert (submits["burst-1"], submits["2"]) == (110_000, 130_000)


def test_variants_are_written_with_or_without_a_name() -> None:
    assert Variant.parse("more nodes: nodes=+10%, limits=max=24h") == Variant(
        "more nodes", (("nodes", "+10%"), ("limits", "max=24h"))
    )
    assert Variant.parse("nodes=+10% , load = 1.2").name == "nodes=+10%, load=1.2"
    assert Variant.parse("partition=a:b").changes == (("partition", "a:b"),)
    assert Variant.parse("as it is:") == Variant("as it is", ())
    assert Variant.parse("partitions=a:1;b:2").changes == (("partitions", "a:1;b:2"),)
    assert Variant.parse("apart: partitions=a:1;b:2").name == "apart"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("node=+10%", UnknownNameError, "Did you mean 'nodes'"),
        ("arrivals=poison", UnknownNameError, "Did you mean 'poisson'"),
        ("policy=sjff", UnknownNameError, "Did you mean 'sjf'"),
        ("backfill=eazy", UnknownNameError, "Did you mean 'easy'"),
        ("failures=1%", UsageError, "no length of time"),
        ("failures=0h", UsageError, "above 0"),
        ("failures=500h/0", UsageError, "above 0"),
        ("failures=500h/4h/2h", UsageError, "500h/4h@32"),
        ("failures=500h@0", UsageError, "500h/4h@32"),
        ("failures=500h@many", UsageError, "500h/4h@32"),
        ("checkpoints=1h", UsageError, "no failures"),
        ("failures=500h, checkpoints=0s", UsageError, "above 0"),
        ("failures=500h, checkpoints=1h/2h", UsageError, "no longer"),
        ("failures=500h, checkpoints=1h/1s/1s/1s", UsageError, "1h/60s/120s"),
        ("partitions=gpu", UsageError, "gpu:64;cpu:512"),
        ("partitions=gpu:", UsageError, "gpu:64;cpu:512"),
        ("partitions=gpu:64;", UsageError, "gpu:64;cpu:512"),
        ("partitions=gpu:0", UsageError, "gpu:64;cpu:512"),
        (f"partitions=gpu:{'9' * 5000}", UsageError, "gpu:64;cpu:512"),
        ("partitions=gpu:4;gpu:8", UsageError, "twice"),
        ("partitions=gpu:4;cpu:4, nodes=+1", UsageError, "sets nodes and partitions"),
        ("processors=8, partitions=gpu:4;cpu:4", UsageError, "one size"),
        ("nodes", UsageError, "KEY=VALUE"),
        ("nodes=", UsageError, "KEY=VALUE"),
        ("nodes=10%", UsageError, r"\+10%"),
        ("processors=many", UsageError, "cannot be 'many'"),
        ("load=0", UsageError, "above 0"),
        ("load=nan", UsageError, "above 0"),
        ("load=1e300", UsageError, "within a million"),
        ("limits=long", UsageError, "max=24h"),
        ("limits=max=soon", UsageError, "no length of time"),
        ("limits=max=9999999w", UsageError, "below 1000 years"),
        ("burst=10", UsageError, "200@2d"),
        ("burst=0@2d", UsageError, "200@2d"),
        ("oversized=keep", UsageError, "drop"),
        ("seed=-1", UsageError, "whole number"),
        (f"seed={'9' * 5000}", UsageError, "whole number"),
        (f"burst={'9' * 5000}@2d", UsageError, "200@2d"),
        ("load=1, load=2", UsageError, "twice"),
        ("nodes=+1, processors=+1", UsageError, "one size"),
    ],
)
def test_wrong_changes_are_told_before_anything_runs(text: str, error: type[PresageError], message: str) -> None:
    with pytest.raises(error, match=message):
        Variant.parse(text)


def test_changes_that_the_trace_does_not_allow(scenario: Scenario) -> None:
    with pytest.raises(UsageError, match="a machine of 1"):
        changed(scenario, "processors=-8")
    for huge in ("9" * 400, f"-{'9' * 400}", f"-{'9' * 400}%"):
        with pytest.raises(UsageError, match="a machine of 1"):
            changed(scenario, f"processors={huge}")
    nodeless = Scenario(make_trace(make_job(0, 0, 1), cpus=8), 8, Policy())
    assert changed(nodeless, "nodes=+50%").processors == 12
    with pytest.raises(UsageError, match=r"processors=\+2"):
        changed(nodeless, "nodes=+2")
    with pytest.raises(InputError, match="drop-unsubmitted"):
        changed(Scenario(make_trace({"run_s": 1.0}), 8, Policy()), "load=2")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5 h", 5400), ("15min", 900), ("2d", 172_800), ("1W", 604_800)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


VALUES = st.text(max_size=12) | st.from_regex(
    r"[-+x]?\d{1,5000}(%|@1d)?|(a:|1h/)?[0-9/@;:h]{1,20}", fullmatch=True
)


@settings(max_examples=300)
@given(key=st.sampled_from([*KEYS, ""]), value=VALUES)
def test_no_text_breaks_the_parser(key: str, value: str) -> None:
    trace = make_trace(make_job(0, 0, 5, 1), make_job(9, 0, 5, 1), machine=Machine(nodes=2, cpus=8))
    with contextlib.suppress(PresageError):
        variant = Variant.of([f"{key}={value}"])
        if key != "burst":  # which may be as large as it says
            variant.apply(Scenario(trace, 8, Policy()))
