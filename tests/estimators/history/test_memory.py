from __future__ import annotations

from typing import Any

import pytest

from presage.estimators import EstimateRequest, Knowledge, Quantity, ScriptWorkload, UnsupportedError
from presage.estimators.history.memory import HistoryMemory, rounded_bytes
from presage.estimators.scripts import stamp_of
from presage.testing import make_job, make_trace

GIB = 1 << 30
OLD = ScriptWorkload("t.sh", ("a",), "ab" * 32, commit="1" * 40, user="ann", name="t")
NEW = ScriptWorkload("t.sh", ("a",), "ab" * 32, commit="2" * 40, user="ann", name="t")


def run(number: int, gib: float | None, workload: ScriptWorkload = NEW, **columns: Any) -> dict[str, Any]:
    known = {
        "user": "ann", "name": "t", "outcome": "completed", "x_comment": str(stamp_of(workload)),
        "mem_used_bytes": None if gib is None else round(gib * GIB), "mem_req_bytes": 64 * GIB,
    }  # fmt: skip
    return make_job(number * 1000, 1, 100, **{**known, **columns})


def asked(*jobs: dict[str, Any], workload: ScriptWorkload = NEW) -> Any:
    request = EstimateRequest(Quantity.MEMORY, workload)
    return HistoryMemory(Knowledge(history=make_trace(*jobs))).estimate(request)


def test_the_same_commit_comes_first_then_the_same_call() -> None:
    both = [run(1, 40, OLD), run(2, 10), run(3, 12)]
    answer = asked(*both)
    assert (answer.details["level"], answer.details["runs"]) == ("same script, arguments and commit", 2)
    assert answer.spread.p50 == 11 * GIB
    assert asked(run(1, 40, OLD)).details["level"] == "same script and arguments"


def test_the_suggestion_is_p95_with_headroom_in_round_numbers() -> None:
    answer = asked(*(run(n, n) for n in range(1, 20)))
    assert answer.spread.as_dict() == {"p10": 2 * GIB, "p50": 10 * GIB, "p90": 18 * GIB}
    assert answer.details["p95_bytes"] == 19 * GIB
    assert answer.details["suggested_bytes"] == 23 * GIB  # 19 x 1.2 is 22.8
    assert any(note.startswith("Lower bounds") for note in answer.notes)


def test_a_job_that_ran_out_of_memory_asks_for_more() -> None:
    runs = [run(n, 4) for n in range(25)]
    killed = run(30, 8, outcome="out_of_memory", mem_req_bytes=8 * GIB)
    disguised = run(31, 8.1, outcome="failed", mem_req_bytes=8 * GIB)
    failed = run(32, 100, outcome="failed", mem_req_bytes=128 * GIB)  # of something else
    answer = asked(*runs, killed, disguised, failed)
    assert (answer.details["runs"], answer.details["out_of_memory"]) == (27, 2)
    assert answer.details["suggested_bytes"] == 13 * GIB  # 8.1 x 1.5 is 12.15


def test_less_is_not_advised_where_only_the_largest_of_several_tasks_is_known() -> None:
    several = [run(n, 4, tasks=16, nodes_alloc=2) for n in range(9)]
    assert asked(*several).details["suggested_bytes"] is None
    one_a_node = [run(n, 4, tasks=2, nodes_alloc=2) for n in range(9)]
    assert asked(*one_a_node).details["suggested_bytes"] is not None


@pytest.mark.parametrize(("gib", "rounded"), [(0.01, 0.0625), (1.01, 1.25), (4.01, 5), (64.5, 72), (0.99, 1)])
def test_amounts_are_such_as_people_write(gib: float, rounded: float) -> None:
    assert rounded_bytes(gib * GIB) == rounded * GIB


def test_without_a_measured_run_there_is_no_answer() -> None:
    with pytest.raises(UnsupportedError, match="memory it used"):
        asked(run(1, None), run(2, 0))
