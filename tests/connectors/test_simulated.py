from __future__ import annotations

import json
import math
import random
import sqlite3
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from presage.client.events import EVENTS_FILE
from presage.client.run import EXIT_TO_BE_CONTINUED, FOLDER_VARIABLE
from presage.connectors import CONNECTORS, Connector, Submission
from presage.connectors.simulated import (
    CHECKPOINT,
    EXIT_CODE,
    MEMORY,
    SCALING,
    WORK,
    SimulatedConnector,
    SimulatedPartition,
)
from presage.errors import ClusterRefusedError, ClusterUnreachableError, UsageError
from presage.testing.connectors import ConnectorContract
from presage.traces.schema import Outcome

NODES = 2


class TestContract(ConnectorContract):
    kind: ClassVar[str] = "simulated"
    executes: ClassVar[bool] = False
    fill: ClassVar[dict[str, Any]] = {"nodes": NODES, "walltime_s": 1e6}
    too_much: ClassVar[dict[str, Any]] = {"nodes": NODES + 1}
    limit_s: ClassVar[float] = 60.0

    @pytest.fixture
    def connector(self, tmp_path: Path) -> SimulatedConnector:
        return SimulatedConnector(tmp_path / "cluster.sqlite", nodes=NODES, rate=120)

    def another(self, connector: Connector) -> Connector:
        assert isinstance(connector, SimulatedConnector)
        return SimulatedConnector(connector.file)

    def job(self, folder: Path, *, work_s: float = 0.0, exit_code: int = 0, **more: Any) -> Submission:
        environment = {WORK: str(work_s), EXIT_CODE: str(exit_code)}
        return self.submission(folder, "true", environment=environment, **more)


class Clock:
    """Shows what it was set to."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(tmp_path: Path, clock: Clock) -> SimulatedConnector:
    return SimulatedConnector(tmp_path / "cluster.sqlite", nodes=1, clock=clock)


def job(**changes: Any) -> Submission:
    return Submission(**{"key": "k", "name": "job", "script": "#!/bin/sh\n", **changes})


@pytest.mark.parametrize(
    "variable",
    [
        {WORK: "much"}, {WORK: "nan"}, {WORK: "-1"}, {WORK: "inf"}, {CHECKPOINT: "0"}, {MEMORY: "1.5"},
        {MEMORY: "9" * 5000}, {EXIT_CODE: "256"}, {EXIT_CODE: ""}, {SCALING: "3"},
    ],
)  # fmt: skip
def test_nonsense_is_refused_before_it_can_stop_the_cluster(
    cluster: SimulatedConnector, variable: dict[str, str]
) -> None:
    cluster.submit(job())
    with pytest.raises(ClusterRefusedError, match="cannot use PRESAGE_SIMULATED"):
        cluster.submit(job(environment=variable))
    assert len(cluster.statuses(["1", "2"])) == 1


def test_work_is_kept_to_the_last_checkpoint_by_the_folder_of_the_run(
    cluster: SimulatedConnector, clock: Clock
) -> None:
    environment = {WORK: "1000", CHECKPOINT: "100", FOLDER_VARIABLE: "/somewhere"}
    first = cluster.submit(job(environment=environment, walltime_s=2000))
    clock.now_s += 350
    cluster.interrupt(first, Outcome.NODE_FAILURE)
    ended = cluster.statuses([first])[first]
    assert (ended.state, ended.exit_code) == (Outcome.NODE_FAILURE, None)
    second = cluster.submit(job(environment=environment, walltime_s=600, signal="USR1", signal_before_s=50))
    clock.now_s += 550
    told = cluster.statuses([second])[second]
    assert (told.state, told.exit_code) == (Outcome.FAILED, EXIT_TO_BE_CONTINUED)
    third = cluster.submit(job(environment=environment, walltime_s=600))
    clock.now_s += 149  # 300 s and 550 s are done
    assert cluster.statuses([third])[third].state is Outcome.RUNNING
    clock.now_s += 1
    assert cluster.statuses([third])[third].state is Outcome.COMPLETED


def test_a_file_that_is_no_cluster_is_told_as_unreachable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no database, and long enough not to be taken for an empty one" * 50)
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ClusterUnreachableError):
            SimulatedConnector(place).find("k")


def two_partitions(file: Path, clock: Clock) -> SimulatedConnector:
    partitions = {"slow": SimulatedPartition(nodes=1), "fast": SimulatedPartition(nodes=2, limit_s=500, speed=4.0)}
    return SimulatedConnector(file, partitions=partitions, clock=clock)


@pytest.fixture
def pair(tmp_path: Path, clock: Clock) -> SimulatedConnector:
    """One slow node, and two that are four times as fast."""
    return two_partitions(tmp_path / "pair.sqlite", clock)


def run_folder(path: Path, work_s: float = 1000, **more: str) -> dict[str, str]:
    return {WORK: str(work_s), CHECKPOINT: "100", FOLDER_VARIABLE: str(path), **more}


def test_work_goes_on_faster_in_a_faster_partition(pair: SimulatedConnector, clock: Clock, tmp_path: Path) -> None:
    environment = run_folder(tmp_path)
    first = pair.submit(job(environment=environment, walltime_s=2000))
    clock.now_s += 250
    pair.cancel([first])  # 200 s are saved
    second = pair.submit(job(environment=environment, partition="fast", walltime_s=400))
    clock.now_s += 100
    assert pair.statuses([second])[second].state is Outcome.RUNNING
    *_, last = (json.loads(line) for line in (tmp_path / EVENTS_FILE).read_text().splitlines())
    assert (last["kind"], last["done"], last["elapsed_s"]) == ("progress", pytest.approx(0.6), 100)
    clock.now_s += 100
    done = pair.statuses([second])[second]
    assert (done.state, done.partition) == (Outcome.COMPLETED, "fast")
    assert done.start_time is not None
    assert done.end_time is not None
    assert (done.end_time - done.start_time).total_seconds() == pytest.approx(200)


def test_more_nodes_are_as_much_faster_as_the_job_says(pair: SimulatedConnector, clock: Clock) -> None:
    alone = pair.submit(job(environment={WORK: "800", SCALING: "0.5"}, nodes=1, walltime_s=2000))
    both = pair.submit(job(environment={WORK: "800", SCALING: "0.5"}, nodes=2, partition="fast", walltime_s=500))
    clock.now_s += 800
    ended = pair.statuses([alone, both])
    lengths = [ended[each].end_time - ended[each].start_time for each in (alone, both)]  # type: ignore[operator]  # ended
    assert [each.total_seconds() for each in lengths] == [800, pytest.approx(800 / 4 / 2**0.5)]


def test_each_partition_has_its_own_nodes_limits_and_queue(pair: SimulatedConnector) -> None:
    ids = [pair.submit(job(partition=name)) for name in ("slow", "slow", "fast", "fast", "fast")]
    assert [pair.statuses(ids)[each].state.value for each in ids] == [
        "running", "pending", "running", "running", "pending",
    ]  # fmt: skip
    assert pair.statuses(ids)[ids[2]].walltime_s == 500  # what a job gets that does not say
    for wrong in ({"partition": "none"}, {"nodes": 2}, {"partition": "fast", "walltime_s": 501}):
        with pytest.raises(ClusterRefusedError):
            pair.submit(job(**wrong))
    for wrong in ({"cores_per_node": 9}, {"memory_bytes": 33 << 30}):
        with pytest.raises(ClusterRefusedError, match="at most"):
            pair.start_estimate(job(**wrong))
    system = pair.discover()
    assert [(each.name, each.limits.max_nodes, each.limits.max_walltime_s) for each in system.partitions] == [
        ("slow", 1, None),
        ("fast", 2, 500),
    ]
    assert [(each.name, each.count) for each in system.node_types] == [("slow", 1), ("fast", 2)]


def after_s(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp() - Clock.now_s


def test_who_waits_already_is_counted_when_starts_are_estimated(pair: SimulatedConnector) -> None:
    fast = {"partition": "fast"}
    ids = [
        pair.submit(job(**fast, walltime_s=300)),  # runs until 300, if it takes all it may
        pair.submit(job(**fast, walltime_s=100)),  # runs until 100
        pair.submit(job(**fast, nodes=2, walltime_s=200)),  # 300 to 500
        pair.submit(job(**fast, walltime_s=150)),  # 100 to 250, before the larger one that came first
        pair.submit(job(**fast, walltime_s=400)),  # 250 to 650, and so keeps the larger one from starting
    ]
    expected = {each: after_s(start) for each, start in pair.expected_starts([*ids, "99", "no"]).items()}
    assert expected == {ids[2]: 650, ids[3]: 100, ids[4]: 250}
    assert after_s(pair.start_estimate(job(**fast, walltime_s=500))) == 300
    assert after_s(pair.start_estimate(job(**fast, nodes=2, walltime_s=500))) == 850
    assert after_s(pair.start_estimate(job())) == 0
    assert after_s(pair.start_estimate(job(depends_on=(ids[2],)))) == 850
    assert after_s(pair.start_estimate(job(depends_on=("77",)))) == 0
    assert pair.start_estimate(job(depends_on=("77",), only_after_success=True)) is None


def test_starts_come_as_estimated_if_all_jobs_take_as_long_as_they_may(
    pair: SimulatedConnector, clock: Clock
) -> None:
    chance = random.Random(5)
    ids: list[str] = []
    for _ in range(30):
        partition = chance.choice(("slow", "fast"))
        walltime_s = chance.randrange(10, 500)
        waits_for = tuple(chance.sample(ids, 1)) if ids and chance.random() < 0.3 else ()
        more = {"nodes": chance.choice((1, 2))} if partition == "fast" else {}
        environment = {WORK: "1e9"}
        ids.append(
            pair.submit(
                job(
                    environment=environment,
                    partition=partition,
                    walltime_s=walltime_s,
                    depends_on=waits_for,
                    **more,
                )
            )
        )
    foreseen = pair.expected_starts(ids)
    assert len(foreseen) > 20
    clock.now_s += 20_000
    assert {each: pair.statuses(ids)[each].start_time for each in foreseen} == foreseen


def test_a_job_that_is_told_saves_all_and_ends(pair: SimulatedConnector, clock: Clock, tmp_path: Path) -> None:
    environment = run_folder(tmp_path / "run", work_s=1000)
    first = pair.submit(job(environment=environment, walltime_s=2000))
    without = pair.submit(job(environment={WORK: "1000"}, partition="fast", walltime_s=500))
    clock.now_s += 149
    pair.signal([first, without], "CONT")
    pair.signal([first, without, "99", "no"], "USR1")
    told = pair.statuses([first, without])
    assert told[first].state is Outcome.RUNNING
    assert (told[without].state, told[without].exit_code, told[without].signal) == (Outcome.FAILED, None, 10)
    clock.now_s += 1
    ended = pair.statuses([first])[first]
    assert (ended.state, ended.exit_code) == (Outcome.FAILED, EXIT_TO_BE_CONTINUED)
    second = pair.submit(job(environment=environment, walltime_s=2000))
    clock.now_s += 849
    assert pair.statuses([second])[second].state is Outcome.RUNNING
    pair.signal([second], "USR1")  # too late to be told anything
    clock.now_s += 1
    assert pair.statuses([second])[second].state is Outcome.COMPLETED


def test_memory_that_was_used_is_told_of_ended_jobs(cluster: SimulatedConnector, clock: Clock) -> None:
    enough = cluster.submit(job(environment={MEMORY: "1000", WORK: "1"}, memory_bytes=2000))
    clock.now_s += 10
    short = cluster.submit(job(environment={MEMORY: "1000"}, memory_bytes=500))
    assert cluster.statuses([short])[short].max_rss_bytes is None
    clock.now_s += 10
    ended = cluster.statuses([enough, short])
    assert [(ended[each].state.value, ended[each].max_rss_bytes) for each in (enough, short)] == [
        ("completed", 1000),
        ("out_of_memory", 500),
    ]


BEFORE_PARTITIONS = """
CREATE TABLE cluster (
    began_s REAL NOT NULL, rate REAL NOT NULL, nodes INTEGER NOT NULL, node_bytes INTEGER NOT NULL,
    node_cores INTEGER NOT NULL, limit_s REAL);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, submission TEXT NOT NULL, nodes INTEGER NOT NULL,
    state TEXT NOT NULL, submit_s REAL NOT NULL, start_s REAL, end_s REAL, will_be TEXT, exit_code INTEGER,
    reason TEXT NOT NULL DEFAULT '');
CREATE INDEX jobs_by_key ON jobs (key);
CREATE INDEX jobs_by_state ON jobs (state);
CREATE TABLE work (folder TEXT PRIMARY KEY, done_s REAL NOT NULL);
INSERT INTO cluster VALUES (900, 1, 1, 1073741824, 3, 700);
"""


def test_a_file_of_before_there_were_partitions_goes_on(tmp_path: Path, clock: Clock) -> None:
    submissions = [json.dumps(asdict(job(environment={WORK: "500"}, walltime_s=each))) for each in (600, None)]
    with closing(sqlite3.connect(tmp_path / "old.sqlite")) as old, old:
        old.executescript(BEFORE_PARTITIONS)
        insert = "INSERT INTO jobs VALUES (?, 'k', ?, 1, ?, 900, ?, ?, ?, 0, '')"
        old.execute(insert, (1, submissions[0], "running", 900, 1400, "completed"))
        old.execute(insert, (2, submissions[1], "pending", None, None, None))
    cluster = SimulatedConnector(tmp_path / "old.sqlite", clock=clock)
    assert {each: after_s(start) for each, start in cluster.expected_starts(["2"]).items()} == {"2": 500}
    more = two_partitions(tmp_path / "old.sqlite", clock)
    assert [each.name for each in more.discover().partitions] == ["batch", "slow", "fast"]
    assert cluster.discover().node_type("batch").cores == 3
    clock.now_s += 400
    states = cluster.statuses(["1", "2"])
    assert [states[each].state for each in ("1", "2")] == [Outcome.COMPLETED, Outcome.RUNNING]
    assert states["1"].walltime_s == 600


def test_without_a_file_it_is_in_the_home_of_presage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESAGE_HOME", str(tmp_path))
    connector = CONNECTORS.get("simulated")()
    assert isinstance(connector, SimulatedConnector)
    connector.submit(job())
    assert (tmp_path / "simulated.sqlite").exists()


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"speed": 0.0}, {"speed": math.inf}, {"limit_s": math.nan}])
def test_partitions_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SimulatedPartition(**wrong)
    with pytest.raises(UsageError, match="at least one"):
        SimulatedConnector("never-made", partitions={})
