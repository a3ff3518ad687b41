"""Each detector finds its anomaly in small traces whose numbers can be counted, and nothing without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from presage.foundation.anomalies import Anomaly, find_anomalies
from presage.testing.traces import make_job
from presage.traces import Trace

from .conftest import DAY_S, HOUR_S, on_nodes, steady, trace_of


def found(trace: Trace, kind: str, **options: Any) -> list[Anomaly]:
    return list(find_anomalies(trace, kinds=[kind], **options).findings)


def only(findings: list[Anomaly]) -> Anomaly:
    assert len(findings) == 1, findings
    return findings[0]


def test_ordinary_work_gives_no_alarm() -> None:
    report = find_anomalies(trace_of(on_nodes(steady()), cpus=64.0))
    assert report.findings == ()
    assert set(report.ran) == {
        "node-failures", "failure-cascade", "user-failures", "unusable-partition", "idle-processors",
        "priority-inversion", "stalled-run", "stalled-queue", "run-time", "wasteful-request",
    }  # fmt: skip


def test_a_streak_of_failures_of_a_user() -> None:
    jobs = steady()
    for number in range(200, 292, 4):  # 23 jobs of user a in a row; job ids count from 1
        jobs[number]["outcome"] = "failed"
    finding = only(found(trace_of(jobs), "user-failures"))
    assert (finding.subject, finding.name) == ("user", "a")
    assert finding.numbers == {"failed": 23, "runs": 23, "usual": 0.0}
    assert "23 of 23 runs failed between" in finding.reason
    assert finding.reason.endswith("usually 0 %")
    assert (finding.start_ms, finding.end_ms) == (jobs[200]["end_ms"], jobs[288]["end_ms"])
    assert finding.evidence == tuple(str(number + 1) for number in range(200, 280, 4))
    assert finding.jobs == 23


def test_a_user_who_always_fails_is_no_news() -> None:
    jobs = steady(800)
    for number in range(0, 800, 4):
        jobs[number]["outcome"] = "failed"
    assert all(each.end_ms < jobs[200]["end_ms"] for each in found(trace_of(jobs), "user-failures"))


def test_a_node_on_which_everybody_fails() -> None:
    jobs = on_nodes(steady(1200))
    touching = [job for job in jobs[600:] if job["node_list"] == ["n007"]][:12]
    for job in touching:
        job["outcome"] = "failed"
    trace = trace_of(jobs)
    finding = only(found(trace, "node-failures"))
    assert (finding.subject, finding.name) == ("node", "n007")
    assert finding.numbers["failed"] == 12
    assert finding.numbers["users"] > 1
    report = find_anomalies(trace)
    assert [each.kind for each in report.findings] == ["node-failures"], "its failures are not told again"


def test_a_user_who_fails_everywhere_is_not_the_nodes_fault() -> None:
    jobs = on_nodes(steady(1200))
    for number in range(600, 760, 4):
        jobs[number]["outcome"] = "failed"
    report = find_anomalies(trace_of(jobs))
    assert [(each.kind, each.name) for each in report.findings] == [("user-failures", "a")]


def test_the_node_that_failed_jobs_share_is_the_bad_one() -> None:
    jobs = on_nodes(steady(1500), width=4)
    touching = [job for job in jobs[700:] if "n007" in job["node_list"]][:16]
    for job in touching:
        job["outcome"] = "node_failure"
    assert [each.name for each in found(trace_of(jobs), "node-failures")] == ["n007"]


def test_a_rack_whose_nodes_fail_together() -> None:
    jobs = on_nodes(steady(1500), nodes=32)
    trace = trace_of(jobs)
    rack = {f"n{number:03d}" for number in range(8, 16)}
    bad = [job for job in jobs[800:1000] if rack.intersection(job["node_list"])]
    for job in bad:
        job["outcome"] = "failed"
    nodes = pl.DataFrame(
        {"node_id": [f"n{n:03d}" for n in range(32)], "rack": [f"rack{n // 8}" for n in range(32)]}
    )
    trace = trace_of(jobs)
    finding = only(found(Trace.create(trace.jobs, trace.manifest, nodes=nodes), "node-failures"))
    assert (finding.subject, finding.name) == ("rack", "rack1")
    assert finding.numbers["failed"] == len(bad)


def test_failures_that_spread_over_shared_nodes() -> None:
    jobs = on_nodes(steady(800), nodes=20)
    at_s = 500 * 1800.0
    members = [
        make_job(
            at_s - HOUR_S, 60, HOUR_S + 30 * number, cpus=8, user="abcd"[number % 4], outcome="failed",
            node_list=[f"n{2 * number:03d}", f"n{2 * number + 2:03d}"],
        )
        for number in range(6)
    ]  # fmt: skip
    finding = only(found(trace_of(jobs + members), "failure-cascade"))
    assert finding.numbers["failed"] == 6
    assert finding.numbers["nodes"] == 7
    assert set(finding.evidence) == {str(801 + number) for number in range(6)}
    assert finding.end_ms - finding.start_ms == 150_000


def test_a_job_that_hangs() -> None:
    jobs = [{**job, "cpu_used_s": 0.9 * 4 * job["run_s"]} for job in steady()]
    jobs[300].update(run_s=50 * HOUR_S, end_ms=jobs[300]["start_ms"] + int(50 * HOUR_S * 1000), outcome="timeout")
    finding = only(found(trace_of(jobs), "stalled-run"))
    assert (finding.subject, finding.name) == ("job", "301")
    assert finding.numbers["cpu_share"] == pytest.approx(0.9 * 3600 / (50 * 3600), rel=0.3)
    jobs[300]["cpu_used_s"] = 4 * 50 * HOUR_S
    assert found(trace_of(jobs), "stalled-run") == [], "it works, so it does not hang"


def test_a_job_that_still_runs_hangs_too() -> None:
    jobs = steady()
    jobs[200].update(run_s=None, end_ms=None, outcome="running")
    finding = only(found(trace_of(jobs), "stalled-run"))
    assert finding.name == "201"
    assert "has run" in finding.reason
    assert finding.end_ms == max(job["end_ms"] for job in jobs if job["end_ms"])


@pytest.mark.parametrize(("run_s", "words"), [(50 * HOUR_S, "times the longest"), (3.0, "of the shortest")])
def test_an_odd_run_time(run_s: float, words: str) -> None:
    jobs = steady()
    jobs[300].update(run_s=run_s, end_ms=jobs[300]["start_ms"] + int(run_s * 1000))
    finding = only(found(trace_of(jobs), "run-time"))
    assert finding.name == "301"
    assert words in finding.reason
    assert finding.numbers["run_s"] == run_s


def test_several_odd_runs_of_a_user_are_one_finding() -> None:
    jobs = steady()
    for number in (300, 304, 308):
        jobs[number].update(run_s=50 * HOUR_S, end_ms=jobs[number]["start_ms"] + int(50 * HOUR_S * 1000))
    finding = only(found(trace_of(jobs), "run-time"))
    assert (finding.subject, finding.name, finding.jobs) == ("user", "a", 3)
    assert set(finding.evidence) == {"301", "305", "309"}


def test_a_job_that_is_passed_by_all_others() -> None:
    jobs = steady()
    wait_s = 3 * DAY_S
    jobs[200].update(wait_s=wait_s, start_ms=jobs[200]["submit_ms"] + int(wait_s * 1000))
    jobs[200]["end_ms"] = jobs[200]["start_ms"] + int(jobs[200]["run_s"] * 1000)
    finding = only(found(trace_of(jobs), "stalled-queue"))
    assert finding.name == "201"
    assert finding.numbers["passed"] == 3 * 48 - 1
    assert finding.numbers["wait_s"] == wait_s
    assert finding.numbers["longest_s"] == 60


def test_a_pending_job_is_found_while_it_waits() -> None:
    jobs = steady()
    jobs[200].update(wait_s=None, run_s=None, start_ms=None, end_ms=None, outcome="pending")
    finding = only(found(trace_of(jobs), "stalled-queue"))
    assert "has waited" in finding.reason


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"limit_s": 100 * HOUR_S}, "time limit"),
        ({"cpu_used_s": 300.0}, "processors"),
        ({"mem_used_bytes": 10**9}, "memory"),
        ({"gpu_used_s": 100.0}, "GPUs"),
    ],
)
def test_a_habit_of_asking_for_too_much(columns: dict[str, Any], what: str) -> None:
    jobs = [
        {**job, "cpu_used_s": 3.6 * job["run_s"], "mem_req_bytes": 10**10, "mem_used_bytes": 8 * 10**9,
         "gpus_req": 1.0, "gpu_used_s": 0.9 * job["run_s"]}
        for job in steady(800)
    ]  # fmt: skip
    assert found(trace_of(jobs), "wasteful-request") == []
    for job in jobs[::4]:
        job.update(columns)
    finding = only(found(trace_of(jobs), "wasteful-request"))
    assert (finding.subject, finding.name) == ("user", "a")
    assert f"of the {what} asked for" in finding.reason
    assert finding.numbers["wasteful"] == finding.numbers["requests"] == 17  # days


def test_a_partition_that_starts_nothing() -> None:
    jobs = steady()
    for number in range(100, 120):
        wait_ms = int(2 * DAY_S * 1000)
        jobs[number].update(
            partition="gone", start_ms=None, run_s=None, wait_s=None, outcome="cancelled",
            end_ms=jobs[number]["submit_ms"] + wait_ms,
        )  # fmt: skip
    finding = only(found(trace_of(jobs), "unusable-partition"))
    assert (finding.subject, finding.name, finding.jobs) == ("partition", "gone", 20)
    assert "none of 20 jobs of 4 users started" in finding.reason
    assert finding.numbers["wait_s"] == pytest.approx(2 * DAY_S)


def test_a_partition_that_starts_others_is_usable() -> None:
    jobs = steady()
    for number in range(100, 140, 2):
        end_ms = jobs[number]["submit_ms"] + int(2 * DAY_S * 1000)
        jobs[number].update(start_ms=None, run_s=None, wait_s=None, outcome="cancelled", end_ms=end_ms)
    assert found(trace_of(jobs), "unusable-partition") == []


def delayed(jobs: list[dict[str, Any]], numbers: range, until_s: float) -> None:
    for number in numbers:
        job = jobs[number]
        job["start_ms"] = int(until_s * 1000)
        job["wait_s"] = until_s - job["submit_ms"] / 1000
        job["end_ms"] = job["start_ms"] + int(job["run_s"] * 1000)


def test_a_machine_that_idles_while_jobs_wait() -> None:
    jobs = steady(1000)
    delayed(jobs, range(500, 600), 600 * 1800.0)  # nothing starts for 50 hours
    finding = only(found(trace_of(jobs, cpus=64.0), "idle-processors"))
    assert (finding.subject, finding.name) == ("partition", "batch")
    assert finding.end_ms == 600 * 1_800_000
    assert 45 * HOUR_S < (finding.end_ms - finding.start_ms) / 1000 <= 50 * HOUR_S
    assert finding.numbers["users"] == 4


def test_jobs_that_wait_for_a_full_machine_are_no_anomaly() -> None:
    jobs = steady(1000)
    delayed(jobs, range(500, 600), 600 * 1800.0)
    hog = make_job(480 * 1800, 0, 130 * 1800, cpus=64, user="h", partition="batch", outcome="completed")
    warm = make_job(0, 0, 3600, cpus=64, user="h", partition="batch", outcome="completed")
    assert found(trace_of([*jobs, hog, warm], cpus=64.0), "idle-processors") == []


def test_a_queue_that_serves_the_last_first() -> None:
    jobs = steady(1600, every_s=600.0)
    for number in range(800, 1000, 8):
        # Of users a and b, every second job starts after eight later ones of the same user.
        delayed(jobs, range(number, number + 2), (number + 40) * 600.0)
    finding = only(found(trace_of(jobs), "priority-inversion"))
    assert (finding.subject, finding.name) == ("partition", "batch")
    assert finding.numbers["inverted"] == 50
    assert "of the same user" in finding.reason


def test_smaller_jobs_may_pass() -> None:
    jobs = steady(1600, every_s=600.0)
    for number in range(800, 1000, 8):
        delayed(jobs, range(number, number + 2), (number + 40) * 600.0)
        for job in jobs[number : number + 2]:
            job["cpus_alloc"] = 8.0
    assert found(trace_of(jobs), "priority-inversion") == []


def test_the_more_important_may_pass() -> None:
    jobs = [{**job, "priority": 10.0} for job in steady(1600, every_s=600.0)]
    for number in range(800, 1000, 8):
        delayed(jobs, range(number, number + 2), (number + 40) * 600.0)
    assert len(found(trace_of(jobs), "priority-inversion")) == 1
    for number in range(800, 1000, 8):
        for job in jobs[number : number + 2]:
            job["priority"] = 1.0
    assert found(trace_of(jobs), "priority-inversion") == []


def test_attempts_count_as_runs() -> None:
    jobs = on_nodes(steady(1200))
    trace = trace_of(jobs)
    touching = [number for number, job in enumerate(jobs) if number > 600 and job["node_list"] == ["n007"]][:12]
    attempts = pl.DataFrame(
        [
            {
                "job_id": str(number + 1), "attempt": 0, "start_ms": jobs[number]["start_ms"] - 2000,
                "end_ms": jobs[number]["start_ms"] - 1000, "outcome": "node_failure", "node_list": ["n007"],
            }
            for number in touching
        ]
    )  # fmt: skip
    finding = only(found(Trace.create(trace.jobs, trace.manifest, attempts=attempts), "node-failures"))
    assert (finding.name, finding.jobs) == ("n007", 12)


def test_where_names_tell_racks_they_count() -> None:
    jobs = on_nodes(steady(1500), nodes=32)
    for job in jobs:
        number = int(job["node_list"][0][1:])
        job["node_list"] = [f"cn-r{number // 8}-{number % 8:02d}"]
    bad = [job for job in jobs[800:1000] if job["node_list"][0].startswith("cn-r1")]
    for job in bad:
        job["outcome"] = "failed"
    assert [(each.subject, each.name) for each in found(trace_of(jobs), "node-failures")] == [("rack", "cn-r1")]


def test_jobs_that_depend_on_others_may_wait() -> None:
    jobs = steady()
    delayed(jobs, range(200, 201), 200 * 1800 + 3 * DAY_S)
    trace = trace_of(jobs)
    assert len(found(trace, "stalled-queue")) == 1
    edges = pl.DataFrame({"job_id": ["201"], "depends_on": ["10"], "kind": ["afterok"]})
    waiting = Trace.create(trace.jobs, replace(trace.manifest), edges=edges)
    assert found(waiting, "stalled-queue") == []
