from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presage.errors import InputError, UnknownNameError, UsageError
from presage.policies import BACKFILLINGS, ORDERS, Policy
from presage.simulator import Jobs, Semantics, _large, measure
from presage.simulator._large import Large
from presage.simulator.pooled import schedule

from .reference import SCORES, Cluster, Job

CAPACITY = 8
POLICIES = [f"{order}+{kind}" for order in ORDERS for kind in BACKFILLINGS if kind != "periodic"]


EASY_POLICIES = [policy for policy in POLICIES if policy.endswith(("+easy", "+easy-sjbf"))]
COMMITTED = [f"{order}+{kind}" for order in ORDERS for kind in ("none", "easy")]
OTHER_SEMANTICS = [("event", policy) for policy in POLICIES] + [("commit", policy) for policy in COMMITTED]
ALWAYS = Large(queue=1, effort=0, running=1)
NEVER = Large(queue=10**9, effort=10**9, running=10**9)


def arrays(jobs: list[Job]) -> Jobs:
    def column(name: str) -> np.ndarray:
        return np.array([getattr(job, name) for job in jobs], np.int64)

    return Jobs(
        submit_ms=column("submit"),
        run_ms=column("run"),
        limit_ms=column("limit"),
        estimate_ms=column("plan"),
        plan_ms=column("plan"),
        processors=column("size"),
    )


@st.composite
def workloads(draw: st.DrawFn, *, honest: bool = False) -> list[Job]:
    """Small jobs with many ties; plans may be shorter than runs unless `honest`."""
    count = draw(st.integers(1, 25))
    unit = draw(st.sampled_from([1, 1000, 40_000]))
    submits = sorted(draw(st.lists(st.integers(0, 20), min_size=count, max_size=count)))
    jobs = []
    for number, submit in enumerate(submits):
        run = draw(st.integers(1, 10)) * unit
        plan = draw(st.integers(1, 12)) * unit
        if honest:
            plan = max(plan, run)
        limit = max(run, plan) + draw(st.integers(0, 3)) * unit
        jobs.append(Job(number, submit * unit, run, plan, limit, draw(st.integers(1, CAPACITY))))
    return jobs


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=120)
@given(jobs=workloads())
def test_the_engine_starts_every_job_when_the_plain_scheduler_does(policy: str, jobs: list[Job]) -> None:
    parsed = Policy.parse(policy)
    cluster = Cluster(CAPACITY, SCORES[parsed.order], parsed.backfilling)
    expected = cluster.simulate([Job(**vars(job)) for job in jobs])
    assert schedule(arrays(jobs), CAPACITY, parsed).tolist() == [*expected]


@pytest.mark.parametrize(("semantics", "policy"), OTHER_SEMANTICS)
@settings(max_examples=25)
@given(jobs=workloads())
def test_so_it_does_under_other_semantics(semantics: str, policy: str, jobs: list[Job]) -> None:
    parsed = Policy.parse(policy)
    cluster = Cluster(CAPACITY, SCORES[parsed.order], parsed.backfilling, semantics)
    expected = cluster.simulate([Job(**vars(job)) for job in jobs])
    assert schedule(arrays(jobs), CAPACITY, parsed, semantics).tolist() == expected


@pytest.mark.parametrize("policy", EASY_POLICIES)
@settings(max_examples=25)
@given(jobs=workloads())
def test_so_it_does_with_the_structures_for_long_queues(policy: str, jobs: list[Job]) -> None:
    parsed = Policy.parse(policy)
    cluster = Cluster(CAPACITY, SCORES[parsed.order], parsed.backfilling)
    expected = cluster.simulate([Job(**vars(job)) for job in jobs])
    assert schedule_with(ALWAYS, arrays(jobs), CAPACITY, parsed) == expected


def schedule_with(large: Large, jobs: Jobs, processors: int, policy: Policy) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_large, "Large", lambda: large)
        return schedule(jobs, processors, policy).tolist()


@pytest.mark.parametrize("policy", ["fcfs+easy", "f2+easy", "sjf+easy", "saf+easy-sjbf"])
def test_structures_for_long_queues_change_no_start(policy: str) -> None:
    """Thousands of running and of waiting jobs, some of them wide, and plans that are wrong either way."""
    rng = np.random.default_rng(5)
    count, processors = 12_000, 3_000
    run_ms = rng.integers(1, 10_000, count) * 1000
    plan_ms = np.maximum((run_ms * rng.choice([0.5, 1, 1, 3], count)).astype(np.int64), 1000)
    sizes = np.where(rng.random(count) < 0.02, rng.integers(100, processors, count), rng.integers(1, 4, count))
    submit_ms = np.sort(np.concatenate([np.zeros(count // 2), rng.integers(0, 20_000, count // 2) * 1000]))
    jobs = Jobs(submit_ms.astype(np.int64), run_ms, np.maximum(plan_ms, run_ms), plan_ms, plan_ms, sizes)
    expected = schedule_with(NEVER, jobs, processors, Policy.parse(policy))
    assert schedule(jobs, processors, Policy.parse(policy)).tolist() == expected
    assert schedule_with(Large(1, 0, 64), jobs, processors, Policy.parse(policy)) == expected


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=25)
@given(jobs=workloads())
def test_no_schedule_breaks_the_laws(policy: str, jobs: list[Job]) -> None:
    given = arrays(jobs)
    start = schedule(given, CAPACITY, Policy.parse(policy))
    assert (start >= given.submit_ms).all()
    for instant in start:
        in_use = given.processors[(start <= instant) & (instant < start + given.run_ms)].sum()
        assert in_use <= CAPACITY
    again = schedule(given, CAPACITY, Policy.parse(policy))
    assert start.tolist() == again.tolist()


@settings(max_examples=100)
@given(jobs=workloads(honest=True))
def test_easy_never_delays_the_first_in_line(jobs: list[Job]) -> None:
    """With honest plans and one more job that wants everything, its start is what the running jobs promise."""
    last = max(job.submit for job in jobs)
    whole = Job(len(jobs), last, 5, 5, 5, CAPACITY)
    queue = [*jobs, whole]
    with_backfilling = schedule(arrays(queue), CAPACITY, Policy("fcfs", "easy"))
    # Under first come, first served the last job of the queue starts when all before it are done.
    assert with_backfilling[-1] >= max(with_backfilling[:-1])
    ends = with_backfilling[:-1] + arrays(jobs).run_ms
    assert with_backfilling[-1] == max(last, ends.max())


def hand(*rows: tuple[int, int, int, int]) -> Jobs:
    """Jobs as (submit, run, plan, size) in seconds."""
    return arrays([Job(n, s * 1000, r * 1000, p * 1000, p * 1000, size) for n, (s, r, p, size) in enumerate(rows)])


def starts(jobs: Jobs, policy: str, capacity: int = 4, semantics: str = "instant") -> list[int]:
    return [int(start) // 1000 for start in schedule(jobs, capacity, Policy.parse(policy), semantics)]


# Job 0 takes 3 of 4 processors until 10; job 1 wants all 4; jobs 2 and 3 are small, short and long.
BLOCKED = hand((0, 10, 10, 3), (1, 5, 5, 4), (2, 4, 4, 1), (3, 20, 20, 1))


def test_strict_order_lets_nobody_pass() -> None:
    assert starts(BLOCKED, "fcfs") == [0, 10, 15, 15]


def test_easy_lets_short_jobs_pass_and_holds_long_ones() -> None:
    assert starts(BLOCKED, "fcfs+easy") == [0, 10, 2, 15]


def test_easy_uses_processors_that_the_first_in_line_leaves_over() -> None:
    jobs = hand((0, 10, 10, 3), (1, 5, 5, 3), (2, 20, 20, 1), (3, 20, 20, 1))
    # One processor is left over when job 1 starts at 10, so the long job 2 may hold it; job 3 may not.
    assert starts(jobs, "fcfs+easy") == [0, 10, 2, 15]


def test_sjbf_tries_the_shortest_first() -> None:
    # One processor is free until 10: in the queue's order job 2 takes it, shortest first job 3 does.
    jobs = hand((0, 10, 10, 3), (1, 5, 5, 4), (2, 8, 8, 1), (2, 3, 3, 1))
    assert starts(jobs, "fcfs+easy") == [0, 10, 2, 15]
    assert starts(jobs, "fcfs+easy-sjbf") == [0, 10, 15, 2]


def test_conservative_keeps_every_reservation() -> None:
    # Job 1 waits for all of the machine until 10, job 2 for three processors behind it until 15. The long job 3
    # delays job 2 if it starts now, not job 1 (one processor is left over at 10).
    jobs = hand((0, 10, 10, 3), (1, 5, 5, 3), (2, 5, 5, 4), (3, 20, 20, 1))
    assert starts(jobs, "fcfs+easy") == [0, 10, 23, 3]
    assert starts(jobs, "fcfs+conservative") == [0, 10, 15, 20]


def test_shortest_first_reorders_the_queue() -> None:
    jobs = hand((0, 10, 10, 4), (1, 9, 9, 4), (2, 1, 1, 4))
    assert starts(jobs, "sjf") == [0, 11, 10]


def test_a_pass_per_event_sees_a_part_of_the_news() -> None:
    # Two jobs of 2 processors end at 10, earlier than planned: after the first end only the small job fits.
    jobs = hand((0, 10, 30, 2), (0, 10, 30, 2), (1, 5, 5, 4), (2, 10, 10, 2))
    assert starts(jobs, "fcfs+easy") == [0, 0, 10, 15]
    assert starts(jobs, "fcfs+easy", semantics="event") == [0, 0, 20, 10]


def test_who_ends_as_planned_surprises_nobody() -> None:
    # Both ends at 10 were planned, so that the arrival's pass counts with them: job 2 starts at once.
    jobs = hand((0, 10, 10, 2), (0, 10, 10, 2), (10, 5, 5, 4), (10, 10, 10, 2))
    assert starts(jobs, "fcfs+easy", semantics="event") == [0, 0, 10, 15]


def test_a_committed_choice_is_kept_whoever_arrives() -> None:
    # Job 1 is chosen at 1 and waits for all of the machine until 10. The shorter job 2 comes too late for that.
    jobs = hand((0, 10, 10, 3), (1, 9, 9, 4), (2, 5, 5, 4))
    assert starts(jobs, "sjf") == starts(jobs, "sjf", semantics="event") == [0, 15, 10]
    assert starts(jobs, "sjf", semantics="commit") == [0, 10, 19]


def test_commitment_backfills_strictly_before_the_reservation_and_without_extra_processors() -> None:
    # Job 1 waits for three processors until 10. Job 2 would end just then, job 4 before; job 3 is long, but
    # one processor is left over beside job 1.
    jobs = hand((0, 10, 10, 3), (1, 5, 5, 3), (2, 8, 8, 1), (3, 20, 20, 1), (4, 5, 5, 1))
    assert starts(jobs, "fcfs+easy") == [0, 10, 2, 10, 15]
    assert starts(jobs, "fcfs+easy", semantics="commit") == [0, 10, 10, 15, 4]


def test_the_reservation_of_a_committed_choice_is_computed_once() -> None:
    # Job 3 wants three processors, which are planned to be free at 40. Job 0 ends at 10 instead, after which it
    # would be 20; the last job, planned from 11 to 26, is still measured against 40.
    jobs = hand((0, 10, 40, 2), (0, 20, 20, 1), (0, 30, 30, 1), (1, 5, 5, 3), (11, 15, 15, 1))
    assert starts(jobs, "fcfs+easy") == [0, 0, 0, 20, 25]
    assert starts(jobs, "fcfs+easy", semantics="commit") == [0, 0, 0, 26, 11]


def test_semantics_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'event'"):
        schedule(BLOCKED, 4, Policy(), "events")
    for backfilling in ("easy-sjbf", "conservative", "periodic"):
        with pytest.raises(UsageError, match="'commit' have no backfilling"):
            schedule(BLOCKED, 4, Policy("fcfs", backfilling), Semantics.COMMIT)
    with pytest.raises(UsageError, match=r"'event' have no backfilling 'periodic'.*one of none, easy"):
        schedule(BLOCKED, 4, Policy("fcfs", "periodic"), "event")


def test_a_job_larger_than_the_machine_is_refused() -> None:
    with pytest.raises(InputError, match="needs 4 processors and the machine has 3"):
        schedule(BLOCKED, 3, Policy())


def test_a_queue_of_100_000_jobs_is_worked_off() -> None:
    """All jobs arrive at once; how the time grows with the queue is measured in benchmarks/simulate.py."""
    rng = np.random.default_rng(1)
    count = 100_000
    runs = rng.integers(1_000, 1_000_000, count)
    jobs = Jobs(
        submit_ms=np.zeros(count, np.int64),
        run_ms=runs,
        limit_ms=runs,
        estimate_ms=runs,
        plan_ms=runs,
        processors=rng.integers(1, 65, count),
    )
    for policy in ("fcfs+easy", "saf+easy", "sjf+easy-sjbf"):
        start = schedule(jobs, 128, Policy.parse(policy))
        # Shortest and smallest first leave the wide jobs for the end, where the machine is not full.
        assert measure(jobs, start, 128).utilization > 0.8
        assert (start >= 0).all()


# Mean bounded slowdown and mean wait of the first 10,000 jobs after the archive rules, as handed down from earlier
# simulators that are not part of this project; canonical form and rules in docs/explanation/simulation.md.
ORACLE = {
    "model-lublin_256": {
        "fcfs": (66502.475529, 2388443.7601),
        "sjf": (53.543485, 275304.2226),
        "fcfs+easy": (590.053777, 97155.9945),
        "fcfs+easy-sjbf": (219.557621, 73394.3755),
        "sjf+easy": (40.559571, 59632.1953),
        "saf+easy": (23.862417, 59038.8706),
        "f1+easy": (40.079777, 71421.6495),
        "f2+easy": (34.175224, 60751.3096),
        "wfp3+easy": (117.032148, 61095.9764),
        "unicep+easy": (70.029654, 53325.0517),
        "lxf+easy": (102.410329, 55987.7799),
    },
    "HPC2N-2002-2.2-cln": {
        "fcfs": (246.379641, 15712.8504),
        "sjf": (79.075766, 6739.4010),
        "fcfs+easy": (58.056180, 5676.9300),
        "fcfs+easy-sjbf": (53.820319, 5502.2466),
        "sjf+easy": (37.984407, 4094.5159),
        "saf+easy": (32.673184, 3819.5113),
        "f1+easy": (44.178754, 4377.0970),
        "f2+easy": (32.877419, 3799.2321),
        "wfp3+easy": (40.371781, 4789.0981),
        "unicep+easy": (32.951396, 4182.0623),
        "lxf+easy": (36.582084, 4478.9011),
    },
}


# FCFS with EASY of an earlier simulator with one pass per event. For the second log its numbers are known of an
# earlier version alone, whose numbers with one pass per instant are lower by what is added here. The rule for jobs
# that end as planned was chosen by the first number, so that it tests the rest alone.
PER_EVENT = {
    "model-lublin_256": (590.053777, 97155.9945),
    "HPC2N-2002-2.2-cln": (57.813424 + 0.001028, 5666.4583 + 2.7963),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("log", ORACLE)
def test_reference_numbers_are_met_to_six_digits(log: str, shared_data: Path) -> None:
    from presage.simulator import simulate
    from presage.traces import read_trace
    from presage.traces.cleaning import clean

    trace = clean(read_trace(shared_data / f"{log}.swf.gz", format="swf"), ["archive"])
    trace = trace.with_jobs(trace.jobs.head(10_000))
    for policy, (slowdown, wait_s) in ORACLE[log].items():
        metrics = simulate(trace, policy).metrics
        assert metrics.mean_bounded_slowdown == pytest.approx(slowdown, abs=5e-7), policy
        assert metrics.mean_wait_s == pytest.approx(wait_s, abs=5e-5), policy
    per_event = simulate(trace, "fcfs+easy", semantics="event").metrics
    slowdown, wait_s = PER_EVENT[log]
    assert per_event.mean_bounded_slowdown == pytest.approx(slowdown, abs=2e-6)
    assert per_event.mean_wait_s == pytest.approx(wait_s, abs=2e-4)
