"""Jobs that do better elsewhere: begun there, joined there, moved there; and never at work twice at once."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.client.run import EXIT_TO_BE_CONTINUED
from presage.connectors._base import JobStatus, Submission
from presage.connectors.simulated import MEMORY, WORK, SimulatedConnector, SimulatedPartition
from presage.errors import ClusterBusyError
from presage.orchestrator.actions import Action, next_sub_job
from presage.orchestrator.holding import hold, let_go, script_that_holds
from presage.orchestrator.jobs import FINAL, Ending, ManagedJob, Order, Phase, Place, SubJob
from presage.orchestrator.plane import Pace
from presage.orchestrator.rules import Decision
from presage.orchestrator.submissions import submission_of
from presage.traces.schema import Outcome
from tests.orchestrator.conftest import BEGIN, SCRIPT, World

HOUR_S = 3600.0
FAST = Place("sim", "fast", walltime_s=4 * HOUR_S, limit_s=4 * HOUR_S, work_s=HOUR_S)
SLOW = Place("sim", "slow", walltime_s=8 * HOUR_S, limit_s=8 * HOUR_S, work_s=4 * HOUR_S)
WORK_S = 4 * HOUR_S
STEP_S = 100.0
PARTITIONS = {"fast": SimulatedPartition(nodes=1, speed=4.0), "slow": SimulatedPartition(nodes=1)}


class Site:
    """A fast partition and a slow one, of which the fast one is busy for a while with somebody else's job."""

    def __init__(self, world: World, busy_s: float) -> None:
        self.world = world
        world.cluster = SimulatedConnector(
            world.folder / "site.sqlite", partitions=PARTITIONS, clock=world.seconds
        )
        world.plane = world.make_plane(waits=self.wait_s, pace=Pace(settle_s=30, most_pause_s=30))
        self.free_at = world.now + timedelta(seconds=busy_s)
        other = Order("other", SCRIPT, (replace(FAST, walltime_s=busy_s),), environment={WORK: str(8 * busy_s)})
        self.other = world.store.add("bob", other)
        world.pass_time(20)

    def wait_s(self, _: ManagedJob, place: Place) -> float:
        return 0.0 if place.partition == "slow" else max(0.0, (self.free_at - self.world.now).total_seconds())

    def free_up(self) -> None:
        """Have the other job end now."""
        self.world.store.stop(self.other.job_id)
        self.free_at = self.world.now

    def hand_over(self, folder: Path, **changes: Any) -> ManagedJob:
        order = Order(
            "train", SCRIPT, (FAST, SLOW), environment={WORK: str(WORK_S)}, run_folder=str(folder / "run"),
            signal_before_s=30, work_s=FAST.work_s,
        )  # fmt: skip
        return self.world.store.add("ann", replace(order, **changes))

    def pass_time(self, job: ManagedJob, seconds: float) -> ManagedJob:
        """Let time pass, until the job has ended at the latest; two jobs of it never work at once."""
        until = self.world.now + timedelta(seconds=seconds)
        while self.world.now < until and (job := self.world.store.get(job.job_id)).phase not in FINAL:
            self.world.pass_time(STEP_S, STEP_S)
            assert len(self.at_work(job)) <= 1
        return job

    def run(self, job: ManagedJob) -> ManagedJob:
        job = self.pass_time(job, 2 * 24 * HOUR_S)
        assert job.phase is Phase.COMPLETED
        return job

    def at_work(self, job: ManagedJob) -> list[str]:
        with sqlite3.connect(self.world.cluster.file) as state:
            wanted = "SELECT key FROM jobs WHERE state = 'running' AND speed > 0 AND key LIKE ?"
            found = [row[0] for row in state.execute(wanted, (f"presage-{job.job_id}-%",))]
        state.close()
        return found

    def took_s(self, job: ManagedJob) -> float:
        return (self.world.now - job.created_at).total_seconds()

    def rules(self, job: ManagedJob) -> list[str]:
        return [each["rule"] for each in self.world.store.decisions(job.job_id)]


def ways(job: ManagedJob) -> list[tuple[str | None, Ending | None]]:
    return [(each.place.partition, each.ending) for each in job.sub_jobs]


MakeSite = Callable[[float], Site]


@pytest.fixture
def make_site(world: World) -> MakeSite:
    return lambda busy_s: Site(world, busy_s)


def test_a_job_works_on_lesser_nodes_while_it_waits_for_better_ones(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(2 * HOUR_S)
    job = site.run(site.hand_over(tmp_path))
    assert site.rules(job) == ["first", "work-meanwhile", "relieved", "finish"]
    assert ways(job) == [("fast", Ending.COMPLETED), ("slow", Ending.MOVED)]
    # Two hours of the four are done while it waits; the rest takes half an hour instead of a whole one.
    assert site.took_s(job) == pytest.approx(2.5 * HOUR_S, abs=5 * STEP_S)
    assert not list((tmp_path / "run").glob("hold-*"))


def test_a_job_begins_where_it_is_done_sooner_and_moves_when_better_nodes_come_early(
    make_site: MakeSite, tmp_path: Path
) -> None:
    site = make_site(3.5 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path), HOUR_S)
    assert site.rules(job) == ["first-elsewhere"]
    site.free_up()
    job = site.run(job)
    assert site.rules(job) == ["first-elsewhere", "join-queue", "relieved", "finish"]
    assert ways(job) == [("slow", Ending.MOVED), ("fast", Ending.COMPLETED)]
    assert site.took_s(job) == pytest.approx(1.75 * HOUR_S, abs=5 * STEP_S)


def test_a_job_that_cannot_hold_is_moved_from_queue_and_nodes_when_much_is_gained(
    make_site: MakeSite, tmp_path: Path
) -> None:
    site = make_site(2 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path, script="#!/usr/bin/env python3\n"), 600)
    assert site.rules(job) == ["first"]
    site.free_at += timedelta(hours=8)
    job = site.pass_time(job, HOUR_S)
    assert site.rules(job) == ["first", "move-waiting", "moved"]
    site.free_up()
    job = site.run(job)
    assert site.rules(job) == ["first", "move-waiting", "moved", "move-running", "moved", "finish"]
    assert ways(job) == [("fast", Ending.MOVED), ("slow", Ending.MOVED), ("fast", Ending.COMPLETED)]


def test_a_chain_goes_on_where_it_is_done_sooner(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(3.7 * HOUR_S)
    short = replace(SLOW, walltime_s=1800, limit_s=1800)
    job = site.pass_time(site.hand_over(tmp_path, places=(short, FAST), work_s=None), 1500)
    assert site.rules(job) == ["first"]
    site.world.cluster.interrupt(job.sub_jobs[0].cluster_job_id or "", Outcome.NODE_FAILURE)
    site.free_up()
    job = site.run(job)
    assert site.rules(job) == ["first", "cascade-elsewhere", "finish"]


def test_gains_that_are_small_move_nobody(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(600)
    job = site.run(site.hand_over(tmp_path))
    assert (site.rules(job), ways(job)) == (["first", "finish"], [("fast", Ending.COMPLETED)])


def test_better_nodes_that_come_too_late_are_given_back(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(2 * HOUR_S)
    free_at, site.free_at = site.free_at, site.world.now  # so that it goes there at first
    hardly_faster = replace(FAST, work_s=3.99 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path, places=(hardly_faster, SLOW)), STEP_S)
    site.free_at = free_at
    job = site.run(job)
    assert site.rules(job) == ["first", "work-meanwhile", "relief-too-late", "finish"]
    assert ways(job) == [("fast", Ending.CANCELLED), ("slow", Ending.COMPLETED)]


def test_a_job_that_is_stopped_while_it_is_in_two_places_leaves_both(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(2 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path), 900)
    assert len([each for each in job.sub_jobs if each.ending is None]) == 2
    site.world.store.stop(job.job_id)
    site.world.pass_time(200, STEP_S)
    assert site.world.store.get(job.job_id).phase is Phase.CANCELLED
    assert site.at_work(job) == []


def test_what_was_learned_about_memory_is_not_forgotten_elsewhere(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(3.5 * HOUR_S)
    places = tuple(replace(each, memory_bytes=1 << 30, most_memory_bytes=8 << 30) for each in (FAST, SLOW))
    needs = {WORK: str(WORK_S), MEMORY: str(2 << 30)}
    job = site.pass_time(site.hand_over(tmp_path, places=places, environment=needs), HOUR_S)
    site.free_up()
    job = site.run(job)
    assert site.rules(job).count("memory-more") == 2
    assert job.sub_jobs[-1].place.partition == "fast"


def test_the_lines_that_hold_come_behind_what_the_cluster_reads() -> None:
    order = Order("a", "#!/bin/bash\n#SBATCH -n 1\n\n# mine\necho\n", (FAST, SLOW), run_folder="/run")
    lines = script_that_holds(order).split("\n")
    assert lines[:4] == ["#!/bin/bash", "#SBATCH -n 1", "", "# mine"]
    assert lines[5].startswith("while [ -e")
    assert lines[6:] == ["echo", ""]
    for unfit in (replace(order, places=(FAST,)), replace(order, run_folder=None)):
        assert script_that_holds(unfit) == order.script
    python = replace(order, script="#!/usr/bin/env python3\nprint()\n")
    assert script_that_holds(python) == python.script


def test_a_real_shell_holds_until_the_file_is_gone(tmp_path: Path) -> None:
    order = Order("a", "#!/bin/sh\n#SBATCH -n 1\necho works\n", (FAST, SLOW), run_folder=str(tmp_path))
    job = ManagedJob("j", "ann", order, Phase.ACTIVE, BEGIN)
    hold(job, 2)
    environment = {"PATH": os.environ["PATH"], **submission_of(job, SubJob(2, "k-2", FAST)).environment}
    script = tmp_path / "script"
    script.write_text(script_that_holds(order))
    with subprocess.Popen(["sh", script], env=environment, stdout=subprocess.PIPE, text=True) as shell:
        with pytest.raises(subprocess.TimeoutExpired):
            shell.wait(0.3)
        let_go(job, 2)
        assert shell.communicate(timeout=30)[0] == "works\n"


def test_work_that_is_done_is_done_whatever_still_waits_to_take_over(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(20 * HOUR_S)
    site.free_at = site.world.now + timedelta(hours=2)  # as is foretold: they come much later
    job = site.run(site.hand_over(tmp_path))
    assert site.rules(job) == ["first", "work-meanwhile", "finish"]
    assert site.took_s(job) == pytest.approx(WORK_S, abs=5 * STEP_S)


def test_a_job_that_took_over_has_a_successor_that_waits_for_it(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(2 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path), HOUR_S)
    took_over = replace(
        job.sub_jobs[0], takes_over=None, status=JobStatus(job.sub_jobs[0].cluster_job_id or "", Outcome.RUNNING)
    )
    left = replace(job.sub_jobs[1], ending=Ending.MOVED, moves_to=took_over.place)
    job = replace(job, sub_jobs=(took_over, left))
    successor = next_sub_job(job, Decision("overlap", Action.SUBMIT_SUCCESSOR, "", {}))
    assert successor.follows == took_over.cluster_job_id
    joined = next_sub_job(job, Decision("join-queue", Action.JOIN, "", {"join_at": "sim/slow"}))
    assert joined.takes_over == took_over.number


def test_a_place_that_refuses_is_not_asked_again_and_the_job_stays_where_it_is(
    make_site: MakeSite, tmp_path: Path
) -> None:
    site = make_site(2 * HOUR_S)
    too_large = replace(SLOW, nodes=7)
    job = site.run(site.hand_over(tmp_path, places=(FAST, too_large)))
    assert ways(job) == [("fast", Ending.COMPLETED), ("slow", Ending.REFUSED)]


def test_a_job_that_is_refused_where_it_was_moved_to_goes_back(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(2 * HOUR_S)
    too_large = replace(SLOW, nodes=7)
    job = site.hand_over(tmp_path, places=(FAST, too_large), script="#!/usr/bin/env python3\n")
    job = site.pass_time(job, 600)
    site.free_at += timedelta(hours=8)
    job = site.run(job)
    assert site.rules(job) == ["first", "move-waiting", "moved", "refused", "finish"]
    assert ways(job) == [("fast", Ending.MOVED), ("slow", Ending.REFUSED), ("fast", Ending.COMPLETED)]


@pytest.mark.parametrize("cancelled", [0, 1])
def test_who_cancels_one_of_two_is_heeded(make_site: MakeSite, tmp_path: Path, cancelled: int) -> None:
    site = make_site(2 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path), 900)
    site.world.cluster.cancel([job.sub_jobs[cancelled].cluster_job_id or ""])
    job = site.pass_time(job, 1000)
    if cancelled == 1:  # the one that worked
        assert job.phase is Phase.CANCELLED
    else:
        assert site.rules(job) == ["first", "work-meanwhile"]  # and not again
        site.run(job)


def test_a_plane_that_dies_before_it_tells_a_job_to_save_leaves_that_to_the_next(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(2 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path), 2 * HOUR_S - 200)
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedConnector, "signal", _fail)
        job = site.pass_time(job, 400)
    assert site.rules(job)[-1] == "relieved"
    job = site.run(job)
    assert job.sub_jobs[1].status is not None
    assert job.sub_jobs[1].status.exit_code == EXIT_TO_BE_CONTINUED


def test_what_the_plane_takes_back_is_never_taken_for_somebodys_will(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(2 * HOUR_S)
    free_at, site.free_at = site.free_at, site.world.now
    hardly_faster = replace(FAST, work_s=3.99 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path, places=(hardly_faster, SLOW)), STEP_S)
    site.free_at = free_at
    job = site.pass_time(job, 2 * HOUR_S - 300)
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedConnector, "cancel", _fail)
        job = site.pass_time(job, 400)
    assert site.rules(job)[-1] == "relief-too-late"
    assert [each.is_cancelled_by_us for each in job.sub_jobs] == [True, False]
    assert ways(site.pass_time(job, 400)) == [("fast", Ending.CANCELLED), ("slow", None)]


def test_a_file_that_another_run_left_in_the_folder_holds_nobody(make_site: MakeSite, tmp_path: Path) -> None:
    site = make_site(600)
    job = site.hand_over(tmp_path)
    (tmp_path / "run").mkdir()
    hold(job, 1)
    assert site.took_s(site.run(job)) < 2 * HOUR_S


@pytest.mark.parametrize("action", ["join", "move", "hand-over"])
def test_a_rule_that_asks_at_the_wrong_moment_changes_nothing(
    make_site: MakeSite, tmp_path: Path, action: str
) -> None:
    site = make_site(600)
    plane = site.world.plane
    plane.rules = replace(
        plane.rules, advisors=(("eager", lambda facts: (action, "now") if facts["sub_jobs"] else None),)
    )
    job = site.pass_time(site.hand_over(tmp_path, places=(FAST,)), 900)
    assert ways(job) == [("fast", None)]


def test_better_nodes_that_come_while_the_lesser_ones_have_no_room_are_used(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(2 * HOUR_S)
    submit = SimulatedConnector.submit

    def full(cluster: SimulatedConnector, submission: Submission) -> str:
        if submission.partition == "slow":
            raise ClusterBusyError("you have as many jobs as you may have")
        return submit(cluster, submission)

    monkeypatch.setattr(SimulatedConnector, "submit", full)
    job = site.pass_time(site.hand_over(tmp_path), 600)
    assert site.rules(job) == ["first", "work-meanwhile"]
    site.free_up()
    monkeypatch.setattr(site.world.plane, "check_room", _is_full)  # others find it full, time and again
    job = site.run(job)
    assert site.took_s(job) < 1.5 * HOUR_S
    assert [each.cluster_job_id is None for each in job.sub_jobs] == [False, True]


def test_a_job_that_fails_while_another_waits_to_take_over_is_judged_at_once(
    make_site: MakeSite, tmp_path: Path
) -> None:
    site = make_site(2 * HOUR_S)
    job = site.pass_time(site.hand_over(tmp_path), 900)
    site.world.cluster.interrupt(job.sub_jobs[1].cluster_job_id or "", Outcome.FAILED)
    job = site.pass_time(job, 1000)
    assert site.rules(job) == ["first", "work-meanwhile", "successor-unfit", "give-up"]
    assert (job.phase, site.at_work(job)) == (Phase.FAILED, [])


def test_a_job_is_not_put_beside_another_for_ever(
    make_site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(2 * HOUR_S)
    job = site.hand_over(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "touch", _is_disk_full)
        job = site.pass_time(job, 1200)
    assert len(job.sub_jobs) == 4
    assert site.run(job).sub_jobs[0].ending is Ending.COMPLETED


def _fail(*_: Any) -> None:
    raise RuntimeError("killed")


def _is_full(_: str) -> None:
    raise ClusterBusyError("others were told so")


def _is_disk_full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
