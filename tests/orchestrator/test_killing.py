"""Planes that are killed at any moment, on a cluster not to be trusted: nothing is lost, nothing runs twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from presage.connectors.simulated import MEMORY, WORK, SimulatedConnector
from presage.database import Database
from presage.orchestrator.jobs import FINAL, Order, Phase, Place
from presage.orchestrator.store import Store

GIB = 1 << 30
ROOT = Path(__file__).parents[2]


def orders(folder: Path, count: int, seed: int) -> list[Order]:
    """Return short jobs, jobs longer than their limit, and jobs that need more memory than they ask for."""
    made = random.Random(seed)
    orders = []
    for number in range(count):
        work_s = made.choice([60, 300, 900, 2000])
        memory = made.choice([0, 0, 6 * GIB])
        place = Place("sim", walltime_s=600, limit_s=600, memory_bytes=4 * GIB, most_memory_bytes=16 * GIB)
        environment = {WORK: str(work_s), MEMORY: str(memory)}
        run_folder = str(folder / f"run-{number}")
        orders.append(
            Order(f"job-{number}", "#!/bin/sh\n", (place,), environment=environment, run_folder=run_folder)
        )
    return orders


def kill_and_finish(folder: Path, url: str, jobs: int, kills: int, seed: int, most_s: float) -> Store:
    """Hand jobs over, kill planes at random moments, let the last ones finish."""
    store = Store(Database(url))
    for order in orders(folder, jobs, seed):
        store.add("ann", order)
    moments = random.Random(seed)
    deadline = time.monotonic() + most_s
    planes: list[subprocess.Popen[bytes]] = []
    try:
        for life in range(kills + 2):
            command = [
                sys.executable,
                "-m",
                "tests.orchestrator.unreliable",
                str(folder),
                url,
                str(seed * 1000 + life),
            ]
            if len(planes) == 2:
                time.sleep(moments.uniform(0.3, 1.5))
                oldest = planes.pop(0)
                oldest.kill()
                oldest.wait()
            planes.append(subprocess.Popen(command, cwd=ROOT))
        while store.jobs(active_only=True, most=1) and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        for plane in planes:
            plane.kill()
            plane.wait()
    return store


def assert_nothing_lost_or_doubled(store: Store, folder: Path, jobs: int) -> None:
    cluster = SimulatedConnector(folder / "cluster.sqlite")
    found = store.jobs(most=jobs + 1)
    assert len(found) == jobs
    assert {job.phase for job in found} <= FINAL
    for job in found:
        assert job.phase is Phase.COMPLETED, (job.name, job.reason)
        for sub_job in job.sub_jobs:
            assert len(cluster.jobs_of_key(sub_job.key)) <= 1, (job.name, sub_job.key)


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_run_nothing_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'plane.sqlite'}"
    store = kill_and_finish(tmp_path, url, jobs=60, kills=20, seed=3, most_s=180)
    assert_nothing_lost_or_doubled(store, tmp_path, 60)
