from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from presage.connectors._base import EstimatesStarts, Submission
from presage.errors import ClusterTimeoutError, UsageError
from presage.estimators import Knowledge, Quantity, Spread, UnsupportedError
from presage.estimators.wait import wait_opinions
from presage.estimators.wait.scheduler import SchedulerWait
from presage.estimators.wait.stated import StatedWait
from presage.testing import make_job, make_trace
from tests.estimators.wait.conftest import question


class Scheduler(EstimatesStarts):
    """Says that every job starts in two hours."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[Submission] = []

    def start_estimate(self, submission: Submission) -> datetime | None:
        self.asked.append(submission)
        if self.error:
            raise self.error
        return datetime.now(UTC) + timedelta(hours=2)

    def expected_starts(self, job_ids: Collection[str]) -> dict[str, datetime]:
        return {}


def test_a_stated_wait_is_that_of_the_partition_or_of_its_system() -> None:
    stated = {"here/main": Spread(1, 2, 3), "here": Spread(4, 5, 6), "there": Spread(7, 8, 9)}
    estimator = StatedWait(Knowledge(stated_waits_s=stated))
    assert estimator.estimate(question()).spread == Spread(1, 2, 3)
    assert estimator.estimate(question(partition="other")).spread == Spread(4, 5, 6)
    with pytest.raises(UnsupportedError):
        StatedWait(Knowledge(stated_waits_s={"there": Spread(7, 8, 9)})).estimate(question())


def test_the_schedulers_own_word_is_an_upper_bound_and_says_so() -> None:
    live = Scheduler()
    answer = SchedulerWait(Knowledge(live=live)).estimate(question(cores=6, gpus=2))
    assert answer.spread.p90 == pytest.approx(7200, abs=5)
    assert answer.spread.p50 == pytest.approx(3600, abs=5)
    assert "plans with limits" in answer.notes[0]
    asked = live.asked[0]
    assert (asked.partition, asked.nodes, asked.cores_per_node, asked.gpus_per_node) == ("main", 1, 6, 2)
    assert asked.walltime_s == 3600


def test_a_scheduler_that_does_not_answer_is_no_error() -> None:
    live = Scheduler(ClusterTimeoutError("sbatch did not answer within 60 s\nand more"))
    with pytest.raises(UnsupportedError, match=r"within 60 s\.$"):
        SchedulerWait(Knowledge(live=live)).estimate(question())
    with pytest.raises(UnsupportedError, match="at hand"):
        SchedulerWait(Knowledge(live=object())).estimate(question())


def test_all_opinions_stand_side_by_side() -> None:
    trace = make_trace(*(make_job(100 * n, 5, 50, user="ann", partition="main") for n in range(12)))
    knowledge = Knowledge(history=trace, live=Scheduler(), stated_waits_s={"here": Spread(1, 2, 3)})
    opinions = wait_opinions(question(), knowledge)
    names = [each.estimator for each in opinions.answers]
    assert names[0] == "stated-wait"
    assert {"similar-wait", "scheduler-wait"} < set(names)
    assert opinions.first is opinions.answers[0]
    nobody = wait_opinions(question())
    assert nobody.first is None
    assert set(nobody.declined) >= {"stated-wait", "forecast-wait", "similar-wait", "scheduler-wait"}
    with pytest.raises(UsageError, match="cost"):
        wait_opinions(replace(question(), quantity=Quantity.COST))
