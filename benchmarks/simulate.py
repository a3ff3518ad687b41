"""How many jobs the engine schedules per second, and how that compares with another simulator in the same run.

Prints one JSON object. `jobs_per_s` times the engine call on arrays already in memory, after a warm-up: the
median and the best of many calls. Logs: the first 10,000 jobs, after the archive rules, of HPC2N and of the
Lublin-Feitelson sample where the folder of real traces has them, else of two generated workloads.

AccaSim 1.1.3 (pip install 'presage[bench]') replays the same HPC2N jobs under FIFO with first fit; its time is
that of `start_simulation`, without reading its configuration.

    python benchmarks/simulate.py [--calls 30] [--out FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import presage
from presage.policies import Policy
from presage.simulator import Jobs, jobs_of, simulate
from presage.simulator.pooled import schedule
from presage.traces import read_trace
from presage.traces.cleaning import clean
from presage.traces.workloads import make_model
from presage.traces.writers import write_trace

if TYPE_CHECKING:
    from presage.traces import Trace

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"
JOBS = 10_000
POLICIES = (
    "fcfs", "sjf", "fcfs+easy", "fcfs+easy-sjbf", "sjf+easy", "saf+easy", "f1+easy", "wfp3+easy", "unicep+easy",
    "fcfs+conservative",
)  # fmt: skip
SATURATED = ("fcfs", "sjf", "fcfs+easy", "sjf+easy", "saf+easy", "f1+easy", "ljf+easy", "fcfs+easy-sjbf")
QUEUES = (25_000, 100_000, 400_000)
ACCASIM = """
import collections, collections.abc, json, logging, sys, time
for name in ("Mapping", "MutableMapping", "Iterable", "Sequence", "Callable"):
    setattr(collections, name, getattr(collections.abc, name))
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import FirstInFirstOut
from accasim.base.simulator_class import Simulator
logging.disable(logging.CRITICAL)
workload, processors, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
system = folder + "/system.json"
json.dump({"groups": {"g": {"core": 1, "mem": 10**9}}, "resources": {"g": processors}}, open(system, "w"))
simulator = Simulator(workload, system, FirstInFirstOut(FirstFit()), scheduling_output=True, pprint_output=False,
    benchmark_output=False, statistics_output=False, show_statistics=False, RESULTS_FOLDER_PATH=folder)
begin = time.perf_counter()
simulator.start_simulation()
print("seconds", time.perf_counter() - begin)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    arguments = parser.parse_args()
    hpc2n, lublin = load("HPC2N-2002-2.2-cln", 240), load("model-lublin_256", 256)
    result = {
        "benchmark": "simulate",
        "version": presage.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "pooled": {
            trace.manifest.name: {policy: measure(trace, policy, arguments.calls) for policy in POLICIES}
            for trace in (hpc2n, lublin)
        },
        "saturated": measure_saturated(),
        "running_us_per_job": measure_running(),
        "accasim": compare_with_accasim(hpc2n, arguments.calls),
    }
    text = json.dumps(result, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


def load(name: str, processors: int) -> Trace:
    """Return the first jobs of a real log, or of a generated one for a machine of that size."""
    path = REAL / f"{name}.swf.gz"
    if path.is_file():
        trace = clean(read_trace(path), ["archive"])
    else:
        settings = {"processors": processors, "load": 0.7, "estimate": "modal"}
        trace = clean(make_model("lublin", settings).generate(2 * JOBS, seed=processors), ["archive"])
    return trace.with_jobs(trace.jobs.head(JOBS))


def measure(trace: Trace, policy: str, calls: int) -> dict[str, Any]:
    """Return jobs per second of one policy."""
    jobs = jobs_of(trace)
    processors = int(trace.manifest.machine.cpus or 0)
    times = [call(jobs, processors, policy) for _ in range(calls + 1)][1:]
    return {
        "jobs_per_s_median": round(len(jobs) / statistics.median(times)),
        "jobs_per_s_best": round(len(jobs) / min(times)),
    }


def call(jobs: Jobs, processors: int, policy: str) -> float:
    """Return the seconds of one engine call."""
    parsed = Policy.parse(policy)
    begin = time.perf_counter()
    schedule(jobs, processors, parsed)
    return time.perf_counter() - begin


def measure_saturated() -> dict[str, Any]:
    """Return the time per job when all jobs arrive at once on 256 processors, for several lengths of the queue."""
    return {policy: measure_growth(policy, 256, 128, QUEUES) for policy in SATURATED}


def measure_running() -> dict[str, Any]:
    """Return the time per job when a machine runs as many jobs at once as it has processors, and more wait."""
    return {
        str(processors): measure_growth("fcfs+easy", processors, 1, (150_000,))["us_per_job"]["150000"]
        for processors in (1_000, 10_000, 100_000)
    }


def measure_growth(policy: str, processors: int, largest: int, counts: tuple[int, ...]) -> dict[str, Any]:
    """Return the microseconds per job for each number of jobs, and by what they grow from one to the next."""
    times = {}
    for count in counts:
        rng = np.random.default_rng(count)
        runs = rng.integers(1_000, 10_000_000, count)
        sizes = rng.integers(1, largest + 1, count)
        jobs = Jobs(np.zeros(count, np.int64), runs, runs, runs, runs, sizes)
        call(jobs, processors, policy)
        times[count] = min(call(jobs, processors, policy) for _ in range(3)) / count
    growth = [times[longer] / times[shorter] for shorter, longer in pairwise(counts)]
    return {
        "us_per_job": {str(count): round(seconds * 1e6, 3) for count, seconds in times.items()},
        "growth_for_4_times_the_jobs": [round(factor, 2) for factor in growth],
    }


def compare_with_accasim(trace: Trace, calls: int) -> dict[str, Any] | None:
    """Return both simulators' jobs per second under strict FIFO, or None where AccaSim is not installed."""
    if importlib.util.find_spec("accasim") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        workload = Path(folder) / "workload.swf"
        write_trace(trace, workload)
        processors = str(int(trace.manifest.machine.cpus or 0))
        command = [sys.executable, "-W", "ignore", "-c", ACCASIM, str(workload), processors, folder]
        finished = subprocess.run(command, check=True, capture_output=True, text=True)
        their_starts = accasim_starts(Path(folder) / "sched-workload.swf")
    seconds = float(finished.stdout.rpartition("seconds")[2])
    theirs = len(trace) / seconds
    ours = measure(trace, "fcfs", calls)["jobs_per_s_median"]
    simulated = simulate(trace, "fcfs").trace.jobs
    our_starts = zip(simulated["job_id"], simulated["start_ms"] - trace.manifest.origin_ms, strict=True)
    return {
        "jobs": len(trace),
        "accasim_jobs_per_s": round(theirs),
        "presage_jobs_per_s": ours,
        "ratio": round(ours / theirs),
        "equal_starts": sum(their_starts.get(job) == start for job, start in our_starts),
    }


def accasim_starts(schedule_file: Path) -> dict[str, int]:
    """Return the start of every job, in milliseconds of the log's own clock, from AccaSim's dispatching plan."""
    starts = {}
    for line in schedule_file.read_text().splitlines():
        job, _, times = line.split("__")
        start = datetime.fromisoformat(times.split(";")[0]).replace(tzinfo=UTC)
        starts[job.split(";")[0]] = round(start.timestamp() * 1000)
    return starts


if __name__ == "__main__":
    main()
