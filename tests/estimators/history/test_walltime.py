from __future__ import annotations

from typing import Any

import pytest

from presage.clusters.charges import Share
from presage.clusters.systems import NodeType
from presage.estimators import (
    Estimate,
    EstimateRequest,
    Knowledge,
    Quantity,
    ScriptWorkload,
    Target,
    TrainingWorkload,
    UnsupportedError,
)
from presage.estimators.history import walltime
from presage.estimators.history.limits import advised_limit_s, rounded_limit_s
from presage.estimators.history.walltime import HistoryWalltime
from presage.estimators.scripts import stamp_of
from presage.testing import make_job, make_trace
from presage.traces import Trace

DIGEST = "ab" * 32
WORKLOAD = ScriptWorkload("train.sbatch", ("--lr", "0.1"), DIGEST, user="ann", name="train", walltime_s=86_400)
TARGET = Target("here", "main", NodeType("n", 8, 1 << 34), Share(1, 4), walltime_s=86_400)


def run(number: int, run_s: float, workload: ScriptWorkload | None = WORKLOAD, **columns: Any) -> dict[str, Any]:
    """A job of ann's, with the stamp of a workload in its comment."""
    comment = None if workload is None else f"presage:key=k{number} {stamp_of(workload)}"
    known = {
        "user": "ann", "name": "train", "partition": "main", "outcome": "completed", "limit_s": 86_400.0,
        "x_comment": comment, "cpus": 4,
    }  # fmt: skip
    return make_job(number * 100_000, 60, run_s, **{**known, **columns})


def asked(trace: Trace | None, workload: Any = WORKLOAD, target: Target | None = TARGET) -> Estimate:
    return HistoryWalltime(Knowledge(history=trace)).estimate(EstimateRequest(Quantity.WALLTIME, workload, target))


def test_the_same_script_and_arguments_come_before_everything_else() -> None:
    other_arguments = ScriptWorkload("train.sbatch", ("--lr", "9"), DIGEST, user="ann")
    own = [run(n, 1000 + 100 * n) for n in range(9)]
    trace = make_trace(*own, *(run(20 + n, 50_000, other_arguments) for n in range(9)), run(40, 3.0, None))
    answer = asked(trace)
    assert answer.details["level"] == "same script and arguments"
    assert answer.details["runs"] == 9
    assert answer.spread.as_dict() == {"p10": 1000, "p50": 1400, "p90": 1800}  # order statistics of nine
    assert "9 earlier runs" in answer.notes[0]


def test_without_runs_of_the_same_arguments_the_script_counts() -> None:
    answer = asked(make_trace(run(1, 500, ScriptWorkload("x", ("other",), DIGEST))))
    assert answer.details["level"] == "same script"
    assert answer.spread.p50 == 500


def test_the_stamp_is_also_found_in_the_submit_line() -> None:
    line = f"sbatch --comment=presage:key=1 {stamp_of(WORKLOAD)} /tmp/presage-x/script --lr 0.1"
    trace = make_trace(run(1, 500, None, x_submitline=line, name="other"))
    assert asked(trace).details["level"] == "same script and arguments"


def test_jobs_submitted_without_presage_are_known_by_their_submit_line() -> None:
    lines = {1: "sbatch -t 1 /home/ann/train.sbatch --lr 0.1", 2: "sbatch train.sbatch --lr 0.2"}
    trace = make_trace(*(run(n, 100.0 * n, None, x_submitline=line, name="q") for n, line in lines.items()))
    answer = asked(trace)
    assert (answer.details["level"], answer.details["runs"], answer.spread.p50) == ("same submit line", 1, 100)


def test_other_peoples_jobs_do_not_count() -> None:
    with pytest.raises(UnsupportedError):
        asked(make_trace(run(1, 500, user="bob")), target=None)


def test_failed_and_cancelled_runs_tell_nothing() -> None:
    ends = ("failed", "cancelled", "node_failure", "completed")
    answer = asked(make_trace(*(run(n, 10.0**n, outcome=end) for n, end in enumerate(ends, 1))))
    assert (answer.details["runs"], answer.spread.p50) == (1, 10_000)


def test_a_limit_is_advised_from_five_runs_on() -> None:
    few = asked(make_trace(*(run(n, 3600) for n in range(4))))
    assert few.details["suggested_s"] is None
    assert any("Too few" in note for note in few.notes)
    # 19 runs of 1 to 19 hours: p95 is the longest, and 1.25 times that is 23.75 h, rounded up to 24.
    enough = asked(make_trace(*(run(n, 3600.0 * n) for n in range(1, 20))))
    assert enough.details["p95_s"] == 19 * 3600
    assert enough.details["suggested_s"] == 24 * 3600


def test_runs_that_reached_their_limit_ask_for_more() -> None:
    cut_off = run(0, 7200, outcome="timeout", limit_s=7200.0)
    answer = asked(make_trace(cut_off, *(run(n, 3600) for n in range(1, 20))))
    assert answer.details["timeouts"] == 1
    assert answer.details["suggested_s"] == 3 * 3600  # half as long again
    assert any("reached the limit" in note for note in answer.notes)


def test_a_limit_is_as_much_longer_as_the_rule_was_too_short() -> None:
    hour = 3600.0
    steady = [hour] * 30
    assert advised_limit_s(steady) == 4500  # 1.25 hours
    before = advised_limit_s(steady[:5])
    assert before is not None
    assert before < 5 * hour
    # The sixth, five times as long, would have been ended: the next gets that much more than 1.25 times 5 hours.
    after = advised_limit_s([*steady[:5], 5 * hour])
    assert after is not None
    assert after > 1.25 * 5 * hour
    # What happened once in 60 runs is forgotten again, but for the longest run itself: 1.1 times 1.5 hours.
    assert advised_limit_s([*steady[:5], 1.5 * hour, *steady, *steady]) == 6300


def test_runs_of_the_size_asked_for_are_preferred() -> None:
    small = [run(n, 100, cpus=1) for n in range(5)]
    answer = asked(make_trace(*small, *(run(10 + n, 9000) for n in range(3))))
    assert (answer.details["runs"], answer.spread.p50) == (3, 9000)
    answer = asked(make_trace(*small))
    assert answer.details["runs"] == 5
    assert any("another number" in note for note in answer.notes)


def test_a_name_counts_where_it_says_something() -> None:
    trace = make_trace(*(run(n, 700, None) for n in range(5)))
    assert asked(trace).details["level"] == "same name"
    nameless = ScriptWorkload("x", user="ann", name="bash")
    bash = make_trace(*(run(n, 700, None, name="bash") for n in range(5)))
    assert asked(bash, nameless, None).details["level"] == "last two"


def test_without_its_own_past_the_model_is_asked() -> None:
    pytest.importorskip("numba")
    others = [run(n, 1000 + n, None, name=f"job{n}") for n in range(40)]
    answer = asked(make_trace(*others, cpus=64), ScriptWorkload("x", user="ann", name="new"))
    assert answer.details["level"] == "model"
    assert 300 < answer.spread.p50 < 3000  # all of the user's runs took about 1,000 s
    assert answer.details["suggested_s"] is None
    assert "40 jobs of the user" in answer.notes[1]


def test_without_the_model_the_last_two_runs_of_the_user_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from presage.errors import MissingDependencyError
    from presage.foundation import requirements

    def missing() -> None:
        raise MissingDependencyError("numba", extra="forecast", purpose="Forecasting")

    monkeypatch.setattr(requirements, "require_numba", missing)
    runs = [run(n, length, None, name=f"job{n}") for n, length in enumerate([9.0, 100.0, 300.0])]
    answer = asked(make_trace(*runs), ScriptWorkload("x", user="ann", name="new"))
    assert answer.details["level"] == "last two"
    assert answer.spread.as_dict() == {"p10": 50, "p50": 200, "p90": 800}
    assert "numba" in answer.notes[0]


def test_last_two_is_as_wide_as_it_was_wrong_before() -> None:
    # Each run is twice the mean of the two before it, or half of it: nine ratios, five of 2 and four of 1/2.
    runs = [100.0, 100.0]
    for number in range(9):
        runs.append((runs[-2] + runs[-1]) / 2 * (2 if number % 2 == 0 else 0.5))
    spread = walltime._around_last_two(1000, runs)
    assert (spread.p10, spread.p50, spread.p90) == pytest.approx((500, 1000, 2000))


@pytest.mark.parametrize(
    ("seconds", "limit_s"), [(1, 60), (61, 120), (601, 900), (3601, 4500), (14401, 18000), (100_000, 100_800)]
)
def test_limits_are_such_as_people_write(seconds: float, limit_s: float) -> None:
    assert rounded_limit_s(seconds) == limit_s


def test_it_says_why_it_has_no_answer() -> None:
    with pytest.raises(UnsupportedError, match="training of a network"):
        asked(make_trace(run(1, 1)), TrainingWorkload("m", ((3,),)))
    with pytest.raises(UnsupportedError, match="No earlier jobs"):
        asked(None)
