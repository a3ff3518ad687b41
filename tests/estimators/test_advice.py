from __future__ import annotations

from typing import Any

import pytest

from presage.clusters.charges import Share
from presage.clusters.systems import Limits, NodeType
from presage.estimators import Knowledge, ScriptWorkload, Target
from presage.estimators.advice import Advice, advise
from presage.estimators.scripts import Asked, stamp_of
from presage.testing import make_job, make_trace

GIB = 1 << 30
HOUR = 3600.0
WORKLOAD = ScriptWorkload("t.sh", (), "ab" * 32, user="ann", name="t")
NODE = NodeType("node", 16, 128 * GIB)


def advised(
    asked: Asked,
    limits: Limits | None = None,
    *,
    runs: int = 19,
    hours: float = 4.0,
    gib: float = 10.0,
    **last: Any,
) -> Advice:
    """What is advised after `runs` equal runs of the script, the last one with other columns."""
    known = {
        "user": "ann", "name": "t", "partition": "main", "outcome": "completed", "limit_s": 1e6, "cpus": 1,
        "x_comment": str(stamp_of(WORKLOAD)), "mem_used_bytes": round(gib * GIB), "mem_req_bytes": 64 * GIB,
    }  # fmt: skip
    jobs = [make_job(n * 1e5, 60, hours * HOUR, **known) for n in range(runs)]
    jobs[-1] = {**jobs[-1], **last}
    target = Target("here", "main", NODE, asked.share, walltime_s=asked.walltime_s)
    return advise(WORKLOAD, asked, target, Knowledge(history=make_trace(*jobs, cpus=64)), limits)


def test_a_generous_request_is_cut_with_the_reason() -> None:
    advice = advised(Asked(walltime_s=24 * HOUR, memory_bytes=64 * GIB))
    assert [(each.option, each.before, each.after) for each in advice.changes] == [
        ("time", 24 * HOUR, 5 * HOUR),
        ("mem", 64 * GIB, 12 * GIB),
    ]
    said = [str(each) for each in advice.changes]
    assert said[0] == (
        "time 1-00:00:00 → 05:00:00, because p95 of 19 earlier runs (same script and arguments) is 4 h"
    )
    assert said[1] == "mem 64 GiB → 12 GiB, because p95 of 19 earlier runs (same script and arguments) is 10 GiB"
    assert advice.after("time") == 5 * HOUR
    assert advice.after("nodes") is None
    assert advice.wait.first is not None
    assert advice.changed_wait is not None
    assert advice.changed_wait.estimator == advice.wait.first.estimator


def test_a_request_that_fits_is_left_alone() -> None:
    assert advised(Asked(walltime_s=5.2 * HOUR, memory_bytes=13 * GIB)).changes == ()
    assert advised(Asked(walltime_s=4.5 * HOUR, memory_bytes=11 * GIB)).changes == ()  # tight, but enough so far


def test_a_request_that_is_too_small_is_raised() -> None:
    advice = advised(Asked(walltime_s=2 * HOUR, memory_bytes=8 * GIB))
    assert [(each.option, each.after) for each in advice.changes] == [("time", 5 * HOUR), ("mem", 12 * GIB)]


def test_nothing_is_raised_above_what_the_partition_gives() -> None:
    limits = Limits(max_walltime_s=3 * HOUR, max_memory_bytes=9 * GIB)
    advice = advised(Asked(walltime_s=2 * HOUR, memory_bytes=8 * GIB), limits)
    assert [(each.option, each.after) for each in advice.changes] == [("time", 3 * HOUR), ("mem", 9 * GIB)]
    at_the_limit = Asked(walltime_s=3 * HOUR, memory_bytes=9 * GIB)
    assert advised(at_the_limit, limits).changes == ()


def test_what_is_not_asked_for_is_measured_by_the_partitions_default() -> None:
    advice = advised(Asked(), Limits(default_walltime_s=48 * HOUR, max_walltime_s=72 * HOUR))
    assert [(each.option, each.before, each.after) for each in advice.changes] == [("time", 48 * HOUR, 5 * HOUR)]
    assert advised(Asked(), Limits(default_walltime_s=5 * HOUR)).changes == ()
    assert advised(Asked()).changes[0].before is None  # nobody knows what the cluster would give


def test_no_limit_becomes_one_and_all_memory_becomes_some() -> None:
    advice = advised(Asked(walltime_s=float("inf"), memory_bytes=0))
    assert [each.words(each.before) for each in advice.changes] == ["no limit", "all of the node"]
    assert [each.as_dict()["before"] for each in advice.changes] == [None, 0.0]


def test_the_memory_of_whole_nodes_is_nobodys_business() -> None:
    assert advised(Asked(walltime_s=5 * HOUR, memory_bytes=64 * GIB, exclusive=True)).changes == ()


def test_a_run_that_was_cut_off_is_a_reason() -> None:
    cut = {"outcome": "timeout", "limit_s": 4 * HOUR}
    advice = advised(Asked(walltime_s=3 * HOUR), runs=20, **cut)
    assert advice.changes[0].after == 6 * HOUR
    assert advice.changes[0].reason.endswith("and 1 of them reached the limit")


def test_few_runs_give_no_advice_and_none_gives_a_reason() -> None:
    assert advised(Asked(walltime_s=24 * HOUR), runs=3).changes == ()
    target = Target("here", "main", NODE, Share(1, 1))
    empty = advise(WORKLOAD, Asked(walltime_s=HOUR), target, Knowledge())
    assert empty.changes == ()
    assert empty.walltime is None
    assert empty.wait.first is None
    assert len(empty.notes) == 2


@pytest.mark.parametrize("option", ["time", "mem"])
def test_advice_is_plain_json(option: str) -> None:
    import json

    document = advised(Asked(walltime_s=24 * HOUR, memory_bytes=64 * GIB)).as_dict()
    assert json.loads(json.dumps(document, allow_nan=False))["changes"]
    assert option in {each["option"] for each in document["changes"]}
