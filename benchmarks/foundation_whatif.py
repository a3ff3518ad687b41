"""What-if by model against what-if by simulation, for jobs that ask for less.

Prints one JSON object. A generated cluster is scheduled by FCFS with EASY backfilling and watched live by the
forecaster. Some jobs are asked about at their submits: as they were, with a tenth of their limit, with a quarter
of their processors, and with both. The truth is the schedule in which that job, and nothing else, is changed. The
model has never seen the cluster and is not told its policy.

    python benchmarks/foundation_whatif.py [--asked 60] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import presage
from presage.foundation.live import JobRequest, LiveForecaster
from presage.foundation.model import Model
from presage.simulator import simulate
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from presage.traces import Trace

JOBS, PROCESSORS, SEEDS = 4000, 64, (1, 2, 3)
LEAST_WAIT_S = 1800.0
"""Only jobs that waited at least so long are asked about: others have nothing to gain."""
CHANGES = {"as it was": (1.0, 1.0), "limit / 10": (0.1, 1.0), "size / 4": (1.0, 0.25), "both": (0.1, 0.25)}


def changed(trace: Trace, job_id: str, limit: float, size: float) -> Trace:
    """Return the trace with one job that asks for less, and takes no longer than it asks for."""
    is_it = pl.col("job_id") == job_id
    limit_s = pl.col("limit_s") * limit
    cpus = (pl.col("cpus_req") * size).ceil()
    return trace.with_jobs(
        trace.jobs.with_columns(
            limit_s=pl.when(is_it).then(limit_s).otherwise("limit_s"),
            run_s=pl.when(is_it).then(pl.min_horizontal("run_s", limit_s)).otherwise("run_s"),
            cpus_req=pl.when(is_it).then(cpus).otherwise("cpus_req"),
            cpus_alloc=pl.when(is_it).then(None).otherwise("cpus_alloc"),
        )
    )


def request(row: dict[str, Any], limit: float = 1.0, size: float = 1.0) -> JobRequest:
    """Return what a job asks for."""
    cpus = float(np.ceil(row["cpus_req"] * size))
    return JobRequest(row["job_id"], user=row["user"] or "", cpus=cpus, limit_s=row["limit_s"] * limit)


def compared(seed: int, asked: int) -> list[dict[str, dict[str, float]]]:
    """Return for each job that was asked about what the model said of every change, and what came of it."""
    model = make_model("lublin", {"users": 20, "estimate": "modal", "processors": PROCESSORS, "load": 0.9})
    original = model.generate(jobs=JOBS, seed=seed)
    original = original.with_jobs(original.jobs.with_columns(cpus_req=pl.coalesce("cpus_req", "cpus_alloc")))
    plain = simulate(original, "fcfs+easy").trace.jobs
    late = plain.slice(JOBS // 2).filter((pl.col("wait_s") > LEAST_WAIT_S) & (pl.col("cpus_req") >= 8))
    chosen = set(late.sample(min(asked, len(late)), seed=seed)["job_id"])
    live = LiveForecaster(Model.load(), processors=PROCESSORS)
    rows = plain.rows(named=True)
    events = sorted(
        (row[f"{what}_ms"] / 1000, order, number, what)
        for number, row in enumerate(rows)
        for order, what in enumerate(("submit", "start", "end"))
    )
    answers = []
    for when_s, _, number, what in events:
        row = rows[number]
        if what == "submit":
            if row["job_id"] in chosen:
                answers.append(_answer(live, original, row, when_s))
            live.submit(request(row), when_s, forecast=False)
        elif what == "start":
            live.start(row["job_id"], when_s)
        else:
            live.end(row["job_id"], when_s)
    return answers


def _answer(
    live: LiveForecaster, original: Trace, row: dict[str, Any], when_s: float
) -> dict[str, dict[str, float]]:
    found = {}
    for name, (limit, size) in CHANGES.items():
        told = live.forecast(request(row, limit, size), when_s)
        then = simulate(changed(original, row["job_id"], limit, size), "fcfs+easy").trace.jobs
        true_s = then.filter(pl.col("job_id") == row["job_id"])["wait_s"][0]
        found[name] = {"told_s": told.wait_s.p50 if told.wait_s else 0.0, "true_s": true_s}
    return found


def summary(answers: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Return how often the model is right about the direction, and by how much waits change."""
    rows = {}
    for name in CHANGES:
        told, true = (
            np.log10(1 + np.array([each[name][key] for each in answers])) for key in ("told_s", "true_s")
        )
        base_told = np.log10(1 + np.array([each["as it was"]["told_s"] for each in answers]))
        base_true = np.log10(1 + np.array([each["as it was"]["true_s"] for each in answers]))
        moved = np.abs(true - base_true) > 0.05
        right = (np.sign(told - base_told) == np.sign(true - base_true))[moved]
        rows[name] = {
            "log_mae": float(np.abs(told - true).mean()),
            "median_told_s": float(10 ** np.median(told) - 1),
            "median_true_s": float(10 ** np.median(true) - 1),
            "changed": int(moved.sum()),
            "direction_right": float(right.mean()) if moved.any() else None,
        }
    return rows


def main() -> None:
    """Measure, and print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asked", type=int, default=60, help="jobs asked about for each seed")
    parser.add_argument("--out", type=Path, help="write the JSON there as well")
    arguments = parser.parse_args()
    answers = [answer for seed in SEEDS for answer in compared(seed, arguments.asked)]
    result = {
        "benchmark": "foundation_whatif", "version": presage.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "model": Model.load().version, "seeds": list(SEEDS),
        "asked": len(answers), "changes": summary(answers),
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
