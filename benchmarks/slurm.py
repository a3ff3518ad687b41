"""How close the simulator comes to a real Slurm that runs the same jobs.

For each seed a workload of whole-node jobs is drawn (sizes and run times of the Lublin-Feitelson model, run times
shrunk), submitted to a private Slurm on a fast clock, and run there for real. The simulator then gets the submit
times and run times that Slurm saw, to the millisecond, and its starts are compared with Slurm's. Every seed is run
twice, so that the table can say how far Slurm is from itself. Prints one JSON object.

Each run is kept in a folder and not repeated; delete it to run it again. The model has only default settings. It
was developed on the seeds 101, 102 and, after a first comparison, 1 to 3, and frozen before the seeds here ran.

    python benchmarks/slurm.py [--seeds 4 5 6] [--replays FOLDER] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import presage
from presage.policies import PeriodicBackfill, Policy
from presage.simulator import Jobs
from presage.simulator.periodic import pace_of
from presage.simulator.pooled import schedule
from presage.testing import SlurmCluster, missing_for_slurm
from presage.traces.workloads import make_model

NODES = 32
WINDOW_S = 4500
LOAD = 1.05
SHRINK = 15
RATE = 20
RUNS = 2
LEAST_WAIT_S = 3.0
"""Waits below this count as equal in the rank correlation: Slurm leaves as much between two passes."""
POLICIES = ("fcfs+periodic", "fcfs+easy", "fcfs+conservative", "fcfs")
REPLAYS = Path(__file__).resolve().parents[1] / "docs" / "results" / "data" / "slurm"
EVENT = re.compile(
    r"^\[(?P<time>\S+)\] (?:"
    r"_slurm_rpc_submit_batch_job: JobId=(?P<submit>\d+) "
    r"|sched: Allocate JobId=(?P<main>\d+) NodeList=(?P<main_nodes>\S+) "
    r"|sched/backfill: _start_job: Started JobId=(?P<backfill>\d+) in main on (?P<backfill_nodes>\S+)"
    r"|_job_complete: JobId=(?P<end>\d+) done"
    r"|sched/backfill: _attempt_backfill: (?P<cycle>beginning)"
    r"|sched/backfill: _attempt_backfill: (?P<cycle_end>completed) testing)",
    re.MULTILINE,
)


def main() -> None:
    """Replay what is missing, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6])
    parser.add_argument("--replays", type=Path, default=REPLAYS, help="where the runs in Slurm are kept")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    arguments = parser.parse_args()
    arguments.replays.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in arguments.seeds:
        runs = [load(arguments.replays / f"seed-{seed}-run-{run}.json", seed) for run in range(1, RUNS + 1)]
        rows.append(compare(seed, runs))
    result = {
        "benchmark": "slurm",
        "version": presage.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "setting": {"nodes": NODES, "window_s": WINDOW_S, "load": LOAD, "clock_rate": RATE},
        "model": "fcfs+periodic with all defaults, developed on seeds 101, 102, 1, 2, 3, frozen before these ran",
        "seeds": rows,
        "total": total(rows),
    }
    text = json.dumps(result, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


def draw(seed: int) -> dict[str, list[int]]:
    """Return submit times, nodes, run times and limits of a workload that keeps all nodes busy for the window."""
    drawn = make_model("lublin", {"processors": NODES}).generate(2000, seed=seed).jobs
    rng = np.random.default_rng([seed, 7])
    run_s = np.clip(np.round(drawn["run_s"].to_numpy() / SHRINK), 10, 1800).astype(int)
    nodes = drawn["cpus_req"].to_numpy().astype(int)
    count = int(np.searchsorted(np.cumsum(run_s * nodes), LOAD * NODES * WINDOW_S)) + 1
    run_s, nodes = run_s[:count], nodes[:count]
    asked = np.where(rng.random(count) < 0.2, 1.0, np.exp(rng.uniform(0, np.log(8), count)))
    return {
        "nodes": nodes.tolist(),
        "run_s": run_s.tolist(),
        "limit_min": np.ceil((run_s * asked + 20) / 60).astype(int).tolist(),
        "submit_s": np.sort(np.round(rng.uniform(0, WINDOW_S, count))).astype(int).tolist(),
    }


def load(path: Path, seed: int) -> dict[str, Any]:
    """Return a run in Slurm: the one in the file, or a new one, which then is in the file."""
    if not path.is_file():
        if reason := missing_for_slurm():
            sys.exit(f"No Slurm to run {path.name} in: {reason}")
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(replay(draw(seed))) + "\n")
        partial.replace(path)
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


def replay(work: dict[str, list[int]]) -> dict[str, Any]:
    """Return what Slurm did with a workload, times in milliseconds since 1970 on its clock."""
    late_s = []
    config = {"DebugFlags": "Backfill", "SlurmctldDebug": "debug"}
    with SlurmCluster(nodes=NODES, rate=RATE, config=config) as slurm:
        zero_s = slurm.now_s() + 60
        rows = zip(work["submit_s"], work["nodes"], work["run_s"], work["limit_min"], strict=True)
        for submit_s, nodes, run_s, limit_min in rows:
            slurm.sleep_until(zero_s + submit_s)
            late_s.append(slurm.now_s() - zero_s - submit_s)
            slurm.submit([f"--nodes={nodes}", f"--time={limit_min}", "--exclusive"], f"sleep {run_s}")
        slurm.wait_for_jobs(timeout_s=1800, poll_s=1)
        log = slurm.log()
    seen = read_log(log, len(work["nodes"]))
    seen["late_s"] = {"mean": round(statistics.mean(late_s), 3), "max": round(max(late_s), 3)}
    return {"nodes": work["nodes"], "limit_min": work["limit_min"], "run_s": work["run_s"], **seen}


def read_log(log: str, count: int) -> dict[str, Any]:
    """Return the times of every job and cycle, by the controller's log."""
    times = {name: [0] * count for name in ("submit_ms", "start_ms", "end_ms")}
    where: list[list[int]] = [[] for _ in range(count)]
    backfilled = [False] * count
    cycles: list[list[int]] = []
    for found in EVENT.finditer(log):
        instant = round(datetime.fromisoformat(found["time"]).replace(tzinfo=UTC).timestamp() * 1000)
        if found["cycle"]:
            cycles.append([instant, instant])
        elif found["cycle_end"]:
            cycles[-1][1] = instant
        elif job := found["submit"] or found["end"]:
            times["submit_ms" if found["submit"] else "end_ms"][int(job) - 1] = instant
        else:
            job = int(found["main"] or found["backfill"]) - 1
            times["start_ms"][job] = instant
            where[job] = node_numbers(found["main_nodes"] or found["backfill_nodes"])
            backfilled[job] = found["backfill"] is not None
    return {**times, "where": where, "backfilled": backfilled, "cycles_ms": cycles}


def node_numbers(names: str) -> list[int]:
    """Return the numbers, from 0, of nodes written as `n7` or `n[1-3,8]`."""
    parts = [part.partition("-") for part in names.removeprefix("n").strip("[]").split(",")]
    return [number - 1 for first, _, last in parts for number in range(int(first), int(last or first) + 1)]


def jobs_of(run: dict[str, Any]) -> Jobs:
    """Return the jobs with the submit times and run times that Slurm saw."""
    start, end = np.array(run["start_ms"]), np.array(run["end_ms"])
    limit = np.array(run["limit_min"]) * 60_000
    return Jobs(
        np.array(run["submit_ms"]), np.maximum(end - start, 1), limit, limit, limit, np.array(run["nodes"])
    )


def compare(seed: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one row: what Slurm did in each run, how far each policy is from it, how far the runs are apart."""
    described = []
    for run in runs:
        jobs = jobs_of(run)
        simulated = {policy: schedule(jobs, NODES, Policy.parse(policy)) for policy in POLICIES}
        cycles = decisions(run)
        described.append(
            {
                "mean_wait_s": round(float(waits_s(run).mean()), 1),
                "backfilled": sum(run["backfilled"]),
                "mean_overhead_s": round(float(np.mean(jobs.run_ms / 1000 - np.array(run["run_s"]))), 2),
                "late_s": run["late_s"],
                "cycles_with_queue": len(cycles),
                "cycles_with_equal_starts": sum(cycles),
                "policies": {
                    policy: distance(run, (start - np.array(run["submit_ms"])) / 1000)
                    for policy, start in simulated.items()
                },
            }
        )
    again = distance(runs[0], waits_s(runs[1]))
    return {"seed": seed, "jobs": len(runs[0]["nodes"]), "runs": described, "slurm_against_itself": again}


def waits_s(run: dict[str, Any]) -> np.ndarray:
    """Return how long each job waited in Slurm."""
    return (np.array(run["start_ms"]) - np.array(run["submit_ms"])) / 1000


def distance(run: dict[str, Any], wait_s: np.ndarray) -> dict[str, float]:
    """Return how far waits are from those of a run in Slurm. Starts are compared by wait, as submits are equal."""
    real_s = waits_s(run)
    submit_s = np.array(run["submit_ms"]) / 1000
    error_s = np.abs(wait_s - real_s)
    return {
        "mean_wait_s": round(float(wait_s.mean()), 1),
        "relative_error": round(float(wait_s.mean() / real_s.mean() - 1), 4),
        "mean_start_error_s": round(float(error_s.mean()), 1),
        "median_start_error_s": round(float(np.median(error_s)), 1),
        "rank_correlation_of_waits": rank_correlation(
            np.maximum(wait_s, LEAST_WAIT_S), np.maximum(real_s, LEAST_WAIT_S)
        ),
        "rank_correlation_of_all_waits": rank_correlation(wait_s, real_s),
        "rank_correlation_of_starts": rank_correlation(submit_s + wait_s, submit_s + real_s),
    }


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's correlation; equal values share the mean of their ranks."""
    return round(float(np.corrcoef(mean_ranks(first), mean_ranks(second))[0, 1]), 4)


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks, the mean of them for equal values."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def decisions(run: dict[str, Any]) -> list[bool]:
    """Return for every cycle with a queue whether the model, in the state Slurm was in, starts the same jobs."""
    from presage.simulator import _places

    submit, start, end = (np.array(run[name]) for name in ("submit_ms", "start_ms", "end_ms"))
    plan, size = np.array(run["limit_min"]) * 60_000, np.array(run["nodes"])
    pace = pace_of(PeriodicBackfill(), jobs_of(run))
    equal = []
    for begin, done in run["cycles_ms"]:
        line = np.flatnonzero((submit <= begin) & (start >= begin))
        if not len(line):
            continue
        owner = np.full(NODES, _places.NOBODY, np.int64)
        holding = np.flatnonzero((start < begin) & (end > begin))
        for job in holding:
            owner[run["where"][job]] = job
        # Slurm keeps whole seconds.
        planned = start[holding] // 1000 * 1000 + plan[holding]
        order = np.argsort(planned, kind="stable")
        scratch = np.zeros((2, len(submit)), np.int64)
        now = int(begin) // 1000 * 1000
        starts = _places.start_in_places(
            line, now, plan, size, planned[order], holding[order], len(order), owner, scratch, pace
        )
        started = [bool(start[job] <= done and run["backfilled"][job]) for job in line]
        equal.append(starts.tolist() == started)
    return equal


def total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return mean, least and most of every distance over all runs."""
    runs = [run for row in rows for run in row["runs"]]
    kinds = {policy: [run["policies"][policy] for run in runs] for policy in POLICIES}
    kinds["slurm_against_itself"] = [row["slurm_against_itself"] for row in rows]
    return {
        kind: {name: spread([abs(each[name]) for each in found]) for name in found[0] if name != "mean_wait_s"}
        for kind, found in kinds.items()
    }


def spread(values: list[float]) -> dict[str, float]:
    """Return mean, least and most."""
    return {"mean": round(statistics.mean(values), 4), "min": min(values), "max": max(values)}


if __name__ == "__main__":
    main()
