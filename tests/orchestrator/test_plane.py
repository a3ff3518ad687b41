from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from presage.connectors.simulated import EXIT_CODE, MEMORY, SimulatedConnector
from presage.errors import ClusterTimeoutError
from presage.orchestrator.claims import Change
from presage.orchestrator.jobs import Ending, OnOutOfMemory, Phase, Place
from presage.orchestrator.plane import Pace
from presage.traces.schema import Outcome
from tests.orchestrator.conftest import MakeOrder, World

GIB = 1 << 30


def rules_of(world: World, job_id: str) -> list[str]:
    return [decision["rule"] for decision in world.store.decisions(job_id)]


def test_a_short_job_is_submitted_watched_and_done(world: World, make_order: MakeOrder) -> None:
    job = world.run_to_the_end(world.store.add("ann", make_order()))
    assert (job.phase, len(job.sub_jobs)) == (Phase.COMPLETED, 1)
    assert rules_of(world, job.job_id) == ["first", "finish"]
    kinds = [event.kind for event in world.store.events(job_id=job.job_id) if event.kind != "progress"]
    assert kinds == ["handed-over", "decided", "submitted", "ended", "decided", "finished"]


def test_a_run_longer_than_the_limit_becomes_a_chain_that_loses_nothing(
    world: World, make_order: MakeOrder
) -> None:
    job = world.run_to_the_end(world.store.add("ann", make_order(work_s=2000, walltime_s=600)))
    assert job.phase is Phase.COMPLETED
    assert [each.ending for each in job.sub_jobs] == [Ending.CONTINUED] * 3 + [Ending.COMPLETED]
    ran_s = sum(
        (each.status.end_time - each.status.start_time).total_seconds()  # type: ignore[union-attr, operator]
        for each in job.sub_jobs
    )
    assert ran_s == pytest.approx(2000)


def test_the_successor_waits_while_the_job_before_it_runs(
    world: World, make_order: MakeOrder, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    world.plane = world.make_plane(waits=lambda *_: 200.0)
    job = world.store.add("ann", make_order(work_s=1000, walltime_s=600))
    world.pass_time(300)
    assert len(world.store.get(job.job_id).sub_jobs) == 1
    world.pass_time(80)
    first, second = world.store.get(job.job_id).sub_jobs
    assert second.follows == first.cluster_job_id
    done = world.run_to_the_end(job)
    assert (done.phase, len(done.sub_jobs)) == (Phase.COMPLETED, 2)
    assert "overlap" in rules_of(world, job.job_id)


def test_memory_that_does_not_suffice_is_raised_to_the_ceiling_and_no_further(
    world: World, make_order: MakeOrder
) -> None:
    place = {"memory_bytes": 4 * GIB, "most_memory_bytes": 8 * GIB}
    enough = make_order(environment={MEMORY: str(8 * GIB)}, place=place)
    too_much = make_order(environment={MEMORY: str(9 * GIB)}, place=place)
    done = world.run_to_the_end(world.store.add("ann", enough))
    assert done.phase is Phase.COMPLETED
    assert [each.place.memory_bytes for each in done.sub_jobs] == [4 * GIB, 6 * GIB, 8 * GIB]
    failed = world.run_to_the_end(world.store.add("ann", too_much))
    assert failed.phase is Phase.FAILED
    assert "without getting further" in failed.reason or "out-of-memory" in failed.reason


def test_a_bigger_node_or_half_the_batch_where_the_owner_wants_that(world: World, make_order: MakeOrder) -> None:
    order = make_order(
        environment={MEMORY: str(8 * GIB)}, place={"memory_bytes": 4 * GIB, "most_memory_bytes": 4 * GIB},
        on_out_of_memory=OnOutOfMemory.BIGGER_NODE,
    )  # fmt: skip
    large = Place("sim", walltime_s=600, memory_bytes=16 * GIB, most_memory_bytes=16 * GIB)
    moved = order.__class__(**{**order.__dict__, "places": (*order.places, large)})
    done = world.run_to_the_end(world.store.add("ann", moved))
    assert (done.phase, done.sub_jobs[-1].place) == (Phase.COMPLETED, large)
    halved = order.__class__(**{**order.__dict__, "on_out_of_memory": OnOutOfMemory.HALF_BATCH})
    tried = world.run_to_the_end(world.store.add("ann", halved))
    assert [each.batch_divisor for each in tried.sub_jobs] == [1, 2, 4]


@pytest.mark.parametrize("outcome", [Outcome.NODE_FAILURE, Outcome.PREEMPTED])
def test_bad_luck_is_tried_again_from_the_last_checkpoint(
    world: World, make_order: MakeOrder, outcome: Outcome
) -> None:
    job = world.store.add("ann", make_order(work_s=500))
    world.pass_time(200)
    world.cluster.interrupt("1", outcome)
    done = world.run_to_the_end(job)
    assert done.phase is Phase.COMPLETED
    first, second = done.sub_jobs
    assert first.ending is not None
    assert first.ending.value == outcome.value.replace("_", "-")
    assert second.status is not None
    assert second.status.start_time is not None
    assert second.status.end_time is not None
    # 500 s of work, of which the first job saved at least 120 s by a checkpoint each minute.
    assert (second.status.end_time - second.status.start_time).total_seconds() <= 380


def test_a_failure_is_the_end_and_says_why(world: World, make_order: MakeOrder) -> None:
    job = world.run_to_the_end(world.store.add("ann", make_order(environment={EXIT_CODE: "7"})))
    assert job.phase is Phase.FAILED
    assert "exit code 7" in job.reason


def test_a_job_cancelled_on_the_cluster_is_not_submitted_again(world: World, make_order: MakeOrder) -> None:
    job = world.store.add("ann", make_order())
    world.pass_time(60)
    world.cluster.cancel(["1"])
    done = world.run_to_the_end(job)
    assert (done.phase, len(done.sub_jobs)) == (Phase.CANCELLED, 1)
    assert rules_of(world, job.job_id)[-1] == "cancelled-elsewhere"


def test_its_owner_can_stop_a_job_at_any_time(world: World, make_order: MakeOrder) -> None:
    waiting, running = world.store.add("ann", make_order()), world.store.add("ann", make_order())
    world.store.stop(waiting.job_id)
    world.pass_time(50)
    assert world.store.get(waiting.job_id).phase is Phase.CANCELLED
    world.store.stop(running.job_id)
    stopped = world.run_to_the_end(running)
    assert stopped.phase is Phase.CANCELLED
    assert world.cluster.statuses(["1"])["1"].state is Outcome.CANCELLED
    assert world.store.stop(running.job_id).phase is Phase.CANCELLED


def test_what_the_cluster_refuses_fails_with_its_words(world: World, make_order: MakeOrder) -> None:
    job = world.run_to_the_end(world.store.add("ann", make_order(place={"nodes": 99})))
    assert job.phase is Phase.FAILED
    assert "asks the simulated cluster for 99 nodes" in job.reason


class Flaky(SimulatedConnector):
    """Submits, and loses the answer, the first time; then says for a while that it knows nothing."""

    silent = 1
    blind = 1

    def submit(self, submission: Any) -> str:
        job_id = super().submit(submission)
        if self.silent:
            self.silent -= 1
            raise ClusterTimeoutError("no answer")
        return job_id

    def find(self, key: str) -> str | None:
        if self.blind:
            self.blind -= 1
            return None
        return super().find(key)


def test_a_submission_whose_answer_was_lost_is_found_and_not_repeated(world: World, make_order: MakeOrder) -> None:
    flaky = Flaky(world.folder / "cluster.sqlite", clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": flaky})
    job = world.run_to_the_end(world.store.add("ann", make_order()))
    assert job.phase is Phase.COMPLETED
    assert len(flaky.jobs_of_key(job.sub_jobs[0].key)) == 1
    assert "found-again" in [event.kind for event in world.store.events(job_id=job.job_id)]


def test_a_plane_whose_claim_ran_out_changes_nothing(world: World, make_order: MakeOrder) -> None:
    job = world.store.add("ann", make_order())
    (late,) = world.store.claim_jobs("late", lease_s=10)
    world.pass_time(20)
    (other,) = world.store.claim_jobs("other", lease_s=100) or (None,)
    assert world.store.keep([Change(late, late.job, events=(("wrong", {}),))]) == [False]
    assert other is None or other.token != late.token
    assert "wrong" not in [event.kind for event in world.store.events(job_id=job.job_id)]


def test_clusters_are_asked_once_for_all_jobs_and_less_often_when_nothing_happens(
    world: World, make_order: MakeOrder
) -> None:
    asked: list[int] = []

    class Counting(SimulatedConnector):
        def statuses(self, job_ids: Any) -> Any:
            asked.append(len(job_ids))
            return super().statuses(job_ids)

    counting = Counting(world.folder / "cluster.sqlite", nodes=50, clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": counting}, pace=Pace(settle_s=30, most_pause_s=80))
    for _ in range(30):
        world.store.add("ann", make_order(work_s=3600, walltime_s=4000, run_folder=None))
    world.pass_time(3000)
    assert max(asked) == 30
    assert len(asked) < 60  # every 80 s once nothing happens, not once per job and visit
