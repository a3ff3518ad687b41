"""How fast a watched cluster is forecast, on one core and without torch.

Prints one JSON object. Two measurements:

- `replay`: a log (KTH-SP2 where the folder of real traces is there, else a generated one) goes through the live
  forecaster event by event; every job is forecast as it is submitted. `jobs_per_s` counts all events of a job and
  its forecast; latencies are of single forecasts after a warm-up.
- `large`: a cluster of 100,000 nodes with 50,000 running and 20,000 waiting jobs.

    python benchmarks/foundation_speed.py [--jobs 3000] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import presage
from presage.foundation.live import JobRequest, LiveForecaster
from presage.foundation.model import Model
from presage.simulator import simulate
from presage.traces import Trace, read_trace
from presage.traces.workloads import make_model

KTH = Path(__file__).resolve().parents[2] / "shared" / "data" / "KTH-SP2-1996-2.1-cln.swf.gz"
WARM_UP = 500


def log(jobs: int) -> tuple[str, Trace]:
    """Return the log to replay and its name."""
    if KTH.is_file():
        trace = read_trace(KTH)
        return "KTH-SP2", trace.with_jobs(trace.jobs.head(jobs))
    model = make_model("lublin", {"users": 40, "processors": 100, "load": 0.85})
    return "generated", simulate(model.generate(jobs=jobs, seed=1), "fcfs+easy").trace


def events(trace: Trace) -> list[tuple[float, int, str, dict[str, Any]]]:
    """Return submits, starts and ends in the order of time."""
    found = []
    for row in trace.jobs.filter(trace.jobs["end_ms"].is_not_null()).iter_rows(named=True):
        for order, name in enumerate(("submit", "start", "end")):
            found.append((row[f"{name}_ms"] / 1000, order, name, row))
    return sorted(found, key=lambda event: event[:2])


def replay(jobs: int) -> dict[str, Any]:
    """Replay a log through the live forecaster."""
    name, trace = log(jobs)
    live = LiveForecaster(Model.load(), processors=trace.manifest.machine.cpus)
    updates, forecasts = [], []
    begin = 0.0
    for number, (when, _, what, row) in enumerate(told := events(trace)):
        if number == WARM_UP:
            begin = time.perf_counter()
        before = time.perf_counter()
        if what == "submit":
            size = row["cpus_req"] or row["cpus_alloc"]
            live.submit(JobRequest(row["job_id"], user=row["user"] or "", cpus=size, limit_s=row["limit_s"]), when)
        elif what == "start":
            live.start(row["job_id"], when)
        else:
            live.end(row["job_id"], when)
        if number >= WARM_UP:
            (forecasts if what == "submit" else updates).append(time.perf_counter() - before)
    spent = time.perf_counter() - begin
    return {
        "log": name,
        "jobs": len(told) // 3,
        "jobs_per_s": round((len(told) - WARM_UP) / 3 / spent, 1),
        "forecast_ms": milliseconds(forecasts),
        "update_ms": milliseconds(updates),
        "coverage_80": {task: tracker.coverage for task, tracker in live.trackers.items()},
    }


def large() -> dict[str, Any]:
    """Ask about jobs of a cluster with 100,000 nodes."""
    rng = np.random.default_rng(0)
    live = LiveForecaster(Model.load(), processors=100_000)
    begin = time.perf_counter()
    for number in range(70_000):
        request = JobRequest(
            str(number),
            user=f"u{rng.integers(2000)}",
            cpus=float(rng.integers(1, 4)),
            limit_s=float(rng.integers(600, 86_400)),
        )
        live.submit(request, number * 0.1, forecast=False)
        if number < 50_000:
            live.start(str(number), number * 0.1)
    filled_s = time.perf_counter() - begin
    asked = []
    for number in range(300):
        before = time.perf_counter()
        live.forecast(JobRequest("new", user=f"u{number}", cpus=4, limit_s=3600), 7000.0 + number)
        asked.append(time.perf_counter() - before)
    return {
        "nodes": 100_000, "running": live.cluster.running, "waiting": live.cluster.waiting,
        "events_per_s": round(120_000 / filled_s), "forecast_ms": milliseconds(asked[20:]),
    }  # fmt: skip


def milliseconds(seconds: list[float]) -> dict[str, float]:
    """Return quantiles of latencies."""
    values = np.percentile(np.array(seconds) * 1e3, [50, 90, 99])
    return dict(zip(("p50", "p90", "p99"), (round(float(value), 3) for value in values), strict=True))


def main() -> None:
    """Measure, and print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=6000)
    parser.add_argument("--out", type=Path, help="write the JSON there as well")
    arguments = parser.parse_args()
    replay(WARM_UP)  # compile
    result = {
        "benchmark": "foundation_speed", "version": presage.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "python": platform.python_version(),
        "torch_loaded": "torch" in sys.modules, "replay": replay(arguments.jobs), "large": large(),
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
