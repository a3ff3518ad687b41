"""How long it takes to place jobs on nodes: a real GPU cluster under every placement rule, and growth with size.

Prints one JSON object. Two measurements:

- `openb`: the pods of Alibaba's GPU cluster of 2023 on its 1,523 nodes where the folder of real traces has them,
  else a generated workload of that size. Once with their recorded arrivals (those that ran), once all at t = 0 and
  for good, with the GPU allocation and fragmentation that each rule reaches.
- `scale`: generated clusters of six kinds of nodes in racks of 32, ten jobs per node, gangs among them, under
  every placement rule with every backfilling, at two offered loads: at 0.9 some rules leave no queue, at 1.2 none
  does. Each row runs in a process of its own for its peak memory.

Seconds are of the engine with its arrays, after a warm-up; `cpu_s` is the processor time of the same call, which a
busy machine disturbs less.

    python benchmarks/placed.py [--nodes 1000 10000 100000] [--loads 0.9 1.2] [--limit-s 3600] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import presage
from presage.policies.placements import PLACED_BACKFILLINGS, PLACEMENTS, PlacedPolicy
from presage.simulator import Jobs
from presage.simulator.nodes import Nodes, PlacedJobs, placed_jobs_of
from presage.simulator.placed import gpu_fragmentation, placeable, schedule_placed
from presage.traces import read_trace
from presage.traces.cleaning import clean
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.simulator.placed import Schedule
    from presage.traces import Trace

OPENB = Path(__file__).resolve().parents[2] / "shared" / "data" / "openb"
PODS = 8_152
ROUNDS = 3
JOBS_PER_NODE = 10
LOADS = (0.9, 1.2)
NODES_PER_RACK = 32
HOUR_MS = 3_600_000
MIB_PER_GIB = 1024
# Processors, memory in GiB, GPUs, bit of the GPU type, share of the racks.
HARDWARE = (
    (64, 256, 0, 1, 0.30),
    (128, 1024, 0, 1, 0.10),
    (32, 128, 2, 2, 0.15),
    (96, 384, 4, 4, 0.10),
    (96, 768, 8, 8, 0.20),
    (128, 1024, 8, 16, 0.15),
)
# Jobs with processors only, gangs of them, shares of a GPU, whole GPUs, gangs on whole nodes.
KINDS_OF_JOBS = (0.37, 0.03, 0.25, 0.32, 0.03)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    parser.add_argument("--loads", type=float, nargs="*", default=list(LOADS), help="offered loads")
    parser.add_argument("--limit-s", type=float, default=3600, help="give up on a row after so long")
    parser.add_argument(
        "--row", nargs=3, metavar=("NODES", "LOAD", "POLICY"), help="measure one row of `scale` only"
    )
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    arguments = parser.parse_args()
    if arguments.row:
        nodes, load, policy = arguments.row
        print(json.dumps(measure_row(int(nodes), float(load), policy)))
        return
    # A process inherits the peak memory of its parent, which must not have grown yet.
    scale = measure_scale(arguments.nodes, arguments.loads, arguments.limit_s)
    result = {
        "benchmark": "placed",
        "version": presage.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "openb": measure_openb(),
        "scale": scale,
    }
    text = json.dumps(result, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


def measure_openb() -> dict[str, Any]:
    """Return what the rules do with the pods of one cluster."""
    if OPENB.is_dir():
        lists = ("openb_pod_list_default.csv.gz", "openb_node_list_all_node.csv.gz")
        trace = read_trace(*(OPENB / name for name in lists))
    else:
        trace = make_model("gpu-cluster", {"load": 0.9}).generate(PODS, seed=1)
    arriving = clean(trace, ["drop-unrun"])
    at_once = trace.with_jobs(trace.jobs.with_columns(submit_ms=pl.lit(0, pl.Int64), run_s=pl.lit(1e6)))
    return {
        "trace": trace.manifest.name,
        "nodes": len(trace.nodes),
        "pods": {"recorded": len(arriving), "at_once": len(at_once)},
        "rules": {placement: measure_rule(arriving, at_once, placement) for placement in PLACEMENTS},
    }


def measure_rule(arriving: Trace, at_once: Trace, placement: str) -> dict[str, Any]:
    """Return times of all rounds, and what is allocated and fragmented when all pods come at once."""
    policy = PlacedPolicy("fcfs", "skip", placement)
    times: dict[str, list[float]] = {}
    for name, trace in (("recorded", arriving), ("at_once", at_once)):
        jobs, nodes = placed_jobs_of(trace)
        schedule_placed(jobs.select(np.arange(2)), nodes, policy)
        times[name] = [round(call(jobs, nodes, policy)[0], 3) for _ in range(ROUNDS)]
    schedule = schedule_placed(jobs, nodes, policy)
    running = schedule.start_ms == 0
    allocated = (jobs.tasks * (jobs.gpus * 1000 + jobs.gpu_milli))[running].sum()
    return {
        "recorded_s": times["recorded"],
        "at_once_s": times["at_once"],
        "placed_at_once": int(running.sum()),
        "gpu_allocation": round(float(allocated) / (1000 * int(nodes.gpus.sum())), 4),
        "gpu_fragmentation": round(gpu_fragmentation(jobs, nodes, schedule, 0), 4),
    }


def measure_scale(sizes: list[int], loads: list[float], limit_s: float) -> list[dict[str, Any]]:
    """Return a row for each size, load, backfilling and rule."""
    rows = []
    for nodes, load, backfilling, placement in product(sizes, loads, PLACED_BACKFILLINGS, PLACEMENTS):
        row = {"nodes": nodes, "load": load, "backfilling": backfilling, "placement": placement}
        policy = str(PlacedPolicy("fcfs", backfilling, placement))
        command = [sys.executable, __file__, "--row", str(nodes), str(load), policy]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit_s)
            row |= json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            row["given_up_after_s"] = limit_s
        rows.append(row)
        print(json.dumps(row), file=sys.stderr)
    return rows


def measure_row(count: int, load: float, policy_text: str) -> dict[str, Any]:
    """Return what one simulation took; peak memory is that of this process."""
    rng = np.random.default_rng(count)
    nodes = make_nodes(count, rng)
    jobs = make_jobs(JOBS_PER_NODE * count, nodes, load, rng)
    policy = PlacedPolicy.parse(policy_text)
    schedule_placed(jobs.select(np.arange(2)), nodes, policy)
    before_bytes = peak_bytes()
    seconds, cpu_s, schedule = call(jobs, nodes, policy)
    wait_ms = schedule.start_ms - jobs.jobs.submit_ms
    return {
        "jobs": len(jobs),
        "members": len(schedule.node),
        "seconds": round(seconds, 2),
        "cpu_s": round(cpu_s, 2),
        "jobs_per_cpu_s": round(len(jobs) / cpu_s),
        "before_bytes": before_bytes,
        "peak_bytes": peak_bytes(),
        "mean_wait_s": round(float(wait_ms.mean()) / 1000, 1),
        "waited": round(float((wait_ms > 0).mean()), 4),
    }


def call(jobs: PlacedJobs, nodes: Nodes, policy: PlacedPolicy) -> tuple[float, float, Schedule]:
    """Return the wall and processor seconds of one engine call, and its schedule."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    schedule = schedule_placed(jobs, nodes, policy)
    return time.perf_counter() - begin, time.process_time() - begin_cpu, schedule


def peak_bytes() -> int:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def make_nodes(count: int, rng: np.random.Generator) -> Nodes:
    """Return nodes of six kinds, the same kind throughout a rack."""
    columns = np.array([kind[:4] for kind in HARDWARE], np.int64)
    weights = [kind[4] for kind in HARDWARE]
    rack = np.arange(count) // NODES_PER_RACK
    cpus, mem_gib, gpus, type_bit = columns[rng.choice(len(HARDWARE), rack[-1] + 1, p=weights)[rack]].T
    return Nodes(cpus * 1000, mem_gib * MIB_PER_GIB, gpus, type_bit, np.zeros(count, np.int64), rack)


def make_jobs(count: int, nodes: Nodes, load: float, rng: np.random.Generator) -> PlacedJobs:
    """Return jobs in about 300 shapes that offer `load` of the nodes' processors or GPUs, whichever is busier.

    Run times are lognormal, plans up to five times as long. Jobs that fit on no empty machine are left out.
    """
    kind = rng.choice(len(KINDS_OF_JOBS), count, p=KINDS_OF_JOBS)

    def draw(*options: list[int]) -> NDArray[np.int64]:
        return np.choose(kind, [rng.choice(each, count) for each in options]).astype(np.int64)

    tasks = draw([1], [2, 4, 8, 16, 32], [1], [1], [2, 2, 4, 8, 16])
    gpus = draw([0], [0], [0], [1, 1, 1, 2, 2, 4, 8], [8])
    share = draw([0], [0], [100, 200, 250, 300, 500, 500, 600, 750], [0], [0])
    cpus = draw([1, 2, 4, 8, 16, 32], [16, 32, 64], [2, 4, 6, 8], [4, 8, 11], [8, 11]) * np.maximum(gpus, 1)
    mem_gib = draw([2, 4, 8], [2, 4], [2, 4], [4, 8], [8]) * cpus
    types = np.where(gpus + share == 0, -1, draw([1], [1], [-1, -1, 6, 16], [-1, -1, 24, 8], [-1, 16]))
    run_ms = (rng.lognormal(0, 1.2, count) * HOUR_MS).astype(np.int64) + 1000
    plan_ms = (run_ms * rng.uniform(1, 5, count)).astype(np.int64) // 60_000 * 60_000 + 60_000
    none = np.zeros(count, np.int64)
    base = Jobs(none, run_ms, plan_ms, plan_ms, plan_ms, np.maximum(gpus * tasks, 1))
    drawn = PlacedJobs(base, tasks, cpus * 1000, mem_gib * MIB_PER_GIB, gpus, share, types, none)
    jobs = drawn.select(np.flatnonzero(placeable(drawn, nodes)))
    work = (jobs.jobs.run_ms * jobs.tasks).astype(np.float64)
    busiest = max(
        (work * jobs.cpu_milli).sum() / nodes.cpu_milli.sum(),
        (work * (jobs.gpus * 1000 + jobs.gpu_milli)).sum() / (1000 * nodes.gpus.sum()),
    )
    submit_ms = np.sort(rng.uniform(0, busiest / load, len(jobs))).astype(np.int64)
    return replace(jobs, jobs=replace(jobs.jobs, submit_ms=submit_ms))


if __name__ == "__main__":
    main()
