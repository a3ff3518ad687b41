"""What asking a Slurm about its jobs costs its controller: by commands, by slurmrestd, and as people ask.

A private Slurm gets so many waiting jobs; each way of asking is then repeated and slurmctld's own statistics
(sdiag) are read before and after. Prints one JSON object.

    python benchmarks/slurm_polling.py [--jobs 100 1000 2000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import presage
from presage.connectors.slurm import SlurmConnector
from presage.connectors.slurm.rest import SlurmRestConnector
from presage.orchestrator.plane import Pace
from presage.testing import SlurmCluster, missing_for_slurm

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED_ONE_BY_ONE = 20
WATCH_S = 2.0
HOUR_S = 3600.0
RPC = re.compile(r"^\s*(REQUEST_\w+)\s*\(\s*\d+\)\s*count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", re.MULTILINE)


def main() -> None:
    """Measure every size and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[100, 1000, 2000])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    if reason := missing_for_slurm(fast=False, rest=True):
        sys.exit(reason)
    config = {"MaxJobCount": 100_000, "MaxArraySize": 10_001}
    with SlurmCluster(nodes=1, config=config, rest=True) as slurm:
        sizes = [measure(slurm, size, arguments.repeats) for size in sorted(arguments.jobs)]
    pace = Pace()
    result = {
        "benchmark": "slurm_polling",
        "version": presage.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "polls_of_a_plane_in_an_hour": {
            "nothing happens": round(HOUR_S / pace.most_pause_s),
            "something happens all the time": round(HOUR_S / pace.least_pause_s),
        },
        "watch_squeue_in_an_hour": round(HOUR_S / WATCH_S),
        "sizes": sizes,
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


def measure(slurm: SlurmCluster, size: int, repeats: int) -> dict[str, Any]:
    """Return what each way of asking about `size` waiting jobs costs."""
    waiting = len(slurm.run(["squeue", "-h", "-r", "-o", "%A"]).split())
    for _ in range(size - waiting):
        slurm.submit(["--hold"], "true")
    ids = slurm.run(["squeue", "-h", "-o", "%A"]).split()
    commands = SlurmConnector(slurm.environment)
    rest = SlurmRestConnector(slurm.rest_socket)
    rest.client.version()
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "plane by commands": (lambda: commands.statuses(ids), repeats),
        "plane by slurmrestd": (lambda: rest.statuses(ids), repeats),
        "squeue of all": (lambda: slurm.run(["squeue"]), repeats),
        "squeue for one job": (lambda: slurm.run(["squeue", "-h", "-j", ids[0]]), ASKED_ONE_BY_ONE),
    }
    return {"jobs": len(ids), **{name: cost(slurm, ask, count) for name, (ask, count) in ways.items()}}


def cost(slurm: SlurmCluster, ask: Callable[[], object], repeats: int) -> dict[str, Any]:
    """Return the mean cost of asking: requests and time of slurmctld, time and CPU of who asks."""
    before, cpu_s = statistics_of(slurm), spent_s()
    walls_s = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        ask()
        walls_s.append(time.perf_counter() - began_s)
    used_s, after = spent_s() - cpu_s, statistics_of(slurm)
    grown = {name: (after[name][0] - before.get(name, (0, 0))[0]) / repeats for name in after}
    micros = sum(
        after[name][1] - before.get(name, (0, 0))[1] for name in after if grown[name] and "STATS" not in name
    )
    return {
        "requests": {name: count for name, count in grown.items() if count and "STATS" not in name},
        "slurmctld_ms": round(micros / repeats / 1000, 3),
        "wall_ms": [round(each * 1000, 1) for each in walls_s[:5]],
        "median_wall_ms": round(statistics.median(walls_s) * 1000, 1),
        "asker_cpu_ms": round(used_s / repeats * 1000, 1),
    }


def statistics_of(slurm: SlurmCluster) -> dict[str, tuple[int, int]]:
    """Return how often slurmctld was asked for what, and for how many microseconds it worked on that."""
    told = slurm.run(["sdiag"])
    by_type = told.partition("by message type")[2].partition("by user")[0]
    return {name: (int(count), int(total)) for name, count, total in RPC.findall(by_type)}


def spent_s() -> float:
    """Return the CPU of this process and of the commands it ran."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


if __name__ == "__main__":
    main()
