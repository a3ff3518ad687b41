"""The plane on a real Slurm with a fast clock and, as on small sites, no accounting: `sacct` knows nothing."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from presage.client.events import EVENTS_FILE, read_events
from presage.connectors._base import Submission
from presage.connectors.slurm import SlurmConnector
from presage.connectors.slurm.commands import SlurmCommands
from presage.connectors.slurm.jobs import RECORD_FIELDS
from presage.database import Database
from presage.errors import ClusterBusyError
from presage.orchestrator.jobs import FINAL, Ending, ManagedJob, Order, Phase, Place
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.store import Store
from presage.testing import SlurmCluster, missing_for_slurm
from presage.traces.schema import Outcome

REASON = missing_for_slurm()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON or "Slurm is here")]

MIB = 1 << 20
RATE = 30
EPOCHS = 14
PACE = Pace(lease_s=3600, least_pause_s=10, most_pause_s=40, visit_s=10, retry_s=20, settle_s=90)
TRAINING = f"""
import subprocess
from pathlib import Path
from presage.client import track

run = track({EPOCHS})
for epoch in run:
    subprocess.run(["sleep", "30"])
    with Path("epochs").open("a") as file:
        file.write(f"{{epoch}}\\n")
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    intervals = {"bf_interval": 10, "sched_interval": 10, "sched_min_interval": 0}
    config = {
        "SelectTypeParameters": "CR_CPU_Memory", "DefMemPerCPU": 100, "ReturnToService": 0,
        "JobAcctGatherType": "jobacct_gather/linux", "JobAcctGatherFrequency": 20,
        "JobAcctGatherParams": "OverMemoryKill",
    }  # fmt: skip
    partitions = ["PartitionName=main Nodes=ALL Default=YES State=UP", "PartitionName=better Nodes=n2 State=UP"]
    with SlurmCluster(
        nodes=2, cpus=2, rate=RATE, parameters=intervals, config=config, partitions=partitions
    ) as cluster:
        yield cluster


class Forgetful(SlurmCommands):
    """Slurm's own commands, of a controller that forgets jobs and an accounting that tells what it is told to."""

    def __init__(self, slurm: SlurmCluster) -> None:
        super().__init__(slurm.environment, timeout_s=30)
        object.__setattr__(self, "forgotten", set())
        object.__setattr__(self, "records", None)

    def run(self, program: str, *arguments: str) -> str:
        if program == "sacct" and self.records is not None:
            return self.records.pop(0) if len(self.records) > 1 else self.records[0]
        lines = super().run(program, *arguments).splitlines(keepends=True)
        return "".join(line for line in lines if line.partition(" ")[0] not in self.forgotten)


class Site:
    """A plane of a user of that Slurm."""

    def __init__(self, slurm: SlurmCluster, folder: Path, connector: SlurmConnector | None = None) -> None:
        self.slurm, self.folder = slurm, folder
        self.database = Database(f"sqlite:///{folder / 'plane.sqlite'}")
        self.store = Store(self.database, self.now)
        connector = connector or SlurmConnector(slurm.environment, timeout_s=30)
        self.plane = Plane(self.store, {"slurm": connector}, pace=PACE, now=self.now)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.slurm.now_s(), UTC)

    def hand_over(self, script: str, *, name: str = "run", **changes: Any) -> ManagedJob:
        place = {"walltime_s": 3600.0, "memory_bytes": 100 * MIB, **changes.pop("place", {})}
        folder = self.folder / name
        folder.mkdir()
        changes = {"run_folder": str(folder), "signal_before_s": 100, **changes}
        order = Order(name, f"#!/bin/bash\n{script}\n", (Place("slurm", **place),), working_directory=str(folder))
        return self.store.add("ann", Order(**{**order.__dict__, **changes}))

    def work_until(
        self, job: ManagedJob, condition: Callable[[ManagedJob], bool], most_s: float = 60
    ) -> ManagedJob:
        deadline = time.monotonic() + most_s
        while not condition(found := self.store.get(job.job_id)):
            assert time.monotonic() < deadline, (found, self.store.decisions(job.job_id))
            if not self.plane.step():
                time.sleep(0.1)
        return found

    def finish(self, job: ManagedJob) -> ManagedJob:
        return self.work_until(job, lambda found: found.phase in FINAL)

    def run(self, job: ManagedJob) -> str:
        """Wait until a job of it runs; returns the cluster's id for that."""
        running = self.work_until(job, lambda found: any(each.is_running for each in found.sub_jobs))
        return str(next(each.cluster_job_id for each in running.sub_jobs if each.is_running))

    def rules(self, job: ManagedJob) -> list[str]:
        return [each["rule"] for each in self.store.decisions(job.job_id)]


@pytest.fixture
def site(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    made = Site(slurm, tmp_path)
    yield made
    made.database.close()
    queued = slurm.run(["squeue", "-h", "-o", "%A"]).split()
    slurm.run(["scancel", "--quiet", *(queued or ["1"])])


def test_a_training_past_its_limit_is_told_saves_and_is_done_by_the_next_jobs(site: Site) -> None:
    (site.folder / "train.py").write_text(TRAINING)
    limit = {"walltime_s": 300.0, "limit_s": 300.0}
    script = f"exec {sys.executable} {site.folder / 'train.py'}"
    done = site.finish(site.hand_over(script, place=limit, work_s=EPOCHS * 30.0))
    assert done.phase is Phase.COMPLETED, done
    # One more may have been in the queue: it is cancelled, or finds all done if it is quicker than that.
    worked = [each for each in done.sub_jobs if not each.is_cancelled_by_us]
    last = [each.ending for each in worked].index(Ending.COMPLETED)
    assert {each.ending for each in worked[:last]} == {Ending.CONTINUED}
    assert {each.ending for each in worked[last:]} == {Ending.COMPLETED}
    assert len(worked) >= 2
    epochs = (site.folder / "run" / "epochs").read_text().split()
    assert epochs == [str(number) for number in range(EPOCHS)]  # each once: nothing was lost
    assert done.progress is not None
    assert (done.progress.done, done.progress.total) == (EPOCHS, EPOCHS)
    kinds = [event.kind for event, _ in read_events(site.folder / "run" / EVENTS_FILE)]
    assert kinds.count("started") == len(worked)


def test_a_training_works_on_lesser_nodes_until_better_ones_come(site: Site) -> None:
    (site.folder / "train.py").write_text(TRAINING)
    somebody = ["sbatch", "--parsable", "-p", "better", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 250"]
    site.slurm.run(somebody)
    better = Place("slurm", "better", walltime_s=50_000.0, memory_bytes=100 * MIB, work_s=10_000)
    main = replace(better, partition="main", work_s=40_000)
    site.plane = Plane(
        site.store, site.plane.connectors, pace=PACE, now=site.now,
        waits=lambda _, place: 20_000.0 if place.partition == "better" else 0.0,
    )  # fmt: skip
    script = f"exec {sys.executable} {site.folder / 'train.py'}"
    done = site.finish(site.hand_over(script, places=(better, main), name="train"))
    assert done.phase is Phase.COMPLETED, done
    assert site.rules(done) == ["first", "work-meanwhile", "relieved", "finish"]
    endings = {each.place.partition: each.ending for each in done.sub_jobs}
    assert endings == {"better": Ending.COMPLETED, "main": Ending.MOVED}
    epochs = (site.folder / "train" / "epochs").read_text().split()
    assert epochs == [str(number) for number in range(EPOCHS)]  # each once, by one of the two


def test_a_run_that_does_not_listen_is_cut_off_and_goes_on(site: Site) -> None:
    script = "trap '' USR1\nif [ -e half ]; then exit 0; fi\ntouch half\nsleep 100000"
    done = site.finish(site.hand_over(script, place={"walltime_s": 60.0}))
    assert (done.phase, [each.ending for each in done.sub_jobs]) == (
        Phase.COMPLETED,
        [Ending.TIMEOUT, Ending.COMPLETED],
    )
    assert site.rules(done) == ["first", "cascade", "finish"]


def test_memory_that_does_not_suffice_is_raised_until_it_does(site: Site) -> None:
    need = "import subprocess; memory = bytearray(b'x') * (150 << 20); subprocess.run(['sleep', '120'])"
    done = site.finish(
        site.hand_over(f'exec {sys.executable} -c "{need}"', place={"most_memory_bytes": 900 * MIB})
    )
    assert done.phase is Phase.COMPLETED, done
    assert [each.ending for each in done.sub_jobs[:-1]] == [Ending.OUT_OF_MEMORY] * (len(done.sub_jobs) - 1)
    assert done.sub_jobs[-1].place.memory_bytes == 225 * MIB


def test_a_failing_node_costs_a_retry_elsewhere(site: Site, slurm: SlurmCluster) -> None:
    job = site.hand_over("hostname > /dev/null\nif [ -e begun ]; then exit 0; fi\ntouch begun\nsleep 100000")
    there = site.run(job)
    node = slurm.run(["squeue", "-h", "-j", there, "-o", "%N"]).strip()
    slurm.run(["scontrol", "update", f"nodename={node}", "state=down", "reason=test"])
    done = site.finish(job)
    last = done.sub_jobs[-1].cluster_job_id or ""
    elsewhere = slurm.run(["squeue", "-h", "--states=all", "-j", last, "-o", "%N"]).strip()
    slurm.run(["scontrol", "update", f"nodename={node}", "state=resume"])
    assert {node, elsewhere} == {"n1", "n2"}
    assert (done.phase, [each.ending for each in done.sub_jobs]) == (
        Phase.COMPLETED,
        [Ending.NODE_FAILURE, Ending.COMPLETED],
    )
    assert site.rules(done) == ["first", "bad-luck", "finish"]


def test_what_its_owner_cancels_with_scancel_is_stopped_for_good(site: Site, slurm: SlurmCluster) -> None:
    job = site.hand_over("sleep 100000")
    slurm.run(["scancel", site.run(job)])
    done = site.finish(job)
    assert (done.phase, len(done.sub_jobs)) == (Phase.CANCELLED, 1)
    assert site.rules(done)[-1] == "cancelled-elsewhere"


def test_what_its_owner_stops_is_cancelled(site: Site, slurm: SlurmCluster) -> None:
    job = site.hand_over("sleep 100000")
    there = site.run(job)
    site.store.stop(job.job_id)
    assert site.finish(job).phase is Phase.CANCELLED
    assert slurm.jobs()[int(there)].state == "CANCELLED"


def test_a_controller_that_is_away_for_a_while_loses_and_doubles_nothing(site: Site, slurm: SlurmCluster) -> None:
    before = site.hand_over("sleep 200", name="before")
    site.run(before)
    (controller,) = [daemon for name, daemon in slurm._daemons if name == "slurmctld"]
    slurm._daemons[:] = [each for each in slurm._daemons if each[1] is not controller]
    controller.send_signal(signal.SIGTERM)
    controller.wait(20)
    during = site.hand_over("sleep 20", name="during")
    silent = site.work_until(during, lambda found: bool(found.reason))
    assert silent.phase is Phase.ACTIVE
    slurm._start_daemon("slurmctld", ["slurmctld", "-D", "-i", "-f", slurm.environment["SLURM_CONF"]])
    for job in (before, during):
        done = site.finish(job)
        assert (done.phase, len(done.sub_jobs)) == (Phase.COMPLETED, 1), done
        status = done.sub_jobs[0].status
        assert status is not None
        assert status.state is Outcome.COMPLETED
    names = [job.name for job in slurm.jobs().values()]
    assert (names.count("before"), names.count("during")) == (1, 1)


@pytest.fixture
def forgetful(slurm: SlurmCluster, tmp_path: Path) -> Iterator[tuple[Site, Any]]:
    connector = SlurmConnector()
    connector.commands = Forgetful(slurm)
    made = Site(slurm, tmp_path, connector)
    yield made, connector.commands
    made.database.close()


def test_an_accounting_that_is_late_loses_and_doubles_nothing(
    forgetful: tuple[Site, Any], slurm: SlurmCluster
) -> None:
    site, commands = forgetful
    job = site.hand_over("sleep 20", name="late")
    there = site.run(job)
    # The controller has forgotten it (MinJobAge); the accounting still knows nothing, and then that it ran.
    commands.forgotten.add(there)
    running, ended = ({"JobIDRaw": there, "State": state, "ExitCode": "0:0"} for state in ("RUNNING", "COMPLETED"))
    lines = ["|".join(cells.get(name, "") for name in RECORD_FIELDS) for cells in (running, ended)]
    object.__setattr__(commands, "records", ["", "", lines[0], "", "", lines[1]])
    done = site.finish(job)
    assert (done.phase, [each.ending for each in done.sub_jobs]) == (Phase.COMPLETED, [Ending.COMPLETED])
    assert [each.name for each in slurm.jobs().values()].count("late") == 1


def test_a_job_that_nobody_knows_any_more_is_run_again_and_never_beside_itself(
    forgetful: tuple[Site, Any], slurm: SlurmCluster
) -> None:
    site, commands = forgetful
    job = site.hand_over("if [ -e begun ]; then exit 0; fi\ntouch begun\nsleep 100000", name="forgotten")
    there = site.run(job)
    commands.forgotten.add(there)  # and `sacct` says that there is no accounting
    done = site.finish(job)
    endings = [each.ending for each in done.sub_jobs]
    assert (done.phase, endings) == (Phase.COMPLETED, [Ending.LOST, Ending.COMPLETED])
    assert slurm.jobs()[int(there)].state == "CANCELLED"


class Full(SlurmConnector):
    """A Slurm in which too many jobs wait, for a while."""

    refusals = 2

    def submit(self, submission: Submission) -> str:
        if self.refusals:
            self.refusals -= 1
            raise ClusterBusyError("sbatch failed: QOSMaxSubmitJobPerUserLimit")
        return super().submit(submission)


def test_a_full_queue_only_delays_a_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    connector = Full(slurm.environment, timeout_s=30)
    site = Site(slurm, tmp_path, connector)
    done = site.finish(site.hand_over("true", name="delayed"))
    site.database.close()
    assert (done.phase, len(done.sub_jobs), connector.refusals) == (Phase.COMPLETED, 1, 0)
    assert done.sub_jobs[0].tries == 3
    assert [each.name for each in slurm.jobs().values()].count("delayed") == 1
