from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from presage.client.run import EXIT_TO_BE_CONTINUED, FOLDER_VARIABLE
from presage.connectors import Connector, Submission
from presage.connectors.simulated import CHECKPOINT, EXIT_CODE, MEMORY, WORK, SimulatedConnector
from presage.errors import ClusterRefusedError, ClusterUnreachableError
from presage.testing.connectors import ConnectorContract
from presage.traces.schema import Outcome

NODES = 2


class TestContract(ConnectorContract):
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
        {MEMORY: "9" * 5000}, {EXIT_CODE: "256"}, {EXIT_CODE: ""},
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
