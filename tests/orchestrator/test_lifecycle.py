"""A model of what may happen to jobs: interruptions, stops, faults, deaths of the plane, jumps in time."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from presage.connectors import JobStatus, Submission
from presage.connectors.simulated import MEMORY, WORK, SimulatedConnector, SimulatedPartition
from presage.database import Database
from presage.errors import ClusterTimeoutError
from presage.orchestrator.jobs import FINAL, ManagedJob, Order, Place
from presage.orchestrator.plane import Pace
from presage.traces.schema import Outcome
from tests.orchestrator.conftest import World

GIB = 1 << 30
PARTITIONS = {"batch": SimulatedPartition(nodes=2), "fast": SimulatedPartition(nodes=1, speed=4.0)}
LONG_ENOUGH_S = 60_000
STARTING = {
    "begin", "continue", "retry", "longer", "more-memory", "bigger-place", "half-batch", "elsewhere",
    "submit-successor", "go-there", "join",
}  # fmt: skip


FAULTS = st.sampled_from(["killed before", "killed after", "silent before", "silent after"])


class KilledError(BaseException):
    """Ends a plane as SIGKILL does: nothing catches it."""


class Faulty(SimulatedConnector):
    """Times out before or after it did what it was asked, or has its plane killed then; as it is told to."""

    fault: str | None = None

    def _strike(self, when: str) -> None:
        fault, is_now = self.fault, self.fault is not None and self.fault.endswith(when)
        if is_now:
            self.fault = None
            if fault is not None and fault.startswith("killed"):
                raise KilledError
            raise ClusterTimeoutError("no answer")

    def submit(self, submission: Submission) -> str:
        self._strike("before")
        job_id = super().submit(submission)
        self._strike("after")
        return job_id

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        self._strike("before")
        return super().statuses(job_ids)

    def cancel(self, job_ids: Collection[str]) -> None:
        self._strike("before")
        super().cancel(job_ids)
        self._strike("after")

    def signal(self, job_ids: Collection[str], name: str) -> None:
        self._strike("before")
        super().signal(job_ids, name)
        self._strike("after")


@lru_cache(maxsize=1)
def empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/plane.sqlite")
        with database.writing("plane"):
            pass
        database.close()
        return (Path(folder) / "plane.sqlite").read_bytes()


class Lifecycle(RuleBasedStateMachine):
    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="presage-lifecycle-"))
        (self.folder / "plane.sqlite").write_bytes(empty_database())
        self.world = World(self.folder)
        self.cluster = Faulty(self.folder / "faulty.sqlite", partitions=PARTITIONS, clock=self.world.seconds)
        self.orders = 0
        self.ended: dict[str, ManagedJob] = {}
        self.stopped: dict[str, int] = {}
        self.restart()

    @rule(
        target=jobs,
        work_s=st.sampled_from([30, 500, 1500, 9000]),
        resumable=st.booleans(),
        memory=st.sampled_from([0, 5 * GIB, 50 * GIB]),
        fault=st.none() | FAULTS,
        choice=st.sampled_from(["one", "two", "two, the best first"]),
    )
    def hand_over(self, work_s: int, resumable: bool, memory: int, fault: str | None, choice: str) -> str:
        self.orders += 1
        self.cluster.fault = fault
        place = Place(
            "sim", walltime_s=600, limit_s=1200, memory_bytes=4 * GIB, most_memory_bytes=16 * GIB, work_s=work_s
        )
        fast = replace(place, partition="fast", work_s=work_s / 4)
        places = {"one": (place,), "two": (place, fast), "two, the best first": (fast, place)}[choice]
        order = Order(
            "job", "#!/bin/sh\n", places, environment={WORK: str(work_s), MEMORY: str(memory)}, work_s=work_s,
            run_folder=str(self.folder / f"run-{self.orders}") if resumable else None, signal_before_s=60,
        )  # fmt: skip
        job_id = self.world.store.add("ann", order).job_id
        for _ in range(2 if fault else 0):  # long enough for the fault, and for what comes of it
            self.pass_time(130)
        return job_id

    @rule(seconds=st.sampled_from([1, 20, 130, 700]))
    def pass_time(self, seconds: int) -> None:
        try:
            self.world.pass_time(seconds, step_s=min(seconds, 20))
        except KilledError:
            self.restart()

    @rule(waits=st.sampled_from([0, 300]), fast_waits=st.sampled_from([0, 100, 3000]))
    def restart(self, waits: float = 0, fast_waits: float = 0) -> None:
        """Replace the plane by another, which knows nothing but what is in the database."""
        self.world.plane = self.world.make_plane(
            connectors={"sim": self.cluster},
            waits=lambda _, place: fast_waits if place.partition == "fast" else waits,
            pace=Pace(lease_s=120, settle_s=60),
        )
        self.world.store.release_claims_of("plane")

    @rule(fault=FAULTS)
    def be_faulty(self, fault: str) -> None:
        self.cluster.fault = fault

    @rule(
        which=st.integers(1, 30),
        outcome=st.sampled_from([Outcome.NODE_FAILURE, Outcome.PREEMPTED, Outcome.CANCELLED, Outcome.FAILED]),
    )
    def interrupt(self, which: int, outcome: Outcome) -> None:
        self.cluster.interrupt(str(which), outcome)

    @rule(job_id=consumes(jobs))
    def stop(self, job_id: str) -> None:
        self.world.store.stop(job_id)
        self.stopped[job_id] = len(self.on_cluster(job_id))

    def on_cluster(self, job_id: str) -> list[tuple[str, bool]]:
        """Return the keys of the jobs there, and whether they work: one that is held runs but does not."""
        with sqlite3.connect(self.cluster.file) as state:
            found = state.execute(
                "SELECT key, state = 'running' AND speed > 0 FROM jobs WHERE key LIKE ?", (f"presage-{job_id}-%",)
            ).fetchall()
        state.close()
        return found

    @invariant()
    def nothing_is_doubled_and_nothing_final_changes(self) -> None:
        self.cluster.find("")  # so that there is a file, and all has happened that did by now
        for job in self.world.store.jobs():
            there = self.on_cluster(job.job_id)
            keys = Counter(key for key, _ in there)
            assert max(keys.values(), default=0) <= 1, "two jobs of one key"
            assert set(keys) <= {each.key for each in job.sub_jobs}, "a job that nobody knows"
            assert sum(works for _, works in there) <= 1, "two jobs work at once"
            assert job == self.ended.get(job.job_id, job), "an end was taken back"
            assert len(there) <= self.stopped.get(job.job_id, len(there)), "submitted after it was stopped"
            actions = [each["action"] for each in self.world.store.decisions(job.job_id)]
            assert sum(action in STARTING for action in actions) == len(job.sub_jobs), "without a decision"
            if job.phase in FINAL:
                self.ended[job.job_id] = job

    def teardown(self) -> None:
        self.cluster.fault = None
        until_s = self.world.seconds() + LONG_ENOUGH_S
        while self.world.store.jobs(active_only=True) and self.world.seconds() < until_s:
            self.world.pass_time(200, step_s=50)
        left = self.world.store.jobs(active_only=True)
        self.nothing_is_doubled_and_nothing_final_changes()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not left, "a job that never ends"


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(
    max_examples=12,
    stateful_step_count=20,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
