"""What the plane is told of waits: asked rarely, in the background, and never at the cost of a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.connectors import Submission
from presage.connectors._base import EstimatesStarts
from presage.connectors.local import LocalConnector
from presage.connectors.simulated import SimulatedConnector
from presage.errors import ClusterTimeoutError
from presage.orchestrator import waits as room
from presage.orchestrator.jobs import ManagedJob, Order, Phase, Place
from presage.orchestrator.waits import FRESH_S, Waits
from presage.testing.traces import make_job, make_trace

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PLACE = Place("sim", nodes=2, walltime_s=3600)
ELSEWHERE = replace(PLACE, partition="other")
JOB = ManagedJob("j", "ann", Order("train", "#!/bin/sh\n", (PLACE, ELSEWHERE)), Phase.ACTIVE, NOW)


class Telling(SimulatedConnector):
    """Says when jobs would start, or what it is told to raise; counts how often it was asked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "cluster.sqlite")
        self.asked: list[Submission] = []
        self.wait_s = 600.0
        self.error: Exception | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()

    def start_estimate(self, submission: Submission) -> datetime | None:
        self.asked.append(submission)
        self.goes_on.wait(30)
        if self.error is not None:
            raise self.error
        return datetime.now(UTC) + timedelta(seconds=self.wait_s)

    def expected_starts(self, job_ids: Collection[str]) -> dict[str, datetime]:
        return {}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def asking(connector: Any, clock: Clock | None = None, **more: Any) -> Iterator[Waits]:
    waits = Waits({"sim": connector}, clock=clock or Clock(), **more)
    try:
        yield waits
    finally:
        waits.close()


def test_the_cluster_is_asked_once_for_all_jobs_of_a_shape_until_the_answer_is_old(tmp_path: Path) -> None:
    cluster, clock = Telling(tmp_path), Clock()
    with asking(cluster, clock) as waits:
        answers = [waits(JOB, PLACE) for _ in range(100)]
        assert answers == pytest.approx([300.0] * 100, abs=5)  # half of what schedulers say is what is usual
        assert [(each.nodes, each.walltime_s) for each in cluster.asked] == [(2, 3600)]
        waits(JOB, replace(PLACE, walltime_s=3700.0))
        waits(replace(JOB, order=replace(JOB.order, name="another")), PLACE)
        assert len(cluster.asked) == 1
        waits(JOB, replace(PLACE, nodes=3))
        assert len(cluster.asked) == 2
        clock.now_s, cluster.wait_s = FRESH_S + 1, 60.0
        assert waits(JOB, PLACE) == pytest.approx(300, abs=5)  # while the new answer is on its way
        _settled(waits)
        assert waits(JOB, PLACE) == pytest.approx(30, abs=5)


def test_nobody_waits_long_for_a_cluster_that_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PATIENCE_S", 0.05)
    cluster = Telling(tmp_path)
    cluster.goes_on.clear()
    with asking(cluster) as waits:
        assert waits(JOB, PLACE) is None
        one_place = replace(JOB, owner="bob", order=replace(JOB.order, places=(PLACE,)))
        assert waits(one_place, PLACE) is None  # and this one not even so long
        cluster.goes_on.set()
        _settled(waits)
        assert waits(JOB, PLACE) == pytest.approx(300, abs=5)


@pytest.mark.parametrize("error", [ClusterTimeoutError("no answer"), RuntimeError("a plug-in's own")])
def test_a_cluster_that_fails_says_nothing(tmp_path: Path, error: Exception) -> None:
    cluster = Telling(tmp_path)
    cluster.error = error
    with asking(cluster) as waits:
        assert waits(JOB, PLACE) is None
        assert waits(JOB, replace(PLACE, cluster="unknown")) is None


def test_where_the_cluster_says_nothing_the_waits_of_our_own_jobs_count(tmp_path: Path) -> None:
    cluster = LocalConnector(tmp_path)
    assert not isinstance(cluster, EstimatesStarts)
    jobs = [make_job(600.0 * number, 120.0, 60.0, 2, limit_s=3600.0) for number in range(60)]
    with asking(cluster, own_history=lambda _: make_trace(*jobs)) as waits:
        waits(JOB, PLACE)
        _settled(waits)
        told = waits(JOB, PLACE)
    assert told is not None
    assert 10 < told < 1200


def _settled(waits: Waits) -> None:
    """Wait until everything that was asked has been answered."""
    waits._asking.submit(lambda: None).result(60)


def test_many_new_shapes_hold_a_plane_up_no_longer_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "PATIENCE_S", 0.5)
    cluster = Telling(tmp_path)
    cluster.goes_on.clear()
    waits = Waits({"sim": cluster})
    began_s = time.monotonic()
    assert {waits(JOB, replace(PLACE, nodes=nodes)) for nodes in range(1, 41)} == {None}
    assert time.monotonic() - began_s < 10.0  # one by one they would take 20 s
    waits.close()
    cluster.goes_on.set()
