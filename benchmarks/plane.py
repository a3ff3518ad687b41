"""Measures the plane: what survives when it is killed over and over, and what ten thousand jobs cost.

    python benchmarks/plane.py                  # run what is missing
    python benchmarks/plane.py --only load      # the load alone: some minutes
    python benchmarks/plane.py --collect

Cells: `load/100`, `load/1000`, `load/10000` (jobs in flight on the simulated cluster), `faults` (1,000 jobs on a
cluster that times out, lies and answers out of order, two planes, one of them killed every 0.25 s),
`faults-postgres` (the same on PostgreSQL, which is restarted ten times), `faults-kafka` (the same as the first,
while events go to a Kafka that is restarted ten times).
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import update

from cells import run_cells, say
from presage.connectors.simulated import WORK, SimulatedConnector
from presage.database import Database
from presage.orchestrator.jobs import FINAL, Order, Phase, Place
from presage.orchestrator.plane import Pace, Plane
from presage.orchestrator.store import LOCK, Store
from presage.orchestrator.tables import JobRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).resolve().parent.parent
CELLS = ROOT / "docs" / "results" / "data" / "plane"
SIZES = (100, 1_000, 10_000)
STATUSES = 1_000
POLLS = 5
FAULT_JOBS = 1_000
FAULT_KILLS = 200
FAULT_RESTARTS = 10
FAULT_SEED = 11
MOST_S = 350.0
SETTLE_S = 60.0


def main() -> None:
    """Run the cells that are missing."""
    sys.path.insert(0, str(ROOT))
    load: dict[str, Callable[[], dict[str, Any]]] = {f"load/{size}": _loaded(size) for size in SIZES}
    facts = {"cores": os.cpu_count(), "database": "SQLite, write-ahead log", "load_s": list(os.getloadavg())}
    faults = {
        "faults": measure_faults,
        "faults-postgres": measure_postgres_faults,
        "faults-kafka": measure_kafka_faults,
    }
    run_cells("plane", __doc__ or "", CELLS, {**load, **faults}, facts)


def _loaded(size: int) -> Callable[[], dict[str, Any]]:
    return lambda: measure_load(size)


def measure_load(size: int) -> dict[str, Any]:
    """Return what so many jobs in flight cost: handing over, asking, polling, deciding."""
    with tempfile.TemporaryDirectory(prefix="presage-plane-") as name:
        folder = Path(name)
        database = Database(f"sqlite:///{folder / 'plane.sqlite'}")
        store = Store(database)
        cluster = SimulatedConnector(folder / "cluster.sqlite", nodes=2 * size)
        plane = Plane(store, {"sim": cluster})
        handed_s = _times(lambda: store.add("ann", _order()), range(size))
        began_s = time.perf_counter()
        while plane.step():
            pass
        submitted_s = time.perf_counter() - began_s
        say(f"{size}: handed over and submitted after {submitted_s:.1f} s")
        jobs = [job.job_id for job in store.jobs(most=size)]
        polls = [_poll(plane, database) for _ in range(POLLS)]
        while plane.step():  # all of them have begun to run
            pass
        found = {
            "jobs": size,
            "hand_over_ms": _quantiles(handed_s),
            "submitted_per_s": size / submitted_s,
            "status_ms": _quantiles(_statuses(store, jobs)),
            "status_beside_a_working_plane_ms": _beside_a_plane(store, cluster, jobs, database),
            "poll_ms_per_job": [1000 * each / size for each in polls],
            "ask_cluster_ms_per_job": 1000 * min(_times(lambda: cluster.statuses(_ids(size)), range(3))) / size,
            "visits_per_s": size / _visit_all(plane, database),
            "running": sum(job.state == "running" for job in store.jobs(most=size)),
        }
        database.close()
        return found


def measure_faults() -> dict[str, Any]:
    """Return what became of jobs while planes were killed."""
    with tempfile.TemporaryDirectory(prefix="presage-faults-") as name:
        return _faults(Path(name), f"sqlite:///{Path(name) / 'plane.sqlite'}")


def measure_postgres_faults() -> dict[str, Any]:
    """Return the same on a PostgreSQL that is restarted meanwhile, every second time after a crash."""
    from presage.testing.postgres import PostgresServer

    away_s = random.Random(FAULT_SEED)
    with PostgresServer() as server, tempfile.TemporaryDirectory(prefix="presage-faults-") as name:
        restarts = [
            partial(server.restart, crash=number % 2 == 1, away_s=away_s.uniform(0, 2))
            for number in range(FAULT_RESTARTS)
        ]
        return _faults(Path(name), server.empty_database(), restarts)


def measure_kafka_faults() -> dict[str, Any]:
    """Return the same as the first while events go to a Kafka that is restarted, and callbacks come from it."""
    from tests.orchestrator.bus.brokers import LastingBroker
    from tests.orchestrator.bus.traffic import Traffic

    away_s = random.Random(FAULT_SEED)
    with tempfile.TemporaryDirectory(prefix="presage-faults-") as name:
        folder, url = Path(name), f"sqlite:///{Path(name) / 'plane.sqlite'}"
        database, broker = Database(url), LastingBroker(folder)
        try:
            with Traffic(database, broker) as traffic:
                restarts = [partial(traffic.restart, away_s.uniform(0, 2)) for _ in range(FAULT_RESTARTS)]
                found = _faults(folder, url, restarts)
                traffic.settle(SETTLE_S)
            forgotten = traffic.forgotten
            kafka = {
                "broker": broker.kind, "stored": sum(found["events"].values()), "came": len(traffic.events),
                "came_again": traffic.events.total() - len(traffic.events), "forgotten": forgotten[0],
                "missing": len(traffic.missing_events()), "callbacks": len(traffic.sent),
                "callbacks_taken": len(traffic.callbacks), "callbacks_forgotten": forgotten[1],
                "callbacks_missing": len(traffic.missing_callbacks()),
            }  # fmt: skip
        finally:
            broker.stop()
            database.close()
    return {**found, "kafka": kafka}


def _faults(folder: Path, url: str, restarts: Sequence[Callable[[], object]] = ()) -> dict[str, Any]:
    from tests.orchestrator.test_killing import kill_and_finish

    database = Database(url)
    store = Store(database)
    made: list[object] = []
    counted = [partial(_count, each, made) for each in restarts]
    began_s = time.perf_counter()
    kills = kill_and_finish(
        store, folder, url, jobs=FAULT_JOBS, kills=FAULT_KILLS, seed=FAULT_SEED, most_s=MOST_S, restarts=counted
    )
    took_s = time.perf_counter() - began_s
    jobs = store.jobs(most=2 * FAULT_JOBS)
    cluster = SimulatedConnector(folder / "cluster.sqlite")
    copies = [len(cluster.jobs_of_key(each.key)) for job in jobs for each in job.sub_jobs]
    kinds = _counted(_all_events(store))
    database.close()
    return {
        "jobs": FAULT_JOBS, "kills": kills, "restarts": len(made), "took_s": took_s,
        "lost": FAULT_JOBS - len(jobs), "final": sum(job.phase in FINAL for job in jobs),
        "phases": _counted(job.phase.value for job in jobs),
        "failures": _counted(job.reason for job in jobs if job.phase is Phase.FAILED),
        "cluster_jobs": sum(copies), "sub_jobs": len(copies),
        "doubled": sum(count > 1 for count in copies), "events": kinds, "load": os.getloadavg()[0],
    }  # fmt: skip


def _count(act: Callable[[], object], made: list[object]) -> None:
    act()
    made.append(act)


def _order() -> Order:
    place = Place("sim", walltime_s=2e6, limit_s=2e6)
    return Order("load", "#!/bin/sh\n", (place,), environment={WORK: "1e6"})


def _ids(size: int) -> list[str]:
    return [str(number) for number in range(1, size + 1)]


def _poll(plane: Plane, database: Database) -> float:
    """Return how long one question about all jobs takes, with all that is written because of it."""
    from presage.orchestrator.tables import ClusterRow

    with database.writing(LOCK) as session:
        session.execute(update(ClusterRow).values(due_at=plane.now()))
    return _times(lambda: plane._poll("sim"), range(1))[0]


def _visit_all(plane: Plane, database: Database) -> float:
    """Return how long it takes to look at every job once: facts, rules, and when to look again."""
    with database.writing(LOCK) as session:
        session.execute(update(JobRow).values(due_at=plane.now()))
    began_s = time.perf_counter()
    while plane.step():
        pass
    return time.perf_counter() - began_s


def _statuses(store: Store, jobs: list[str]) -> list[float]:
    chosen = random.Random(1).choices(jobs, k=STATUSES)
    return _times(store.get, chosen)


def _beside_a_plane(
    store: Store, cluster: SimulatedConnector, jobs: list[str], database: Database
) -> dict[str, float]:
    """Return how long asking takes while a plane polls and visits as fast as it can."""
    stop = threading.Event()
    busy = Pace(least_pause_s=0, most_pause_s=0, idle_s=0)
    plane = Plane(store, {"sim": cluster}, name="busy", pace=busy)
    worker = threading.Thread(target=plane.run, args=(stop, 0.0))
    with database.writing(LOCK) as session:
        session.execute(update(JobRow).values(due_at=plane.now()))
    worker.start()
    try:
        return _quantiles(_statuses(store, jobs))
    finally:
        stop.set()
        worker.join()


def _all_events(store: Store) -> Iterable[str]:
    after = 0
    while events := store.events(after):
        after = events[-1].number
        yield from (event.kind for event in events)


def _times(act: Callable[[Any], Any] | Callable[[], Any], over: Iterable[Any]) -> list[float]:
    """Return how long each call takes, in seconds; it gets the element if it wants one."""
    takes_one = act.__name__ != "<lambda>"
    times = []
    for each in over:
        began_s = time.perf_counter()
        act(each) if takes_one else act()  # type: ignore[call-arg]  # as its name says
        times.append(time.perf_counter() - began_s)
    return times


def _quantiles(times_s: list[float]) -> dict[str, float]:
    return {f"p{share}": float(1000 * np.percentile(times_s, share)) for share in (50, 99)}


def _counted(values: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


if __name__ == "__main__":
    main()
