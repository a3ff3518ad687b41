"""How fast a log becomes a job table, and how little memory a long one takes.

Prints one JSON object. Three measurements:

- `ricc`: reading a log of 447,794 jobs into the canonical table, against `pandas.read_csv` merely loading the
  same file. Rounds alternate between the two, so that a busy machine slows both. Uses RICC-2010-2.swf.gz of the
  Parallel Workloads Archive if `--log` or the folder of real traces has it, else a generated log of that length.
- `ricc_one_core`: the same with this process bound to one core, where parsing beside decompression gains nothing.
- `stream`: `presage trace convert` of a generated log of ten million jobs, with its peak memory.

    python benchmarks/trace_read.py [--log FILE] [--rounds 7] [--stream-jobs 10000000] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import presage
from presage.traces import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable

RICC_JOBS = 447_794
RICC = Path(__file__).resolve().parents[2] / "shared" / "data" / "RICC-2010-2.swf.gz"
STREAM_LIMIT_BYTES = 3 * 2**30
COMMAND = [sys.executable, "-c", "from presage.cli.main import run; run()"]


def main() -> None:
    """Run both measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, help="the log to read")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--stream-jobs", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = arguments.log or example_log(Path(folder))
        result = {
            "benchmark": "trace_read",
            "version": presage.__version__,
            "date": datetime.now(UTC).date().isoformat(),
            "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "pandas": pd.__version__},
            "ricc": measure_reading(log, arguments.rounds),
            "ricc_one_core": measure_on_one_core(log, arguments.rounds),
            "stream": measure_streaming(Path(folder), arguments.stream_jobs),
        }
    text = json.dumps(result, indent=2)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


def example_log(folder: Path) -> Path:
    """Return RICC's log, or a generated one of its length where it is not at hand."""
    if RICC.is_file():
        return RICC
    log = folder / "generated.swf.gz"
    generate(log, RICC_JOBS)
    return log


def generate(log: Path, jobs: int) -> None:
    """Write a Lublin-Feitelson workload in a process of its own, so that its memory is not counted here."""
    options = ["--jobs", str(jobs), "--processors", "1024", "--load", "0.8", "--seed", "1", "--set", "users=300"]
    subprocess.run([*COMMAND, "trace", "generate", "lublin", str(log), *options], check=True, stdout=sys.stderr)


def measure_reading(log: Path, rounds: int) -> dict[str, Any]:
    """Return the times of both readers, alternating, after one warm-up of each."""

    def load_with_pandas() -> int:
        return len(pd.read_csv(log, sep=r"\s+", comment=";", header=None))

    def read_with_presage() -> int:
        return len(read_trace(log))

    jobs = read_with_presage()
    if load_with_pandas() != jobs:
        raise SystemExit(f"the readers disagree about {log}")
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(seconds(load_with_pandas))
        ours.append(seconds(read_with_presage))
    speedups = [their / our for their, our in zip(theirs, ours, strict=True)]
    return {
        "log": log.name,
        "jobs": jobs,
        "presage_s": spread(ours),
        "pandas_s": spread(theirs),
        "speedup_median": round(statistics.median(speedups), 3),
        "speedup_min": round(min(speedups), 3),
        "speedup_max": round(max(speedups), 3),
    }


def measure_on_one_core(log: Path, rounds: int) -> dict[str, Any]:
    """Return `measure_reading` with all threads of this process on one core."""
    cores = os.sched_getaffinity(0)
    tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()]
    for task in tasks:
        os.sched_setaffinity(task, {min(cores)})
    try:
        return measure_reading(log, rounds)
    finally:
        for task in tasks:
            os.sched_setaffinity(task, cores)


def seconds(action: Callable[[], object]) -> float:
    """Return the wall time of `action`."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def spread(values: list[float]) -> dict[str, Any]:
    """Return median, extremes and the single runs."""
    rounded = [round(value, 4) for value in values]
    return {
        "median": round(statistics.median(values), 4),
        "min": min(rounded),
        "max": max(rounded),
        "runs": rounded,
    }


def measure_streaming(folder: Path, jobs: int) -> dict[str, Any]:
    """Return time and peak memory of converting a generated log of `jobs` jobs."""
    log = folder / "long.swf"
    generate(log, jobs)
    # The largest child so far may be the generator: the converter runs below a process of its own.
    script = (
        "import json, resource, subprocess, sys, time;"
        "begin = time.perf_counter();"
        "done = subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(json.dumps([json.loads(done.stdout)['jobs'], time.perf_counter() - begin, used.ru_maxrss * 1024]))"
    )
    convert = [*COMMAND, "trace", "convert", str(log), str(folder / "long.parquet"), "--json"]
    measured = subprocess.run([sys.executable, "-c", script, *convert], check=True, capture_output=True, text=True)
    converted, convert_s, peak_rss_bytes = json.loads(measured.stdout)
    if converted != jobs:
        raise SystemExit(f"{converted} of {jobs} jobs were converted")
    return {
        "jobs": jobs,
        "swf_bytes": log.stat().st_size,
        "parquet_bytes": (folder / "long.parquet").stat().st_size,
        "convert_s": round(convert_s, 2),
        "peak_rss_bytes": peak_rss_bytes,
        "limit_bytes": STREAM_LIMIT_BYTES,
    }


if __name__ == "__main__":
    main()
