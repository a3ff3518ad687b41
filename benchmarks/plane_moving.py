"""What it brings that the plane moves jobs: the same trainings, beside the same load, by more and fewer rules.

A simulated cluster has a few fast nodes that many want and more slow ones. Others' jobs come at random and ask for
two to five times as long as they take. Forecasts are the cluster's own, which plans with those limits, as a plane
gets them of a real one. Time is simulated; the seeds are the arrivals. Prints one JSON document.

    python benchmarks/plane_moving.py [--seeds 3] [--jobs 20]
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from presage.connectors import Submission
from presage.connectors.simulated import WORK, SimulatedConnector, SimulatedPartition
from presage.database import Database
from presage.orchestrator.jobs import FINAL, ManagedJob, Order, Place
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.rules import Rules, load_rules
from presage.orchestrator.store import Store

HOUR_S = 3600.0
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
WARM_UP_S = 12 * HOUR_S
SPAN_S = 24 * HOUR_S
STEP_S = 300.0
SPEED = 4.0
PARTITIONS = {"fast": SimulatedPartition(nodes=4, speed=SPEED), "slow": SimulatedPartition(nodes=8)}
LOAD = {"fast": 0.95, "slow": 0.5}
OTHERS_RUN_S = 2 * HOUR_S
WORK_S = 8 * HOUR_S
FAST = Place("sim", "fast", walltime_s=12 * HOUR_S, limit_s=12 * HOUR_S, work_s=WORK_S / SPEED)
SLOW = Place("sim", "slow", walltime_s=12 * HOUR_S, limit_s=12 * HOUR_S, work_s=WORK_S)
MOVING = {"join-queue", "work-meanwhile", "relieved", "relief-too-late", "move-waiting", "move-running"}
CHOOSING = {"first-elsewhere", "cascade-elsewhere"}
ARMS: dict[str, tuple[tuple[Place, ...], set[str]]] = {
    "fast nodes only": ((FAST,), set()),
    "slow nodes only": ((SLOW,), set()),
    "chosen at the beginning": ((FAST, SLOW), MOVING),
    "moved when it pays": ((FAST, SLOW), set()),
}


class World:
    """A cluster with others' jobs, and a plane, on a clock of its own."""

    def __init__(self, folder: Path, seed: int, places: tuple[Place, ...], left_out: set[str]) -> None:
        self.now = BEGIN
        self.folder = folder
        self.places = places
        self.cluster = SimulatedConnector(folder / "sim.sqlite", partitions=PARTITIONS, clock=self._seconds)
        self.store = Store(Database(f"sqlite:///{folder / 'plane.sqlite'}"), lambda: self.now)
        rules = load_rules()
        table = tuple(rule for rule in rules.table if rule.name not in left_out)
        self.plane = Plane(
            self.store, {"sim": self.cluster}, rules=Rules(table), pace=Pace(settle_s=30), waits=self._wait_s,
            now=lambda: self.now,
        )  # fmt: skip
        self._forecasts: dict[str | None, tuple[datetime, float]] = {}
        self._others = self._arrivals(Random(seed))

    def pass_time(self) -> None:
        """Let others come, and the plane work."""
        self.now += timedelta(seconds=STEP_S)
        while self._others and self._others[0][0] <= (self.now - BEGIN).total_seconds():
            _, number, partition, run_s, asked_s = heapq.heappop(self._others)
            work_s = run_s * PARTITIONS[partition].speed
            self.cluster.submit(
                Submission(
                    key=f"other-{number}", name="other", script="#!/bin/sh\n", partition=partition, nodes=1,
                    walltime_s=asked_s, environment={WORK: str(work_s)},
                )
            )  # fmt: skip
        while self.plane.step():
            pass

    def hand_over(self, number: int) -> ManagedJob:
        """Hand over one training."""
        order = Order(
            f"train-{number}", "#!/bin/sh\n", self.places, environment={WORK: str(WORK_S)},
            run_folder=str(self.folder / f"run-{number}"), work_s=self.places[0].work_s,
        )  # fmt: skip
        return self.store.add("ann", order)

    def _seconds(self) -> float:
        return self.now.timestamp()

    def _wait_s(self, _: ManagedJob, place: Place) -> float:
        """Return half of what the cluster says, as the estimator of its opinions does; asked once in a step."""
        known = self._forecasts.get(place.partition)
        if known is None or self.now - known[0] >= timedelta(seconds=STEP_S):
            start = self.cluster.start_estimate(
                Submission(
                    key="ask", name="ask", script="#!/bin/sh\n", partition=place.partition, nodes=1,
                    walltime_s=place.walltime_s,
                )
            )  # fmt: skip
            told_s = 0.0 if start is None else max(0.0, (start - self.now).total_seconds())
            known = self._forecasts[place.partition] = (self.now, 0.5 * told_s)
        return known[1]

    def _arrivals(self, random: Random) -> list[tuple[float, int, str, float, float]]:
        found: list[tuple[float, int, str, float, float]] = []
        for partition, load in LOAD.items():
            pause_s = OTHERS_RUN_S / (load * PARTITIONS[partition].nodes)
            at_s = random.expovariate(1 / pause_s)
            while at_s < WARM_UP_S + 2 * SPAN_S:
                run_s = max(60.0, random.expovariate(1 / OTHERS_RUN_S))
                found.append((at_s, len(found), partition, run_s, run_s * random.uniform(2, 5)))
                at_s += random.expovariate(1 / pause_s)
        heapq.heapify(found)
        return found


def run_arm(name: str, seed: int, jobs: int) -> dict[str, Any]:
    """Return how long the trainings of one arm took beside the load of one seed."""
    places, left_out = ARMS[name]
    random = Random(1000 + seed)
    begins_s = sorted(WARM_UP_S + random.uniform(0, SPAN_S) for _ in range(jobs))
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), seed, places, left_out)
        open_jobs: dict[str, ManagedJob] = {}
        done: list[tuple[float, ManagedJob]] = []
        while begins_s or open_jobs:
            world.pass_time()
            while begins_s and begins_s[0] <= (world.now - BEGIN).total_seconds():
                job = world.hand_over(len(begins_s))
                open_jobs[job.job_id] = job
                begins_s.pop(0)
            for job_id in list(open_jobs):
                job = world.store.get(job_id)
                if job.phase in FINAL:
                    done.append(((world.now - job.created_at).total_seconds(), job))
                    del open_jobs[job_id]
        return {
            "arm": name,
            "seed": seed,
            "mean_h": statistics.mean(took_s for took_s, _ in done) / HOUR_S,
            "longest_h": max(took_s for took_s, _ in done) / HOUR_S,
            "completed": sum(job.phase.value == "completed" for _, job in done),
            "sub_jobs": sum(len(job.sub_jobs) for _, job in done),
            "node_hours": {partition: _node_hours(done, partition) for partition in PARTITIONS},
        }


def _node_hours(done: list[tuple[float, ManagedJob]], partition: str) -> float:
    total_s = 0.0
    for _, job in done:
        for each in job.sub_jobs:
            status = each.status
            if each.place.partition == partition and status and status.start_time and status.end_time:
                total_s += (status.end_time - status.start_time).total_seconds()
    return total_s / HOUR_S


def main() -> None:
    """Run every arm beside the load of every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20)
    asked = parser.parse_args()
    cells = []
    for seed in range(asked.seeds):
        for name in ARMS:
            cells.append(run_arm(name, seed, asked.jobs))
            print(json.dumps(cells[-1]), file=sys.stderr)
    print(json.dumps({"jobs": asked.jobs, "cells": cells}, indent=1))


if __name__ == "__main__":
    main()
