"""How many injected anomalies are found, at how many alarms per day, against simple rules.

Prints one JSON object. Anomalies of every kind are put into real logs, where the folder of real traces has them,
and into generated workloads that were scheduled under fcfs+easy; see `presage.foundation.anomalies.injection`.
Three parts:

- `tuning`: recall and alarms per day for several values of the least score, on the traces and seeds that the
  default was chosen on.
- `rows`: for every other trace and kind, what was injected, found and alarmed over the seeds, of Presage and of
  simple rules: a z-score of 3 per user (run times) or queue (waits), half of at least five jobs of a user's day
  failed (three of a node's), on average less than a quarter of the processors or a tenth of the limit used. These
  look at whole traces; Presage looks only at the past. Traces are `unseen`, or `seen` while detectors were being
  written: nothing was fitted to the latter, but mistakes that they showed were mended.
- `kinds`: the sums of these rows by group.

What an untouched trace gives is counted apart (`old`): in a real log some of it is true, and nobody knows what.

    python benchmarks/anomalies.py [--seeds 201 202 203] [--count 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import presage
from presage.foundation.anomalies import (
    MAX_PER_DAY,
    MIN_SCORE,
    Anomaly,
    AnomalyReport,
    expected_runs,
    find_anomalies,
)
from presage.foundation.anomalies.injection import Detection, evaluate, furnish, inject
from presage.foundation.anomalies.knowledge import Knowledge
from presage.simulator import simulate
from presage.traces import Trace, read_trace
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator

LOGS = Path(__file__).resolve().parents[2] / "shared" / "data"
TUNED_ON = (
    "KTH-SP2-1996-2.1-cln.swf.gz", "SDSC-SP2-1998-4.2-cln.swf.gz", "xdmod-pozidriv.sacct.txt.gz", "generated-11",
)  # fmt: skip
TUNING_SEEDS = (1, 2, 3)
SCORES = (1.0, 1.5, 2.0, 3.0)
SEEN = (
    "CTC-SP2-1996-3.1-cln.swf.gz", "DOST-ASTI_COARE-Saliksik-2020-cln.swf.gz", "CERIT-wagap-2013.swf.gz",
    "mit-supercloud-2021-sample.csv.gz", "LLNL-Atlas-2006-2.1-cln.swf.gz", "generated-21", "generated-22",
)  # fmt: skip
UNSEEN = (
    "Sandia-Ross-2001-1.1-cln.swf.gz", "METACENTRUM-2009-2.swf.gz", "LLNL-Thunder-2007-1.1-cln.swf.gz",
    "OSC-Clust-2000-3.1-cln.swf.gz", "generated-31", "generated-32",
)  # fmt: skip
COUNTS = ("injected", "found", "found_as_any", "alarms", "true_alarms", "old_alarms")
DAY_MS = 86_400_000
Z = 3.0


def main() -> None:
    """Tune, judge, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[201, 202, 203])
    parser.add_argument("--count", type=int, default=3, help="anomalies of each kind per trace and seed")
    parser.add_argument("--out", type=Path, help="also write the JSON to this file")
    arguments = parser.parse_args()
    groups = {"unseen": available(UNSEEN), "seen": available(SEEN)}
    traces = [
        {"group": group, **judge(name, arguments.seeds, arguments.count)}
        for group, names in groups.items()
        for name in names
    ]
    rows = [{"group": trace["group"], **row} for trace in traces for row in trace.pop("rows")]
    result = {
        "benchmark": "anomalies",
        "version": presage.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "min_score": MIN_SCORE,
        "max_per_day": MAX_PER_DAY,
        "tuned_on": {"traces": available(TUNED_ON), "seeds": list(TUNING_SEEDS)},
        "tuning": tune(available(TUNED_ON), arguments.count),
        "judged_on": {**groups, "seeds": arguments.seeds, "count": arguments.count},
        "traces": traces,
        "rows": rows,
        "kinds": {group: summed([row for row in rows if row["group"] == group]) for group in groups},
    }
    text = json.dumps(result, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


def available(names: tuple[str, ...]) -> list[str]:
    """Return those of the traces that are at hand; generated ones always are."""
    return [name for name in names if name.startswith("generated") or (LOGS / name).is_file()]


def load(name: str) -> Trace:
    """Return a log, or a generated workload on 64 nodes of 8 processors whose seed is in its name."""
    if not name.startswith("generated"):
        return read_trace(LOGS / name)
    seed = int(name.rpartition("-")[2])
    model = make_model("lublin", {"processors": 512, "load": 0.7, "users": 40, "estimate": "modal"})
    furnished = furnish(model.generate(15_000, seed=seed), nodes=64, cpus_per_node=8, seed=seed)
    scheduled = simulate(furnished, "fcfs+easy").trace
    return scheduled.with_jobs(scheduled.jobs.with_columns(furnished.jobs["node_list"]))


def tune(names: list[str], count: int) -> list[dict[str, float]]:
    """Return recall and alarms per day at several least scores."""
    injected, alarms, old, days = 0, defaultdict(int), defaultdict(int), 0.0
    found: dict[float, int] = defaultdict(int)
    for name in names:
        trace = load(name)
        before = find_anomalies(trace, min_score=min(SCORES))
        for score in SCORES:
            old[score] += sum(finding.score >= score for finding in before.findings) * len(TUNING_SEEDS)
        for seed in TUNING_SEEDS:
            changed, truth = inject(trace, count=count, seed=seed)
            injected += len(truth)
            days += before.days
            for score in SCORES:
                report = find_anomalies(changed, min_score=score)
                found[score] += sum(each.found for each in evaluate(report, truth).values())
                alarms[score] += len(report.findings)
    return [
        {
            "min_score": score,
            "recall": round(found[score] / injected, 4),
            "alarms_per_day": round(alarms[score] / days, 4),
            "alarms_per_day_before": round(old[score] / days, 4),
        }
        for score in SCORES
    ]


def judge(name: str, seeds: list[int], count: int) -> dict[str, Any]:
    """Return what is found in one trace, by Presage and by the simple rules."""
    trace = load(name)
    begin = time.perf_counter()
    before = find_anomalies(trace)
    find_s = time.perf_counter() - begin
    simple_before = simple_rules(trace)
    totals: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for seed in seeds:
        changed, truth = inject(trace, count=count, seed=seed)
        add(totals, "presage", evaluate(find_anomalies(changed), truth, before))
        add(totals, "simple", only_ruled(evaluate(simple_rules(changed), truth, simple_before)))
    rows = [
        {"trace": name, "tool": tool, "kind": kind, "days": round(before.days * len(seeds), 2), **counts}
        for (tool, kind), counts in totals.items()
    ]
    return {
        "trace": name,
        "jobs": len(trace),
        "days": round(before.days, 2),
        "find_s": round(find_s, 2),
        "alarms_before": before.to_dict()["counts"],
        "skipped": sorted(before.skipped),
        "rows": rows,
    }


def add(totals: dict[tuple[str, str], dict[str, int]], tool: str, detections: dict[str, Detection]) -> None:
    """Add the counts of one seed."""
    for kind, detection in detections.items():
        for name in COUNTS:
            totals[tool, kind][name] += getattr(detection, name)


def only_ruled(detections: dict[str, Detection]) -> dict[str, Detection]:
    """Return the kinds that the simple rules are for."""
    return {kind: detection for kind, detection in detections.items() if kind in RULED}


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the sums over traces, with recall, precision and alarms per day."""
    totals: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        total = totals.setdefault((row["tool"], row["kind"]), dict.fromkeys(("days", *COUNTS), 0))
        for name in total:
            total[name] += row[name]
    result = []
    for (tool, kind), total in sorted(totals.items(), key=lambda item: (item[0][1], item[0][0])):
        new = total["alarms"] - total["old_alarms"]
        result.append(
            {
                "tool": tool,
                "kind": kind,
                **total,
                "recall": ratio(total["found"], total["injected"]),
                "recall_as_any": ratio(total["found_as_any"], total["injected"]),
                "precision": ratio(total["true_alarms"], total["alarms"]),
                "precision_of_new": ratio(total["true_alarms"], new),
                "alarms_per_day": ratio(total["alarms"], total["days"]),
            }
        )
    return result


def ratio(part: float, whole: float) -> float | None:
    """Return a share, or None of nothing."""
    return round(part / whole, 4) if whole else None


def simple_rules(trace: Trace) -> AnomalyReport:
    """Return what thresholds find in a whole trace, one alarm per job, user's day, node's day or user."""
    known = Knowledge(trace, 0.0, expected_runs)
    with np.errstate(all="ignore"):  # what divides by nothing is unknown
        findings = [*odd_runs(known), *odd_waits(known), *failing_days(known), *low_use(known)]
    days = max((known.now_ms - float(np.nanmin(known.submit_ms))) / DAY_MS, 0.0)
    return AnomalyReport(tuple(findings), RULED, {}, len(trace), days)


def odd_runs(known: Knowledge) -> Iterator[Anomaly]:
    """Run times more than three standard deviations from the user's mean, as logarithms."""
    distance = z_scores(known, np.log(np.maximum(known.run_s, 1.0)), "user")
    for row in np.flatnonzero(np.abs(distance) > Z):
        if known.completed[row]:
            yield alarm(known, "run-time", "job", known.text("job_id", int(row)), np.array([row]))
        elif not known.failed[row] and distance[row] > 0:
            yield alarm(known, "stalled-run", "job", known.text("job_id", int(row)), np.array([row]))


def odd_waits(known: Knowledge) -> Iterator[Anomaly]:
    """Waits more than three standard deviations above the mean of the queue, as logarithms."""
    waits = np.log(np.maximum(known.floats(pl.col("wait_s")), 0) + 60)
    for row in np.flatnonzero(z_scores(known, waits, "partition", "queue") > Z):
        yield alarm(known, "stalled-queue", "job", known.text("job_id", int(row)), np.array([row]))


def z_scores(known: Knowledge, values: np.ndarray, *by: str) -> np.ndarray:
    """Return distances from the group's mean in its standard deviations."""
    frame = known.trace.jobs.select(by).with_columns(value=pl.Series(values).fill_nan(None))
    value = pl.col("value")
    scores = frame.select(((value - value.mean().over(by)) / value.std().over(by)).fill_null(0).fill_nan(0))
    return scores.to_series().to_numpy()


def failing_days(known: Knowledge) -> Iterator[Anomaly]:
    """Days of a user on which at least five jobs ended and half of them failed, and of a node with at least
    three.
    """
    runs = known.runs
    ended = pl.DataFrame(
        {"row": runs.row, "day": runs.end_ms // DAY_MS, "failed": runs.failed, "node": runs.nodes}
    ).with_columns(known.trace.jobs["user"].gather(runs.row))
    for kind, subject, least, frame in (
        ("user-failures", "user", 5, ended),
        ("node-failures", "node", 3, ended.filter(pl.col("node").list.len() > 0).explode("node")),
    ):
        days = frame.drop_nulls(subject).group_by(subject, "day").agg(
            pl.len(), pl.col("failed").mean().alias("share"), pl.col("row").filter(pl.col("failed"))
        )  # fmt: skip
        for name, _, _, _, rows in days.filter((pl.col("len") >= least) & (pl.col("share") > 0.5)).iter_rows():
            yield alarm(known, kind, subject, name, np.array(rows))


def low_use(known: Knowledge) -> Iterator[Anomaly]:
    """Users of at least twenty jobs who on average use less than a quarter of their processors or a tenth of the
    limit.
    """
    used = known.floats(pl.col("cpu_used_s")) / (known.run_s * known.cpus)
    limit = np.where(known.completed, known.run_s / known.floats(pl.col("limit_s")), np.nan)
    for share, low in ((used, 0.25), (limit, 0.1)):
        frame = known.trace.jobs.select("user").with_columns(share=pl.Series(share)).with_row_index("row")
        users = (
            frame.filter(pl.col("share").is_finite() & pl.col("user").is_not_null())
            .group_by("user")
            .agg(pl.len(), pl.col("share").mean(), pl.col("row"))
        )
        for name, _, _, rows in users.filter((pl.col("len") >= 20) & (pl.col("share") < low)).iter_rows():
            yield alarm(known, "wasteful-request", "user", name, np.array(rows, np.int64))


def alarm(known: Knowledge, kind: str, subject: str, name: str, rows: np.ndarray) -> Anomaly:
    """Return a finding of a simple rule."""
    start = np.nanmin(np.fmin(known.submit_ms[rows], known.end_ms[rows]))
    end = np.nanmax(np.fmax(known.submit_ms[rows], known.end_ms[rows]))
    return Anomaly(kind, subject, name, int(start), int(end), 1.0, "", evidence=known.ids(rows))


RULED = ("run-time", "stalled-run", "stalled-queue", "user-failures", "node-failures", "wasteful-request")


if __name__ == "__main__":
    main()
