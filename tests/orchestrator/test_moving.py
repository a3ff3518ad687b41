"""Jobs that do better elsewhere: begun there, joined there, moved there; and never at work twice at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.connectors.simulated import MEMORY, WORK, SimulatedConnector, SimulatedPartition
from presage.orchestrator.holding import hold, let_go, script_that_holds
from presage.orchestrator.jobs import FINAL, Ending, ManagedJob, Order, Phase, Place, SubJob
from presage.orchestrator.plane import Pace
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
