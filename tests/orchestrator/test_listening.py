"""Who is asked what jobs told: few at a poll, all in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from presage.connectors import JobStatus, KeepsMessages
from presage.connectors.simulated import WORK, SimulatedConnector
from presage.database import Database
from presage.errors import ClusterRefusedError, ClusterUnreachableError
from presage.orchestrator import store as store_module
from presage.orchestrator.jobs import FINAL, Order, Place
from presage.orchestrator.listening import MOST_ASKED, Listening
from presage.orchestrator.messages import unread
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.store import Store
from presage.traces.schema import Outcome


class Asked(SimulatedConnector, KeepsMessages):
    """Keeps the same messages of each job, and what it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "cluster.sqlite")
        self.told: list[dict[str, Any]] = []
        self.asked: list[tuple[str, int]] = []
        self.trouble: dict[str, Exception] = {}

    def messages(self, job_id: str, after: int = 0) -> tuple[list[dict[str, Any]], int]:
        self.asked.append((job_id, after))
        if job_id in self.trouble:
            raise self.trouble[job_id]
        return self.told[after:], after + 7


class Poll:
    """Polls with so many running jobs, some ended ones, and one that waits."""

    def __init__(self, folder: Path) -> None:
        self.connector = Asked(folder)
        self.listening = Listening(Store(Database(f"sqlite:///{folder / 'plane.sqlite'}")))

    def __call__(self, running: int, ended: int = 0) -> list[tuple[str, int]]:
        states = {f"run-{number:02}": Outcome.RUNNING for number in range(running)}
        states |= {f"end-{number:02}": Outcome.TIMEOUT for number in range(ended)} | {"wait": Outcome.PENDING}
        self.connector.asked.clear()
        statuses = {job_id: JobStatus(job_id, state) for job_id, state in states.items()}
        self.listening.listen("here", self.connector, statuses)
        return list(self.connector.asked)


@pytest.fixture
def poll(tmp_path: Path) -> Poll:
    return Poll(tmp_path)


def names(*numbers: int) -> list[str]:
    return [f"run-{number:02}" for number in numbers]


def test_few_are_asked_at_a_poll_and_all_in_turn(poll: Poll) -> None:
    asked = [poll(25) for _ in range(4)]
    assert [len(each) for each in asked] == [MOST_ASKED] * 4
    first_round = [job_id for each in asked for job_id, _ in each][:25]
    assert first_round == names(*range(25))
    assert asked[2][-1] == ("run-04", 7), "what was fetched is not fetched again"
    assert poll(3) == [("run-00", 14), ("run-01", 14), ("run-02", 14)]


def test_those_that_ended_come_first_and_nobody_loses_his_turn(poll: Poll) -> None:
    asked = [job_id for job_id, _ in poll(25, ended=8)]
    assert asked == [*(f"end-{number:02}" for number in range(8)), *names(0, 1)]
    assert [job_id for job_id, _ in poll(25)] == names(*range(2, 12))
    assert len(poll(25, ended=30)) == MOST_ASKED
    assert poll(25)[0] == ("run-12", 0)


def test_a_job_that_is_refused_keeps_no_other_from_its_turn(poll: Poll) -> None:
    poll.connector.trouble = {
        "run-01": ClusterRefusedError("not yours"),
        "run-03": ClusterUnreachableError("nobody there"),
    }
    assert poll(6) == [(name, 0) for name in names(0, 1, 2, 3)], "the cluster was asked after it was silent"
    poll.connector.trouble = {}
    assert dict(poll(6)) == {"run-00": 7, "run-01": 0, "run-02": 7, "run-03": 0, "run-04": 0, "run-05": 0}


def test_other_clusters_are_not_asked(tmp_path: Path) -> None:
    listening = Listening(Store(Database(f"sqlite:///{tmp_path / 'plane.sqlite'}")))
    listening.listen("here", SimulatedConnector(tmp_path / "c.sqlite"), {"1": JobStatus("1", Outcome.RUNNING)})


def progress(done: float) -> dict[str, Any]:
    return {"time": f"2026-03-01T00:00:0{done:g}Z", "kind": "progress", "done": done, "total": 9, "sequence": done}


def step_until(plane: Plane, is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline_s
        plane.step()


def test_what_a_job_told_is_kept_until_it_is_read(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MOST_UNREAD", 3)
    database = Database(database_url)
    store, connector = Store(database), Asked(tmp_path)
    plane = Plane(store, {"sim": connector}, pace=Pace(least_pause_s=0, visit_s=0))
    order = Order("train", "#!/bin/sh\n", (Place("sim", walltime_s=3000),), run_folder=str(tmp_path / "elsewhere"))
    job_id = store.add("ann", replace(order, environment={WORK: "2000"})).job_id
    plane.step()
    there = store.get(job_id).sub_jobs[0].cluster_job_id
    assert there is not None
    assert not store.add_messages("sim", "no-such-job", [progress(1)])
    assert store.add_messages("sim", there, [progress(1), progress(2)])
    assert not store.add_messages("sim", there, [progress(3), progress(4)]), "more than may be unread"
    assert [document["sub_job"] for _, document in store.messages(store.get(job_id))] == [1, 1]
    step_until(plane, lambda: bool((heard := store.get(job_id).progress) and heard.heard == ((1, 1, 2),)))
    assert store.messages(store.get(job_id)) == []
    assert store.add_messages("sim", there, [progress(3), progress(4), progress(5)]), "those that were read count"
    store.stop(job_id)
    step_until(plane, lambda: store.get(job_id).phase in FINAL)
    with database.reading() as session:
        assert unread(session, job_id) == 0
    database.close()
