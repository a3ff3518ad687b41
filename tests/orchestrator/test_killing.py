"""Planes that are killed at any moment, on a cluster not to be trusted: nothing is lost, nothing runs twice."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from presage.connectors.simulated import MEMORY, WORK, SimulatedConnector
from presage.database import Database
from presage.orchestrator.jobs import FINAL, Order, Phase, Place
from presage.orchestrator.store import Store
from tests.orchestrator.unreliable import main

GIB = 1 << 30


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


def kill_and_finish(
    store: Store, folder: Path, url: str, *, jobs: int, kills: int, seed: int, most_s: float
) -> int:
    """Hand jobs over, kill planes at random moments, let the last ones finish; returns how many were killed.

    There are always two planes, and the older one is killed. After `most_s` nothing more is waited for.
    """
    for order in orders(folder, jobs, seed):
        store.add("ann", order)
    moments = random.Random(seed)
    deadline = time.monotonic() + most_s
    # A process that has imported everything gives birth to the planes: these work from their first moment on.
    births = multiprocessing.get_context("forkserver")
    births.set_forkserver_preload(["tests.orchestrator.unreliable"])
    planes: deque[Any] = deque()
    killed = 0
    try:
        for life in range(kills + 2):
            if len(planes) == 2:
                time.sleep(moments.uniform(0.2, 1.4))
                if time.monotonic() > deadline - most_s / 3:
                    break
                end(planes.popleft())
                killed += 1
            planes.append(births.Process(target=main, args=(folder, url, seed * 1000 + life), daemon=True))
            planes[-1].start()
        while store.jobs(active_only=True, most=1) and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        for plane in planes:
            end(plane)
    return killed


def end(plane: Any) -> None:
    """Kill a process as nothing can prepare for."""
    plane.kill()
    plane.join(20)
    plane.close()


def assert_nothing_lost_or_doubled(store: Store, folder: Path, jobs: int) -> None:
    cluster = SimulatedConnector(folder / "cluster.sqlite")
    found = store.jobs(most=jobs + 1)
    assert len(found) == jobs
    assert {job.phase for job in found} <= FINAL
    for job in found:
        assert job.phase is Phase.COMPLETED, (job.order.name, job.reason)
        for sub_job in job.sub_jobs:
            assert len(cluster.jobs_of_key(sub_job.key)) <= 1, (job.order.name, sub_job.key)


@pytest.mark.slow
def test_twenty_kills_lose_nothing_and_run_nothing_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'plane.sqlite'}"
    store = Store(Database(url))
    assert kill_and_finish(store, tmp_path, url, jobs=60, kills=20, seed=3, most_s=180) == 20
    assert_nothing_lost_or_doubled(store, tmp_path, 60)
