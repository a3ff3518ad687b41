"""Jobs that get more workers as long as these pay."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from presage.connectors import JobStatus
from presage.connectors.simulated import SCALING, WORK, SimulatedConnector
from presage.errors import InputError
from presage.orchestrator.elastic import next_size
from presage.orchestrator.jobs import (
    Elastic,
    Ending,
    ManagedJob,
    Order,
    Phase,
    Place,
    Progress,
    SubJob,
    Unit,
    order_document,
    parse_order,
)
from presage.orchestrator.submissions import submission_of
from presage.traces.schema import Outcome
from tests.orchestrator.conftest import SCRIPT, World

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = Place("sim", walltime_s=600, limit_s=600)
ORDER = Order("train", SCRIPT, (PLACE,), run_folder="/run", elastic=Elastic(1, 8))


def measured(*runs: tuple[int, float], order: Order = ORDER) -> ManagedJob:
    """Return a job whose sub-jobs had so many workers and did so many units in 100 s each."""
    done, sub_jobs = 0.0, []
    for number, (workers, units) in enumerate(runs, 1):
        status = JobStatus(str(number), Outcome.TIMEOUT, start_time=NOW, end_time=NOW + timedelta(seconds=100))
        sub_jobs.append(
            SubJob(
                number, f"k{number}", replace(PLACE, nodes=workers), cluster_job_id=str(number), status=status,
                ending=Ending.CONTINUED, done_before=done, done_after=done + units,
            )
        )  # fmt: skip
        done += units
    return ManagedJob("j", "ann", order, Phase.ACTIVE, NOW, tuple(sub_jobs), Progress(done, 1000, NOW))


@pytest.mark.parametrize(
    ("runs", "workers"),
    [
        ([(1, 10)], 2),  # nothing is known of more: they are tried
        ([(1, 10), (2, 19)], 4),
        ([(1, 10), (2, 11)], 1),  # 1.1 times for twice as many: back
        ([(1, 10), (2, 19), (4, 20)], 2),
        ([(1, 10), (2, 19), (4, 20), (2, 19)], 2),  # and not tried again
        ([(4, 30), (8, 58)], 8),  # no more than it may have
        ([(1, 10), (2, 3), (2, 19), (2, 19)], 4),  # one slow run among three is not believed
    ],
)
def test_more_workers_are_tried_as_long_as_they_pay(runs: list[tuple[int, float]], workers: int) -> None:
    size = next_size(measured(*runs), PLACE)
    assert size is not None
    assert size.workers == workers


def test_what_was_not_measured_changes_nothing() -> None:
    assert next_size(measured(), PLACE) is None
    assert next_size(measured((1, 0)), PLACE) is None  # no progress
    assert next_size(measured((1, 10)), replace(PLACE, partition="other")) is None
    assert next_size(measured((1, 10), order=replace(ORDER, elastic=None)), PLACE) is None


def test_a_job_is_told_how_many_workers_it_has() -> None:
    job = measured(order=replace(ORDER, elastic=Elastic(1, 8, Unit.CORES)))
    submission = submission_of(job, SubJob(1, "k", replace(PLACE, cores=4)))
    assert (submission.environment["PRESAGE_WORKERS"], submission.cores_per_node) == ("4", 4)


def test_bounds_that_make_no_sense_are_refused() -> None:
    for wrong in ({"least": 0, "most": 2}, {"least": 3, "most": 2}, {"least": 1, "most": 2, "efficiency": 0}):
        with pytest.raises(InputError, match="elastic"):
            parse_order({**order_document(ORDER), "elastic": wrong})
    with pytest.raises(InputError, match="did you mean 'most'"):
        parse_order({**order_document(ORDER), "elastic": {"least": 1, "most": 2, "mosst": 2}})


@pytest.mark.parametrize(("scaling", "sizes"), [(0.95, [1, 2, 4, 4]), (0.2, [1, 2, 1, 1])])
def test_a_chain_grows_while_that_pays(world: World, tmp_path: Path, scaling: float, sizes: list[int]) -> None:
    world.cluster = SimulatedConnector(world.folder / "elastic.sqlite", nodes=4, clock=world.seconds)
    world.plane = world.make_plane()
    environment = {WORK: "9000", SCALING: str(scaling)}
    order = replace(ORDER, environment=environment, run_folder=str(tmp_path / "run"), elastic=Elastic(1, 4))
    job = world.store.add("ann", replace(order, signal_before_s=30))
    while len((job := world.store.get(job.job_id)).sub_jobs) < len(sizes) and job.phase is Phase.ACTIVE:
        world.pass_time(40, 40)
    assert [each.place.nodes for each in job.sub_jobs][: len(sizes)] == sizes
    reasons = [each["reason"] for each in world.store.decisions(job.job_id)]
    assert any("with 2 nodes instead of 1" in reason for reason in reasons)


def test_more_workers_that_the_cluster_refuses_are_not_asked_for_again(world: World, tmp_path: Path) -> None:
    world.cluster = SimulatedConnector(tmp_path / "small.sqlite", nodes=3, clock=world.seconds)
    world.plane = world.make_plane()
    environment = {WORK: "3000", SCALING: "1"}
    order = replace(
        ORDER, environment=environment, run_folder=str(tmp_path / "run"), elastic=Elastic(1, 8), signal_before_s=30
    )
    job = world.run_to_the_end(world.store.add("ann", order))
    assert job.phase is Phase.COMPLETED
    assert [each.place.nodes for each in job.sub_jobs if each.ending is Ending.REFUSED] == [4]
