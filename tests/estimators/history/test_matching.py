from __future__ import annotations

import json
from pathlib import Path

import pytest

from presage.clusters.charges import Share
from presage.estimators import ScriptWorkload
from presage.estimators.history.matching import Likeness, earlier_like, matches
from presage.estimators.scripts import stamp_of
from presage.testing import make_job, make_trace
from presage.traces import read_trace

WORKLOAD = ScriptWorkload("t.sh", ("a",), "ab" * 32, commit="1" * 40, user="ann", name="t")
STAMP = str(stamp_of(WORKLOAD))


def test_a_stamp_survives_both_ways_to_read_sacct(tmp_path: Path, fixtures: Path) -> None:
    text = tmp_path / "sacct.txt"
    header = "JobID|User|Submit|Start|End|Elapsed|State|Comment|SubmitLine\n"
    times = "2026-03-01T09:00:00|2026-03-01T09:01:00|2026-03-01T10:01:00|01:00:00|COMPLETED"
    text.write_text(
        f"{header}7|ann|{times}|presage:key=x my own {STAMP}|sbatch t.sh\n8|ann|{times}||sbatch t.sh b\n"
    )
    document = json.loads((fixtures / "sacct.json").read_text())
    document["jobs"][0]["comment"] = {"administrator": "", "job": f"mine {STAMP}", "system": ""}
    (tmp_path / "sacct.json").write_text(json.dumps(document))
    for path in (text, tmp_path / "sacct.json"):
        trace = read_trace(path)
        found = next(matches(trace, ScriptWorkload("t.sh", ("a",), "ab" * 32, commit="1" * 40)))
        assert found.likeness is Likeness.COMMIT
        assert len(found.jobs) == 1


def test_likenesses_come_from_the_surest_to_the_weakest() -> None:
    known = {"user": "ann", "name": "t", "cpus": 4}
    other = str(stamp_of(ScriptWorkload("t.sh", ("b",), "ab" * 32)))
    trace = make_trace(
        make_job(1, 1, 1, **known, x_comment=other),
        make_job(2, 1, 1, **known, x_comment=STAMP),
        make_job(3, 1, 1, **known, x_submitline="sbatch -t 5 jobs/t.sh a"),
        make_job(4, 1, 1, **known, x_submitline="sbatch other-t.sh a"),
        make_job(5, 1, 1, **{**known, "user": "bob"}, x_comment=STAMP),
    )
    found = {each.likeness: each.jobs["job_id"].to_list() for each in matches(trace, WORKLOAD)}
    assert found == {
        Likeness.COMMIT: ["2"],
        Likeness.ARGUMENTS: ["2"],
        Likeness.SCRIPT: ["1", "2"],
        Likeness.LINE: ["3"],
        Likeness.NAME: ["1", "2", "3", "4"],
    }
    assert list(found) == list(Likeness)


@pytest.mark.parametrize(("same", "kept"), [(3, 3), (2, 7)])
def test_three_of_the_size_asked_for_are_enough(same: int, kept: int) -> None:
    jobs = [make_job(n, 1, 1, 8 if n < same else 1, user="ann", name="t") for n in range(7)]
    match = next(matches(make_trace(*jobs), WORKLOAD, Share(2, 4)))
    assert (len(match.jobs), match.same_size) == (kept, kept == same)


def test_earlier_runs_of_a_job_have_its_stamp_or_else_its_name() -> None:
    jobs = [make_job(n, 1, 1, user="ann", name="t", x_comment=STAMP if n % 2 else None) for n in range(6)]
    trace = make_trace(*jobs)
    stamped, plain = trace.jobs[5:6], trace.jobs[4:5]
    assert earlier_like(trace, stamped)["job_id"].to_list() == ["2", "4"]
    assert earlier_like(trace, plain)["job_id"].to_list() == ["1", "2", "3", "4"]
