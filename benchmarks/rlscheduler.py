"""RLScheduler's published table: its rules under its semantics with our simulator, and our learned policies there.

Prints one JSON object. Ten sequences of 1024 jobs, as its own scripts draw them, each on an empty machine; the
chosen job is kept until it starts. Logs: Lublin-1, SDSC-SP2 and HPC2N; Lublin-2 is not here.

    python benchmarks/rlscheduler.py                        # the rules, and the kept policies tested again
    python benchmarks/rlscheduler.py --train                # search for the policies that are not kept
    python benchmarks/rlscheduler.py --train --only HPC2N/easy
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import presage
from presage.learning.committed import (
    CommittedScorer,
    CommittedSearch,
    Rehearsal,
    Stretch,
    log_average,
    search_committed,
)
from presage.policies import ORDERS, JobView, Policy, StaticOrder
from presage.policies.committed_scorer import OF_THE_JOB, area_weights
from presage.registry import Spec
from presage.simulator import Jobs, Semantics
from presage.simulator.jobs import jobs_of
from presage.simulator.metrics import bounded_slowdown
from presage.simulator.pooled import schedule
from presage.traces import read_trace
from presage.traces.schema import size
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
KEPT = ROOT / "docs" / "results" / "data" / "rlscheduler.json"
WORK = ROOT / "out" / "rlscheduler"
LOGS = {
    "Lublin-1": ("model-lublin_256", 256),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln", 128),
    "HPC2N": ("HPC2N-2002-2.2-cln", 240),
}
PUBLISHED = {
    "none": {
        "Lublin-1": (7273.77, 19753.53, 22274.74, 277.35, 258.37, 254.67),
        "SDSC-SP2": (1727.54, 3000.88, 1848.45, 2680.55, 1232.06, 466.44),
        "HPC2N": (297.18, 426.99, 609.77, 157.71, 118.01, 117.01),
    },
    "easy": {
        "Lublin-1": (235.82, 133.87, 307.23, 73.31, 75.07, 58.64),
        "SDSC-SP2": (1595.12, 1083.12, 548.01, 2167.84, 1098.22, 397.82),
        "HPC2N": (127.38, 97.39, 175.12, 122.04, 71.95, 86.14),
    },
}
"""From the README of its repository, DIR-LAB/deep-batch-scheduler: mean bounded slowdown."""
COLUMNS = ("fcfs", "wfp3-unscheduled", "unicep-unscheduled", "sjf", "f1", "rl")
OTHERS = ("wfp3", "unicep", "saf", "sqf", "f2")
"""Rules that the table does not have; WFP3 and UNICEP with the wait that they mean."""
JOBS, SEQUENCES, AMONG = 1024, 10, 10_000
CANCELLED_RUN_S = 10.0
"""What it takes the run of a job to be that never ran."""
SEEDS = (0, 1, 2)
SEARCH = CommittedSearch(generations=25, population=10, stretches=12)
LONGER_SEARCH = replace(SEARCH, generations=40, stretches=24)
"""On Lublin-1, whose generated sequences are half as long and take a quarter of the time."""
STARTS = (
    CommittedScorer(),
    CommittedScorer.of(log_expected_run=1.0, log_processors=0.5, fits=-10.0, log_until_it_fits=3.0),
    CommittedScorer.of(log_expected_run=2.0, log_processors=1.0, fits=-2.0, log_until_it_fits=1.0),
)
"""Where a search may begin; it begins at the one that is best on its own sequences."""
POOL, START_SEQUENCES = 150, 40
APART, THEIRS, UNTRAINED = "apart", "theirs", "untrained"
"""How we learn: from jobs that are in no test sequence; as RLScheduler does, from sequences among the same 10,000
jobs; not at all, the smallest expected area going first."""


class UnscheduledWfp3(StaticOrder):
    """WFP3 as RLScheduler has it: a job that waits has the start -1, so its wait is -1 - s."""

    formula = "((s + 1)/r)³·p"

    def scores(self, jobs: JobView) -> NDArray[np.float64]:
        """Return the scores, in which long jobs go first."""
        return np.asarray(((jobs.submit_ms / 1000 + 1) / requested_s(jobs)) ** 3 * jobs.processors)


class UnscheduledUnicep(StaticOrder):
    """UNICEP with the same wait."""

    formula = "(s + 1)/(log2(p)·r)"

    def scores(self, jobs: JobView) -> NDArray[np.float64]:
        """Return the scores, in which long and wide jobs go first."""
        return np.asarray((jobs.submit_ms / 1000 + 1) / (np.log2(jobs.processors + 1e-15) * requested_s(jobs)))


def requested_s(jobs: JobView) -> NDArray[np.float64]:
    """Return requests; -1, as the log has it, for the one job of SDSC-SP2 with neither a request nor a run."""
    return np.where(jobs.run_ms > 1, jobs.run_s, -1.0)


ORDERS.register(Spec("wfp3-unscheduled", f"{__name__}:UnscheduledWfp3", "WFP3 with RLScheduler's wait"))
ORDERS.register(Spec("unicep-unscheduled", f"{__name__}:UnscheduledUnicep", "UNICEP with RLScheduler's wait"))


@dataclass(frozen=True)
class Log:
    """A log as RLScheduler reads it: no job is left out but those that ran for 0 s."""

    jobs: Jobs
    processors: int
    users: NDArray[np.generic] | None

    def stretch(self, begin: int, jobs: int = JOBS, *, knows_users: bool = True) -> Stretch:
        """Return a sequence of jobs that comes to an empty machine."""
        rows = slice(begin, begin + jobs)
        users = self.users[rows] if self.users is not None and knows_users else None
        return Stretch.of(self.jobs.select(rows), self.processors, users)


@cache
def read(name: str) -> Log:
    """Return a log; requests stay as they are, also where a job ran for longer."""
    file, processors = LOGS[name]
    trace = read_trace(DATA / f"{file}.swf.gz")
    jobs = trace.jobs.select(
        "submit_ms", "user", run=pl.col("run_s").fill_null(CANCELLED_RUN_S),
        limit=pl.coalesce("limit_s", "run_s", pl.lit(0.0)), processors=size(),
    ).filter(pl.col("run") > 0)  # fmt: skip
    run_ms, limit_ms = (
        (jobs[column] * 1000).clip(1).cast(pl.Int64).to_numpy().copy() for column in ("run", "limit")
    )
    arrays = Jobs(
        jobs["submit_ms"].to_numpy().copy(), run_ms, limit_ms, limit_ms, limit_ms,
        jobs["processors"].cast(pl.Int64).to_numpy().copy(), trace.manifest.origin_ms,
    )  # fmt: skip
    users = jobs["user"].to_numpy() if jobs["user"].null_count() == 0 else None
    return Log(arrays, processors, users)


def begins(seed: int = 1) -> list[int]:
    """Return where the test sequences begin, as gym before 0.22 makes random numbers of a seed."""
    digest = int.from_bytes(hashlib.sha512(str(seed).encode()).digest()[:8], "little")
    draw = np.random.RandomState([digest & 0xFFFFFFFF, digest >> 32])
    return [int(draw.randint(JOBS, AMONG - JOBS - 1)) for _ in range(SEQUENCES)]


def test_rule(log: Log, order: str, backfilling: str) -> list[float]:
    """Return the slowdown of each test sequence."""
    found = []
    for begin in begins():
        jobs = log.jobs.select(slice(begin, begin + JOBS))
        start_ms = schedule(jobs, log.processors, Policy(order, backfilling), Semantics.COMMIT)
        slowdowns = bounded_slowdown((start_ms - jobs.submit_ms) / 1000, jobs.run_ms / 1000)
        found.append(float(slowdowns.mean()))
    return found


def training(name: str, protocol: str, seed: int) -> list[Stretch]:
    """Return the sequences that policies are searched on."""
    log, draw = read(name), np.random.default_rng([7, seed])
    if protocol == THEIRS:
        return [log.stretch(int(begin)) for begin in draw.integers(0, AMONG - JOBS, POOL)]
    if log.users is None:
        return generated(seed)
    used = np.zeros(len(log.jobs), np.int64)
    for begin in begins():
        used[begin : begin + JOBS] = 1
    before = np.concatenate([[0], np.cumsum(used)])
    possible = np.flatnonzero(before[JOBS:] == before[:-JOBS])
    return [log.stretch(int(begin)) for begin in draw.choice(possible, POOL, replace=False)]


def generated(seed: int) -> list[Stretch]:
    """Return sequences of the model that Lublin-1 was made with: too few of its own are in no test sequence."""
    settings = {"processors": 256, "estimate": "exact", "load": 1.0}
    found = []
    for number in range(POOL // 15):
        jobs = jobs_of(make_model("lublin", settings).generate(AMONG, seed=1000 * (seed + 1) + number))
        log = Log(jobs, 256, None)
        found += [log.stretch(600 * place, JOBS // 2) for place in range(15)]
    return found


def cells() -> list[tuple[str, str, str, int]]:
    """Return log, backfilling, protocol and seed of all policies."""
    return [
        (name, backfilling, protocol, seed)
        for name in LOGS
        for backfilling in PUBLISHED
        for protocol in (APART, THEIRS)
        for seed in SEEDS
    ]


def train(cell: tuple[str, str, str, int]) -> None:
    """Search for one policy, and keep its weights."""
    name, backfilling, protocol, seed = cell
    begin = time.process_time()
    search = replace(
        LONGER_SEARCH if name == "Lublin-1" else SEARCH,
        seed=seed, backfilling=backfilling == "easy", average=average(protocol),
    )  # fmt: skip
    stretches = training(name, protocol, seed)
    start = min(STARTS, key=lambda scorer: log_average(stretches[:START_SEQUENCES], scorer, search))
    scorer = search_committed(stretches, search, start=start)
    found = {"weights": scorer.weights.tolist(), "cpu_s": round(time.process_time() - begin, 1)}
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / f"{'-'.join(map(str, cell))}.json").write_text(json.dumps(found))


def average(protocol: str) -> Any:
    """Return what is averaged in a search: their sequences have one burst that the table is mostly about."""
    return "plain" if protocol == THEIRS else "log"


def kept() -> dict[tuple[str, str, str, int], dict[str, Any]]:
    """Return the policies that have been found: those of the working folder, else those of the results."""
    found: dict[tuple[str, str, str, int], dict[str, Any]] = {}
    if KEPT.is_file():
        for row in json.loads(KEPT.read_text())["learned"]:
            if row["protocol"] == UNTRAINED:
                continue
            key = (row["log"], row["backfilling"], row["protocol"], row["seed"])
            found[key] = {"weights": list(row["weights"].values()), "cpu_s": row["cpu_s"]}
    for cell in cells():
        path = WORK / f"{'-'.join(map(str, cell))}.json"
        if path.is_file():
            found[cell] = json.loads(path.read_text())
    return found


def test_learned(cell: tuple[str, str, str, int], found: dict[str, Any]) -> dict[str, Any]:
    """Return how a policy does on the test sequences."""
    name, backfilling, protocol, seed = cell
    log, scorer = read(name), CommittedScorer(np.array(found["weights"]))

    def slowdowns(*, knows_users: bool = True, rehearsal: Rehearsal | None = None) -> list[float]:
        stretches = [log.stretch(begin, knows_users=knows_users) for begin in begins()]
        return [
            each.slowdown(scorer, backfilling=backfilling == "easy", rehearsal=rehearsal) for each in stretches
        ]

    known = slowdowns()
    rehearsed = slowdowns(rehearsal=Rehearsal()) if backfilling == "none" else None
    return {
        "log": name, "backfilling": backfilling, "protocol": protocol, "seed": seed,
        "slowdown": float(np.mean(known)), "rl": PUBLISHED[backfilling][name][-1],
        "by_requests_alone": float(np.mean(slowdowns(knows_users=False))),
        "sequences": [round(each, 4) for each in known], "cpu_s": found["cpu_s"],
        "rehearsed": None if rehearsed is None else float(np.mean(rehearsed)),
        "rehearsed_sequences": None if rehearsed is None else [round(each, 4) for each in rehearsed],
        "weights": dict(zip(OF_THE_JOB, found["weights"], strict=True)),
    }  # fmt: skip


def rules() -> list[dict[str, Any]]:
    """Return how the rules do, beside what was published."""
    found = []
    for backfilling, logs in PUBLISHED.items():
        for name, published in logs.items():
            told = dict(zip(COLUMNS, published, strict=True))
            for order in (*COLUMNS[:-1], *OTHERS):
                slowdowns = test_rule(read(name), order, backfilling)
                found.append(
                    {
                        "log": name, "backfilling": backfilling, "rule": order,
                        "slowdown": float(np.mean(slowdowns)), "published": told.get(order),
                        "sequences": [round(each, 4) for each in slowdowns],
                    }
                )  # fmt: skip
            print(f"{name} {backfilling}: rules done", file=sys.stderr)
    return found


def main() -> None:
    """Search for what is asked for, measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="search for the policies that are not kept")
    parser.add_argument("--only", default="", help="search only for those whose name begins so, like HPC2N/easy")
    parser.add_argument("--out", type=Path, help="write the JSON there as well")
    arguments = parser.parse_args()
    if arguments.train:
        for cell in cells():
            if cell not in kept() and "/".join(map(str, cell)).startswith(arguments.only):
                train(cell)
                print("/".join(map(str, cell)), file=sys.stderr)
    area = {"weights": area_weights().tolist(), "cpu_s": 0.0}
    policies = {(name, backfilling, UNTRAINED, 0): area for name in LOGS for backfilling in PUBLISHED} | kept()
    found = {
        "benchmark": "rlscheduler",
        "presage": presage.__version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "begins": begins(),
        "rules": rules(),
        "learned": [test_learned(cell, policy) for cell, policy in policies.items()],
    }
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
