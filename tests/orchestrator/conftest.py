from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from presage.connectors.simulated import WORK, SimulatedConnector
from presage.database import Database
from presage.orchestrator.jobs import FINAL, ManagedJob, Order, Place
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.store import Store

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
SCRIPT = "#!/bin/sh\ntrue\n"


@dataclass
class World:
    """A simulated cluster and a plane, on a clock that the test moves."""

    folder: Path
    now: datetime = BEGIN

    def __post_init__(self) -> None:
        self.cluster = SimulatedConnector(self.folder / "cluster.sqlite", clock=self.seconds)
        self.store = Store(Database(f"sqlite:///{self.folder / 'plane.sqlite'}"), lambda: self.now)
        self.plane = self.make_plane()

    def seconds(self) -> float:
        return self.now.timestamp()

    def make_plane(self, **changes: Any) -> Plane:
        values = {
            "connectors": {"sim": self.cluster},
            "pace": Pace(settle_s=30),
            "now": lambda: self.now,
            **changes,
        }
        return Plane(self.store, **values)

    def pass_time(self, seconds: float, step_s: float = 10.0) -> None:
        until = self.now + timedelta(seconds=seconds)
        while self.now < until:
            self.now = min(until, self.now + timedelta(seconds=step_s))
            while self.plane.step():
                pass

    def run_to_the_end(self, job: ManagedJob, most_s: float = 100_000) -> ManagedJob:
        until = self.now + timedelta(seconds=most_s)
        while self.now < until and (job := self.store.get(job.job_id)).phase not in FINAL:
            self.pass_time(20)
        return job


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


MakeOrder = Callable[..., Order]


@pytest.fixture
def make_order(tmp_path: Path) -> MakeOrder:
    """Make an order for the simulated cluster: so much work, so much time for each job."""

    def make(work_s: float = 300, walltime_s: float = 600, **changes: Any) -> Order:
        place = Place("sim", walltime_s=walltime_s, limit_s=changes.pop("limit_s", walltime_s))
        environment = {WORK: str(work_s), **changes.pop("environment", {})}
        places = (replace(place, **changes.pop("place", {})),)
        folder = changes.pop("run_folder", str(tmp_path / "run"))
        changes["work_s"] = changes.pop("work_expected_s", None)
        return replace(
            Order("train", SCRIPT, places, environment=environment, run_folder=folder, signal_before_s=30),
            **changes,
        )

    return make
