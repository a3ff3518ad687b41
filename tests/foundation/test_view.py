"""What the model sees: against numbers computed by hand, and the same for a replayed log and a watched cluster."""

from __future__ import annotations

import numpy as np
import pytest

from presage.errors import InputError, UsageError
from presage.foundation.view import numbers
from presage.foundation.view.examples import Examples, Questions, at_submits, examples_of, in_between
from presage.foundation.view.jobs import JobHistory, history_of, signature
from presage.foundation.view.live import JobRequest, LiveCluster
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.schema import Outcome


def number(examples: Examples, row: int, name: str) -> float:
    return float(examples.x[row, numbers.PLACE[name]])


@pytest.fixture
def small() -> Examples:
    """Three jobs on 10 processors: 8 run from 0 to 100 s, 4 wait from 10 s on, then one of 2 comes at 30 s."""
    jobs = [
        make_job(0, 0, 100, 8, limit_s=200.0, user="ann"),
        make_job(10, 90, 50, 4, limit_s=60.0, user="bob"),
        make_job(30, 0, 5, 2, limit_s=60.0, user="ann"),
    ]
    history = history_of(make_trace(*jobs, cpus=10))
    return examples_of(history, at_submits(history))


def test_numbers_of_a_small_cluster(small: Examples) -> None:
    assert number(small, 2, "free") == pytest.approx(0.2)
    assert number(small, 2, "fits") == 1.0
    assert number(small, 1, "fits") == 0.0
    assert number(small, 1, "slack") == pytest.approx((2 - 4) / 10)
    assert number(small, 2, "waiting_jobs") == pytest.approx(np.log1p(1))
    assert number(small, 2, "oldest") == pytest.approx(np.log1p(20))
    assert number(small, 2, "remaining_by_limit") == pytest.approx(np.log1p(170 * 8 / 10))
    assert number(small, 2, "user_running") == pytest.approx(np.log1p(1))
    assert number(small, 2, "elapsed_of_user") == pytest.approx(np.log1p(30))
    # The job of 4 fits when the 8 are back, 190 s later at the latest; times are kept to an eighth of log time.
    assert number(small, 1, "fit_by_limit") == pytest.approx(np.log1p(190), abs=0.126)


def test_jobs_alike_are_found_whoever_submitted_them() -> None:
    """Bob's jobs look like carl's first one, ann's do not."""
    of_ann = [make_job(2000 * k, 0, 5000, 8, limit_s=36_000.0, user="ann") for k in range(30)]
    of_bob = [make_job(2000 * k + 50, 0, 60, 1, limit_s=600.0, user="bob") for k in range(30)]
    new = make_job(100_000, 0, 1, 1, limit_s=600.0, user="carl")
    history = history_of(make_trace(*of_ann, *of_bob, new, cpus=1000))
    examples = examples_of(history, at_submits(history))

    assert number(examples, 60, "alike_p50") == pytest.approx(np.log1p(60))
    assert number(examples, 60, "alike_mean") == pytest.approx(np.log1p(60))
    assert number(examples, 60, "work_anchor") == pytest.approx(np.log1p(60))
    assert number(examples, 0, "alike_p50") == -1
    assert number(examples, 0, "work_anchor") == number(examples, 0, "run_anchor")


def test_what_is_submitted_in_one_go_is_counted() -> None:
    """Bob's job in between changes nothing; another limit and a pause of more than half an hour begin anew."""
    of_ann = [make_job(at_s, 0, 10, limit_s=limit_s, user="ann") for at_s, limit_s in (
        (0, 60.0), (100, 60.0), (1900, 60.0), (2000, 90.0), (2001, 90.0), (3802, 90.0),
    )]  # fmt: skip
    history = history_of(make_trace(*of_ann, make_job(50, 0, 10, limit_s=60.0, user="bob"), cpus=9))
    examples = examples_of(history, at_submits(history))

    places = [np.expm1(number(examples, row, "campaign_place")) for row in range(7)]
    assert places == pytest.approx([0, 0, 1, 2, 0, 1, 0], abs=1e-6)  # the second is bob's


def test_a_large_campaign_does_not_drive_out_those_before_it() -> None:
    """Five campaigns, then three hundred jobs at once: each of the earlier ones is still shown by one job."""
    earlier = [
        make_job(10_000 * day + k, 0, 60 + day, limit_s=600.0 + day, user="ann")
        for day in range(5)
        for k in range(9)
    ]
    many = [make_job(100_000 + k, 0, 5000, limit_s=700.0, user="ann") for k in range(300)]
    new = make_job(200_000, 0, 1, limit_s=700.0, user="ann")
    history = history_of(make_trace(*earlier, *many, new, cpus=1000))
    examples = examples_of(history, at_submits(history))

    begin = numbers.SIMILAR + numbers.LATEST
    shown = examples.runs[345, begin : begin + numbers.CAMPAIGNS]
    runs_s = history.run_s[shown[shown >= 0]]
    assert sorted(runs_s) == [60, 61, 62, 63, 64, 5000]
    assert set(history.run_s[examples.runs[345, :begin]]) == {5000}


def test_any_job_of_a_campaign_may_stand_for_it() -> None:
    """Jobs of a campaign of a hundred end in order; over many of them, those shown are early and late alike."""
    jobs = [
        make_job(10_000 * week + k, 0, 100 + k, limit_s=900.0, user="ann")
        for week in range(64)
        for k in range(100)
    ]
    new = make_job(900_000, 0, 1, limit_s=900.0, user="ann")
    history = history_of(make_trace(*jobs, new, cpus=1000))
    shown = examples_of(history, at_submits(history)).runs[6400, numbers.SIMILAR + numbers.LATEST :][
        : numbers.CAMPAIGNS
    ]

    places = history.run_s[shown] - 100
    assert len(set(shown // 100)) == numbers.CAMPAIGNS
    assert 25 < places.mean() < 75
    assert places.std() > 15


def test_failures_are_counted_when_jobs_end() -> None:
    ends = ["completed", "failed", "completed", "completed"]
    jobs = [make_job(100 * k, 0, 10, user="ann", outcome=end) for k, end in enumerate(ends)]
    later = [make_job(1000, 0, 1, user="ann"), make_job(1001, 0, 1, user="bob")]
    history = history_of(make_trace(*jobs, *later, cpus=9))
    examples = examples_of(history, at_submits(history))

    assert number(examples, 2, "ends_since_failure") == 0
    assert number(examples, 2, "identical_failed") == 1
    assert number(examples, 4, "identical_failed") == 0
    assert number(examples, 4, "ends_since_failure") == pytest.approx(np.log1p(2))
    assert number(examples, 4, "similar_failures") == pytest.approx(np.log(1 / 4 + 0.001))
    assert number(examples, 4, "user_failures_slow") == pytest.approx(np.log(0.02 * 0.98**2 + 0.001), abs=1e-4)
    assert number(examples, 5, "user_failures_slow") == -3
    assert number(examples, 5, "identical_failed") == -1


def test_what_anchors_were_worth_is_remembered() -> None:
    """Ann's jobs all run for a minute; the first is expected to take an e-th of its limit, the others as long."""
    of_ann = [make_job(1000 * k, 0, 60, limit_s=600.0, user="ann") for k in range(4)]
    history = history_of(make_trace(*of_ann, make_job(9000, 0, 60, user="bob"), cpus=9))
    examples = examples_of(history, at_submits(history))
    first_error = abs(np.log1p(60) - (np.log1p(600) - 1))

    assert number(examples, 0, "user_work_error") == 1
    assert number(examples, 1, "user_work_error") == pytest.approx(first_error, abs=1e-4)
    assert number(examples, 3, "user_work_error") == pytest.approx(first_error * 0.9**2, abs=1e-4)
    assert number(examples, 3, "work_error") == pytest.approx(first_error * 0.995**2, abs=1e-4)
    assert number(examples, 4, "user_work_error") == 1


def test_targets_of_a_small_cluster(small: Examples) -> None:
    waits = targets_of(small, Task.WAIT)

    assert waits.outcome_s.tolist() == [0, 90, 0]
    assert waits.usable.all()
    assert not waits.is_censored.any()


def test_a_job_that_left_the_queue_counts_with_what_was_seen_of_it() -> None:
    left = {"submit_ms": 5_000, "end_ms": 65_000, "cpus_req": 1.0, "outcome": "cancelled"}
    waits = {"submit_ms": 10_000, "cpus_req": 1.0, "outcome": "pending"}
    history = history_of(make_trace(make_job(0, 0, 100), left, waits, cpus=1))
    targets = targets_of(examples_of(history, at_submits(history)), Task.WAIT)

    assert targets.is_censored.tolist() == [False, True, True]
    assert targets.outcome_s.tolist() == [0, 60, 90]


def test_a_watched_cluster_sees_what_a_replayed_log_shows(busy_trace: Trace, history: JobHistory) -> None:
    whole = examples_of(history, at_submits(history))
    facts, origin_s = history.facts, history.origin_ms / 1000
    cluster = LiveCluster(processors=history.size)
    columns = busy_trace.jobs.rows(named=True)
    events = sorted(
        [(start, 0, row, "start") for row, start in enumerate(history.start_s)]
        + [(end, 1, row, "end") for row, end in enumerate(history.end_s)]
    )
    told = 0
    for row, job in enumerate(columns[:600]):
        now_s = facts["submit_s"][row]
        while told < len(events) and events[told][0] < now_s:
            when, _, other, what = events[told]
            told += 1
            if other < row:
                if what == "start":
                    cluster.start(str(columns[other]["job_id"]), origin_s + when)
                else:
                    cluster.end(str(columns[other]["job_id"]), origin_s + when, Outcome.COMPLETED)
        request = JobRequest(
            str(job["job_id"]), user=job["user"] or "", queue=job["queue"] or "", group=job["group"] or "",
            cpus=job["cpus_req"] or job["cpus_alloc"], limit_s=job["limit_s"], name=job["name"] or "",
            program=job["executable"] or "", memory_bytes=job["mem_req_bytes"],
        )  # fmt: skip
        if row % 50 == 49:
            for task, seen in cluster.see(request, origin_s + now_s).items():
                expected = whole.seen(np.array([row]), task)
                np.testing.assert_allclose(seen.x, expected.x, rtol=1e-4, atol=1e-3)
                np.testing.assert_allclose(seen.tokens, expected.tokens, rtol=1e-3, atol=1e-3)
        cluster.submit(request, origin_s + now_s)


def test_asking_changes_nothing(history: JobHistory, examples: Examples) -> None:
    """Questions in between must not disturb what later ones see."""
    plain = examples_of(history, at_submits(history))

    np.testing.assert_array_equal(examples.x[examples.questions.kinds == 0], plain.x)


def test_questions_in_between_lie_within_waits_and_runs(history: JobHistory) -> None:
    questions = in_between(history, 1.0, np.random.default_rng(1))
    submit_s = history.facts["submit_s"][questions.asked]
    until_s = np.where(questions.kinds == 1, history.start_s[questions.asked], history.end_s[questions.asked])

    assert set(questions.kinds.tolist()) == {1, 2}
    assert (questions.time_s >= submit_s).all()
    assert (questions.time_s <= until_s).all()
    assert (np.diff(questions.time_s) >= 0).all()


def test_a_stretched_clock_changes_durations_alike(examples: Examples) -> None:
    rows = np.arange(1000, 1010)
    seen = examples.seen(rows, Task.WAIT)
    stretched = seen.stretched(np.full(len(rows), 3.0, np.float32))

    np.testing.assert_allclose(np.expm1(stretched.outcomes), 3 * np.expm1(seen.outcomes), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(stretched.x[:, numbers.PLACE["free"]], seen.x[:, numbers.PLACE["free"]])
    np.testing.assert_allclose(
        np.expm1(stretched.x[:, numbers.PLACE["limit"]]),
        3 * np.expm1(seen.x[:, numbers.PLACE["limit"]]),
        rtol=1e-3,
    )


def test_live_cluster_refuses_what_makes_no_sense() -> None:
    cluster = LiveCluster()
    cluster.submit(JobRequest("1"), 100.0)

    with pytest.raises(UsageError, match="submitted before"):
        cluster.submit(JobRequest("1"), 101.0)
    with pytest.raises(UsageError, match="No job '2'"):
        cluster.start("2", 101.0)
    cluster.end("1", 102.0)
    with pytest.raises(UsageError, match="has ended"):
        cluster.see("1")


def test_a_clock_that_jumps_back_does_no_harm() -> None:
    cluster = LiveCluster(processors=4)
    for number_, when in enumerate((1000.0, 500.0, 2000.0)):
        cluster.submit(JobRequest(str(number_)), when)
        cluster.start(str(number_), when - 100)
    seen = cluster.see(JobRequest("new"), 100.0)

    assert all(np.isfinite(each.x).all() and np.isfinite(each.tokens).all() for each in seen.values())
    assert cluster.running == 3


def test_room_is_made_as_jobs_users_and_queues_come() -> None:
    cluster = LiveCluster()
    for number_ in range(3000):
        cluster.submit(
            JobRequest(str(number_), user=f"u{number_ % 300}", queue=f"q{number_ % 40}"), float(number_)
        )

    assert cluster.waiting == 3000
    assert np.isfinite(cluster.see("2999")[Task.WAIT].x).all()


def test_signatures_tell_names_apart_but_not_numbers() -> None:
    assert signature("train_resnet_01") == signature("train_resnet_99")
    assert signature("train_resnet") != signature("lammps")
    assert signature("") == 0


def test_a_trace_without_jobs_is_refused() -> None:
    with pytest.raises(InputError, match="no job"):
        history_of(make_trace({"cpus_req": 1.0}))


def test_merged_questions_are_in_order() -> None:
    one = Questions(np.array([3]), np.array([5.0]), np.array([0], np.int32))
    other = Questions(np.array([1, 2]), np.array([5.0, 1.0]), np.array([1, 2], np.int32))

    merged = Questions.merged(one, other)

    assert merged.asked.tolist() == [2, 1, 3]
