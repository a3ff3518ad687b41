from __future__ import annotations

import polars as pl

from presage.testing import make_job, make_trace
from presage.traces import Trace
from presage.traces.validation import Severity, validate


def test_a_good_trace_has_nothing_to_remark() -> None:
    trace = make_trace(
        make_job(0, 1, 10, 2, user="a", limit_s=60.0, outcome="completed"),
        cpus=4,
    )
    assert validate(trace) == []


def test_each_problem_is_found_counted_and_exemplified() -> None:
    good = {"user": "a", "outcome": "completed", "limit_s": 1000.0}
    trace = make_trace(
        {**make_job(10, 0, 5, **good), "start_ms": 9_000, "end_ms": 14_000, "wait_s": -1.0},
        {**make_job(20, 0, 5, **good), "end_ms": 19_000},
        {**make_job(30, 0, 50, **good), "limit_s": 20.0},
        make_job(40, 0, 0, **good),
        make_job(50, 0, 5, 0, **good),
        make_job(60, 0, 5, 9, **good),
        {**good, "run_s": 5.0, "cpus_req": 1.0},
        cpus=4,
    )
    found = {finding.check: (finding.severity, finding.count, finding.examples) for finding in validate(trace)}
    assert found == {
        "start-before-submit": (Severity.ERROR, 1, ("1",)),
        "negative-wait": (Severity.ERROR, 1, ("1",)),
        "end-before-start": (Severity.ERROR, 1, ("2",)),
        "run-differs": (Severity.WARNING, 1, ("2",)),
        "overrun": (Severity.WARNING, 1, ("3",)),
        "zero-run": (Severity.WARNING, 1, ("4",)),
        "no-size": (Severity.WARNING, 1, ("5",)),
        "oversized": (Severity.WARNING, 1, ("6",)),
        "no-submit": (Severity.WARNING, 1, ("7",)),
    }


def test_rows_that_name_no_job_are_found() -> None:
    trace = make_trace(make_job(0, 0, 1, user="a", limit_s=9.0, outcome="completed"), cpus=1)
    strays = Trace.create(
        trace.jobs,
        trace.manifest,
        attempts=pl.DataFrame({"job_id": ["9"]}),
        edges=pl.DataFrame({"job_id": ["1"], "depends_on": ["8"]}),
    )
    assert [(f.check, f.severity, f.examples) for f in validate(strays)] == [
        ("stray-attempts", Severity.ERROR, ("9",)),
        ("stray-edges", Severity.WARNING, ("8",)),
    ]


def test_errors_come_first_and_what_is_missing_last() -> None:
    trace = make_trace(make_job(0, 0, 0), {**make_job(5, 0, 5), "start_ms": 0})
    severities = [finding.severity for finding in validate(trace)]
    assert severities == sorted(severities, key=list(Severity).index)
    assert any("no limits, users, outcomes" in finding.message for finding in validate(trace))


def test_messages_agree_with_their_number_and_know_rows_without_a_line() -> None:
    one = make_trace(make_job(0, 0, 0))
    two = make_trace(make_job(0, 0, 0), make_job(1, 0, 0))
    assert [f.message for f in validate(one) if f.check == "zero-run"] == [
        "1 job ran for zero seconds (rule drop-unrun)"
    ]
    assert [f.message for f in validate(two) if f.check == "zero-run"] == [
        "2 jobs ran for zero seconds (rule drop-unrun)"
    ]
    rejects = pl.DataFrame({"file": ["a", "b"], "line": [3, None], "reason": ["bad", "bad"]})
    rejected = Trace.create(one.jobs, one.manifest, rejects=rejects)
    assert [f.examples for f in validate(rejected) if f.check == "rejected-rows"] == [("a, line 3", "b")]
