"""What a job would gain elsewhere, in numbers that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from presage.connectors import JobStatus
from presage.orchestrator.jobs import ManagedJob, Order, Phase, Place, Progress, SubJob
from presage.orchestrator.prospects import RESTART_S, Prospects, done_in_s, prospects_of, still_to_wait_s
from presage.traces.schema import Outcome

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SLOW = Place("sim", "slow", work_s=4000)
FAST = Place("sim", "fast", work_s=1000)
RUNNING = SubJob(
    1, "k", SLOW, cluster_job_id="1",
    status=JobStatus("1", Outcome.RUNNING, start_time=NOW - timedelta(seconds=1000)),
)  # fmt: skip
WAITING = SubJob(1, "k", FAST, cluster_job_id="1", tried_at=NOW)


def prospects(waits_s: dict[str | None, float | None], *sub_jobs: SubJob, **changes: object) -> Prospects:
    order = Order("train", "#!/bin/sh\n", (FAST, SLOW), run_folder="/run", work_s=1000)
    job = ManagedJob("j", "ann", order, Phase.ACTIVE, NOW, sub_jobs)
    return prospects_of(replace(job, **changes), NOW, lambda place: waits_s[place.partition])


def test_a_running_job_works_on_while_it_waits_for_better_nodes() -> None:
    found = prospects({"fast": 600, "slow": 0}, RUNNING)  # 3000 s of work left here
    # For 600 s it goes on here; the other 2400 s are 600 s there.
    assert found.join is not None
    assert found.join.gain_s == 3000 - (600 + 600 + RESTART_S)
    # Ended at once it would wait for 600 s and then do 750 s of work.
    assert found.move is not None
    assert found.move.gain_s == 3000 - (600 + 750 + RESTART_S)
    assert found.move.gain_share == pytest.approx(found.move.gain_s / 3000)


def test_a_running_job_gains_nothing_by_a_wait_as_long_as_its_rest() -> None:
    found = prospects({"fast": 3000, "slow": 0}, RUNNING)
    assert found == Prospects()


def test_measured_progress_counts_more_than_what_was_expected() -> None:
    progress = Progress(95, 100, NOW, per_s=0.1)  # 50 s left
    assert prospects({"fast": 10, "slow": 0}, RUNNING, progress=progress) == Prospects()


def test_a_waiting_job_may_work_elsewhere_meanwhile() -> None:
    found = prospects({"fast": 2060, "slow": 0}, WAITING)
    # 2000 s on the slow nodes are half of the work: 500 s of the 1000 s there are spared.
    assert found.join is not None
    assert found.join.gain_s == (2060 + 1000) - (2060 + 500 + RESTART_S)
    assert found.move is None  # 4000 s there are more than 3060 s here


def test_a_waiting_job_may_be_done_elsewhere_before_it_would_start() -> None:
    found = prospects({"fast": 9000, "slow": 0}, WAITING)
    assert found.join is not None
    assert found.move is not None
    assert found.join.gain_s == found.move.gain_s == 10_000 - 4000


def test_before_its_first_job_the_place_of_the_soonest_end_is_found() -> None:
    found = prospects({"fast": 5000, "slow": 500})
    assert found.move is not None
    assert (found.move.place, found.move.wait_s, found.move.gain_s) == (SLOW, 500, 6000 - 4500)


@pytest.mark.parametrize("waits_s", [{"fast": None, "slow": 0}, {"fast": 9000, "slow": None}])
def test_without_forecasts_nothing_is_said(waits_s: dict[str | None, float | None]) -> None:
    assert prospects(waits_s) == prospects(waits_s, WAITING) == Prospects()


def test_without_any_expectation_waits_alone_are_compared() -> None:
    places = tuple(Place("sim", name, walltime_s=3600) for name in ("one", "two"))
    order = Order("train", "#!/bin/sh\n", places)
    found = prospects({"one": 4000, "two": 400}, order=order)
    assert found.move is not None
    assert (found.move.place.partition, found.move.gain_s) == ("two", 3600)
    assert found.move.gain_share == pytest.approx(3600 / 7600)
    running = replace(RUNNING, place=places[0])
    assert prospects({"one": 0, "two": 0}, running, order=order) == Prospects()


def test_a_chain_waits_only_for_what_does_not_pass_while_it_runs() -> None:
    place = Place("sim", limit_s=1000)
    assert done_in_s(place, 300, 900) == 1200
    assert done_in_s(place, 300, 2500) == 300 + 2500 + 2 * RESTART_S
    assert done_in_s(place, 1400, 2500) == 1400 + 2500 + 2 * (RESTART_S + 400)
    assert done_in_s(place, 0, 2500, limit_left_s=600) == 2500 + 2 * RESTART_S


def test_a_wait_that_was_foretold_too_short_is_believed_less_and_less() -> None:
    for waited_s, still_s in ((0, 600), (200, 400), (600, 300), (2000, 1000)):
        waiting = replace(WAITING, tried_at=NOW - timedelta(seconds=waited_s))
        assert still_to_wait_s(waiting, NOW, 600) == still_s
