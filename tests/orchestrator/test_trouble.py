"""What may go wrong around a plane, and must stay the trouble of those whom it concerns."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.connectors import JobStatus, Submission
from presage.connectors.simulated import EXIT_CODE, SimulatedConnector, SimulatedPartition
from presage.errors import ClusterBusyError, ClusterTimeoutError, ClusterUnreachableError
from presage.orchestrator.actions import Action
from presage.orchestrator.jobs import Ending, Phase, Place
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.rules import Rule, Rules, load_rules
from presage.traces.schema import Outcome
from tests.orchestrator.conftest import MakeOrder, World


def kinds_of(world: World, job_id: str) -> list[str]:
    return [event.kind for event in world.store.events(job_id=job_id)]


class Broken(SimulatedConnector):
    """Fails on jobs of one name as only a mistake in a program does."""

    def submit(self, submission: Submission) -> str:
        if submission.name == "poison":
            raise ValueError("a mistake")
        return super().submit(submission)


def test_a_job_that_cannot_be_attended_to_is_nobody_else_s_trouble(world: World, make_order: MakeOrder) -> None:
    world.plane = world.make_plane(connectors={"sim": Broken(world.folder / "c.sqlite", clock=world.seconds)})
    poison = world.store.add("ann", make_order(name="poison", run_folder=None))
    others = [world.store.add("ann", make_order(run_folder=None)) for _ in range(3)]
    world.pass_time(3600)
    assert [world.store.get(job.job_id).phase for job in others] == [Phase.COMPLETED] * 3
    assert world.store.get(poison.job_id).reason == "the plane failed: ValueError"
    assert kinds_of(world, poison.job_id).count("not-attended-to") <= 2
    world.store.stop(poison.job_id)
    assert world.run_to_the_end(poison).phase is Phase.CANCELLED


class Silent(SimulatedConnector):
    """Answers nothing while it is silent."""

    is_silent = False
    calls = 0

    def _listen(self) -> None:
        self.calls += 1
        if self.is_silent:
            raise ClusterTimeoutError("no answer within 60 s")

    def submit(self, submission: Submission) -> str:
        self._listen()
        return super().submit(submission)

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        self._listen()
        return super().statuses(job_ids)

    def find(self, key: str) -> str | None:
        self._listen()
        return super().find(key)


def test_a_cluster_that_is_silent_for_a_day_is_said_once_and_hardly_asked(
    world: World, make_order: MakeOrder
) -> None:
    silent = Silent(world.folder / "c.sqlite", nodes=50, clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": silent})
    silent.is_silent = True
    jobs = [world.store.add("ann", make_order(run_folder=None)) for _ in range(20)]
    world.pass_time(86_400, step_s=300)
    for job in jobs:
        assert len(kinds_of(world, job.job_id)) <= 5
        assert "no answer" in world.store.get(job.job_id).reason
    assert silent.calls <= 2 * 86_400 / 300  # once, not for each job, in each of the steps
    silent.is_silent = False
    world.pass_time(1000)
    assert [world.store.get(job.job_id).phase for job in jobs] == [Phase.COMPLETED] * 20
    assert all(len(silent.jobs_of_key(world.store.get(job.job_id).sub_jobs[0].key)) == 1 for job in jobs)


def test_a_job_of_an_unknown_cluster_waits_for_a_plane_that_knows_it(world: World, make_order: MakeOrder) -> None:
    world.plane = world.make_plane(connectors={})
    job = world.store.add("ann", make_order())
    world.pass_time(600)
    waiting = world.store.get(job.job_id)
    assert (waiting.phase, waiting.sub_jobs) == (Phase.ACTIVE, ())
    assert "knows the cluster 'sim'" in waiting.reason
    assert kinds_of(world, job.job_id).count("cluster-unknown") == 1
    world.plane = world.make_plane()
    assert world.run_to_the_end(job).phase is Phase.COMPLETED


def test_a_cluster_that_is_not_configured_any_more_loses_no_job(world: World, make_order: MakeOrder) -> None:
    job = world.store.add("ann", make_order(work_s=500))
    world.pass_time(60)
    world.plane = world.make_plane(connectors={})
    world.pass_time(600)
    world.store.stop(job.job_id)
    world.pass_time(600)
    assert world.store.get(job.job_id).phase is Phase.STOPPING
    world.plane = world.make_plane()
    assert world.run_to_the_end(job).phase is Phase.COMPLETED  # which it had done long before


@pytest.mark.parametrize("advice", [ValueError("a mistake"), "nonsense", ("explode", "why"), (1, 2, 3)])
def test_a_rule_of_another_package_that_fails_is_passed_over(
    world: World, make_order: MakeOrder, advice: Any
) -> None:
    def advise(_: dict[str, Any]) -> Any:
        if isinstance(advice, Exception):
            raise advice
        return advice

    world.plane = world.make_plane(rules=Rules(load_rules().table, (("theirs", advise),)))
    assert world.run_to_the_end(world.store.add("ann", make_order())).phase is Phase.COMPLETED


@pytest.mark.parametrize("action", [each for each in Action if each not in ("finish", "fail", "stop", "wait")])
def test_a_rule_that_always_asks_for_the_same_comes_to_an_end(
    world: World, make_order: MakeOrder, action: Action
) -> None:
    rules = Rules((Rule("always", {"sub_jobs": ">0"}, action, "always"), *load_rules().table))
    world.plane = world.make_plane(rules=rules)
    job = world.store.add("ann", make_order(work_s=50, most_sub_jobs=4))
    world.pass_time(900, step_s=20)
    job = world.store.get(job.job_id)
    assert job.phase is Phase.FAILED
    assert len(job.sub_jobs) <= 4
    assert len(world.store.decisions(job.job_id)) <= 6


def test_a_forecast_that_fails_keeps_no_job(world: World, make_order: MakeOrder) -> None:
    for waits in (lambda *_: 1 / 0, lambda *_: float("nan"), lambda *_: None):
        world.plane = world.make_plane(waits=waits)
        job = world.run_to_the_end(world.store.add("ann", make_order(work_s=900)))
        assert job.phase is Phase.COMPLETED


def test_a_job_that_was_refused_waits_in_peace_at_the_next_place(world: World, make_order: MakeOrder) -> None:
    partitions = {"open": SimulatedPartition(nodes=1)}
    cluster = SimulatedConnector(world.folder / "c.sqlite", partitions=partitions, clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": cluster})
    first = world.store.add("ann", make_order(work_s=500, run_folder=None))
    places = tuple(Place("sim", name, walltime_s=600) for name in ("closed", "open"))
    world.pass_time(20)
    second = world.store.add("ann", replace(make_order(run_folder=None), places=places))
    assert world.run_to_the_end(first).phase is Phase.COMPLETED
    done = world.run_to_the_end(second)
    assert (done.phase, [each.place.partition for each in done.sub_jobs]) == (Phase.COMPLETED, ["closed", "open"])


def test_all_places_are_tried_before_a_refused_job_is_given_up(world: World, make_order: MakeOrder) -> None:
    places = tuple(Place("sim", f"p{number}", nodes=99) for number in range(5))
    job = world.run_to_the_end(world.store.add("ann", replace(make_order(), places=places)))
    assert (job.phase, len(job.sub_jobs)) == (Phase.FAILED, 5)


def test_a_successor_that_its_owner_cancelled_is_not_submitted_again(world: World, make_order: MakeOrder) -> None:
    world.plane = world.make_plane(waits=lambda *_: 200.0)
    long = world.store.add("ann", make_order(work_s=1000))
    world.pass_time(400)
    assert len(world.store.get(long.job_id).sub_jobs) == 2
    world.cluster.cancel(["2"])
    done = world.run_to_the_end(long)
    assert (done.phase, len(done.sub_jobs)) == (Phase.CANCELLED, 2)


def test_work_that_is_done_is_done_whatever_became_of_the_successor(world: World, make_order: MakeOrder) -> None:
    world.plane = world.make_plane(waits=lambda *_: 400.0)
    job = world.store.add("ann", make_order(work_s=560, work_expected_s=700))
    world.pass_time(200)
    world.cluster.cancel(["2"])
    assert world.run_to_the_end(job).phase is Phase.COMPLETED


def test_a_job_that_was_stopped_before_it_was_submitted_never_is(world: World, make_order: MakeOrder) -> None:
    job = world.store.add("ann", make_order())

    def stop_first(_: Any) -> None:
        world.store.stop(job.job_id)

    world.plane = world.make_plane(rules=replace(load_rules(), advisors=(("stop", stop_first),)))
    world.pass_time(100)
    assert world.store.get(job.job_id).phase is Phase.CANCELLED
    assert world.cluster.statuses(["1"]) == {}


class Slow(SimulatedConnector):
    """Takes a minute to take a job."""

    world: World
    other: Plane

    def submit(self, submission: Submission) -> str:
        for _ in range(6):
            self.world.now += timedelta(seconds=10)
            self.other.step()
        return super().submit(submission)


def test_others_do_not_take_over_while_a_slow_cluster_takes_many_jobs(world: World, make_order: MakeOrder) -> None:
    slow = Slow(world.folder / "c.sqlite", nodes=50, clock=world.seconds)
    slow.world = world
    pace = Pace(lease_s=90, settle_s=0)
    quick = SimulatedConnector(slow.file, clock=world.seconds)
    slow.other = world.make_plane(connectors={"sim": quick}, pace=pace, name="other")
    world.plane = world.make_plane(connectors={"sim": slow}, pace=pace)
    jobs = [world.store.add("ann", make_order(run_folder=None)) for _ in range(10)]
    for job in jobs:
        done = world.run_to_the_end(job)
        assert done.phase is Phase.COMPLETED
        assert len(slow.jobs_of_key(done.sub_jobs[0].key)) == 1


class Forgetful(SimulatedConnector):
    """Knows nothing of its jobs while it is forgetful, and cancels them all the same."""

    is_forgetful = False

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        return {} if self.is_forgetful else super().statuses(job_ids)

    def find(self, key: str) -> str | None:
        return None if self.is_forgetful else super().find(key)


def test_a_job_that_the_cluster_forgot_never_runs_beside_its_successor(
    world: World, make_order: MakeOrder
) -> None:
    cluster = Forgetful(world.folder / "c.sqlite", clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": cluster})
    job = world.store.add("ann", make_order(work_s=500))
    world.pass_time(100)
    cluster.is_forgetful = True
    while len(world.store.get(job.job_id).sub_jobs) == 1:
        world.pass_time(10)
    cluster.is_forgetful = False
    done = world.run_to_the_end(job)
    assert (done.phase, done.sub_jobs[0].ending) == (Phase.COMPLETED, Ending.LOST)
    assert cluster.statuses(["1"])["1"].state is Outcome.CANCELLED


def test_a_moment_of_forgetting_is_forgiven(world: World, make_order: MakeOrder) -> None:
    cluster = Forgetful(world.folder / "c.sqlite", clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": cluster})
    job = world.store.add("ann", make_order(work_s=500))
    world.pass_time(100)
    cluster.is_forgetful = True
    world.pass_time(10)
    cluster.is_forgetful = False
    done = world.run_to_the_end(job)
    assert (done.phase, len(done.sub_jobs)) == (Phase.COMPLETED, 1)


def test_a_successor_that_never_arrived_is_not_submitted_when_all_is_done(
    world: World, make_order: MakeOrder
) -> None:
    class NoSecond(SimulatedConnector):
        submitted = 0

        def submit(self, submission: Submission) -> str:
            self.submitted += 1
            if self.submitted > 1:
                raise ClusterUnreachableError("nobody answers")
            return super().submit(submission)

    cluster = NoSecond(world.folder / "c.sqlite", clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": cluster}, waits=lambda *_: 500.0, pace=Pace(settle_s=600))
    done = world.run_to_the_end(world.store.add("ann", make_order(work_s=580, work_expected_s=700)))
    assert done.phase is Phase.COMPLETED
    assert cluster.submitted == 2


def test_a_plane_that_is_told_to_stop_gives_back_what_it_holds(world: World, make_order: MakeOrder) -> None:
    stop = threading.Event()

    class Stopping(SimulatedConnector):
        def submit(self, submission: Submission) -> str:
            stop.set()
            return super().submit(submission)

    world.plane = world.make_plane(connectors={"sim": Stopping(world.cluster.file, clock=world.seconds)})
    jobs = [world.store.add("ann", make_order(run_folder=None)) for _ in range(5)]
    world.plane.run(stop)
    assert len(world.store.claim_jobs("other", 10)) == 4
    assert [job.state for job in world.store.jobs()].count("queued") == 1
    assert len(jobs) == 5


@pytest.mark.parametrize("kind", ["file", "pipe", "folder", "unreadable"])
def test_a_run_folder_that_is_none_keeps_no_job(
    world: World, make_order: MakeOrder, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "run"
    if kind == "file":
        folder.write_text("not a folder")
    else:
        folder.mkdir()
    if kind == "pipe":
        os.mkfifo(folder / "events.jsonl")
        os.mkfifo(folder / "output-1.txt")
    if kind == "folder":
        (folder / "events.jsonl").mkdir()
    if kind == "unreadable":
        (folder / "events.jsonl").symlink_to("/dev/zero")
    job = world.store.add("ann", make_order(environment={EXIT_CODE: "1"}))
    assert world.run_to_the_end(job).phase is Phase.FAILED


class Full(SimulatedConnector):
    """Takes no job until it has room, and counts who asked."""

    has_room = False
    asked = 0

    def submit(self, submission: Submission) -> str:
        self.asked += 1
        if not self.has_room:
            raise ClusterBusyError("you have as many jobs as you may have")
        return super().submit(submission)


def test_a_cluster_that_takes_no_more_for_now_is_asked_again_by_one_job_on_behalf_of_all(
    world: World, make_order: MakeOrder, tmp_path: Path
) -> None:
    cluster = Full(tmp_path / "full.sqlite", nodes=50, clock=world.seconds)
    world.plane = world.make_plane(connectors={"sim": cluster})
    jobs = [world.store.add("ann", make_order(run_folder=None, work_s=100)) for _ in range(20)]
    world.pass_time(600)
    assert cluster.asked < 40  # every minute or so by one, not every ten seconds by each
    assert {world.store.get(job.job_id).phase for job in jobs} == {Phase.ACTIVE}
    kinds = [event.kind for event in world.store.events(job_id=jobs[0].job_id)]
    assert kinds.count("cluster-full") == 1
    cluster.has_room = True
    for job in jobs:
        done = world.run_to_the_end(job, 400)
        assert (done.phase, len(done.sub_jobs)) == (Phase.COMPLETED, 1)


def test_a_job_that_a_cluster_had_no_room_for_is_not_looked_for(
    world: World, make_order: MakeOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Full(tmp_path / "full.sqlite", clock=world.seconds)
    looked_for: list[str] = []
    monkeypatch.setattr(cluster, "find", looked_for.append)
    world.plane = world.make_plane(connectors={"sim": cluster})
    job = world.store.add("ann", make_order(work_s=100))
    world.pass_time(300)
    cluster.has_room = True
    assert world.run_to_the_end(job, 400).phase is Phase.COMPLETED
    assert looked_for == []
