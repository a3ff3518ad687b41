"""How good learned policies are on six logs, beside the rules that a site could use without them.

Prints one JSON object. Every cell of the experiment is a file of its own under docs/results/data/policies: an
interrupted run goes on with the first cell that is missing.

Protocol: HPC2N, KTH-SP2, SDSC-SP2, SDSC-BLUE, CTC-SP2 and CEA-Curie (its last 120,000 jobs), cleaned by
`learning`: runs end at their limits. The last 40 % are the test, in one run from an empty machine; choices are
made on 30-60 %. Run times are forecast by networks that have never seen the log: those of
benchmarks/foundation.py, which must have run. In the cells of `tuned`, these were fine-tuned on the log's own past
before: for 30-60 % on what was known at 30 %, for the test on what was known at 60 %. Reservations go by requests
everywhere.

    python benchmarks/policies.py                      # what is missing
    python benchmarks/policies.py --only paired/KTH
    python benchmarks/policies.py --collect            # only put together what is there
    python benchmarks/policies.py --ship               # search for the policy `default` anew
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cells import read_cell, run_cells, say
from presage.foundation.model import Model
from presage.foundation.view.tasks import Task
from presage.learning.cases import Case, case_of
from presage.learning.evaluation import Schedule
from presage.learning.forecasts import forecast_runs
from presage.learning.learned_policy import LearnedPolicy
from presage.learning.outcomes import Outcome, ratio_of
from presage.learning.relearning import relearn_runs
from presage.learning.search import Search, search_scorer
from presage.learning.static_rules import FIRST_COME, HIGH_LOAD, best_static, label, static_deciders
from presage.policies.queue_decision import Queue
from presage.policies.queue_scorer import GUARDS, OF_THE_JOB
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider
from presage.simulator.jobs import Jobs
from presage.simulator.live_order import LiveQueue, order_now
from presage.simulator.look_ahead import LookAhead, schedule_looking_ahead
from presage.traces import read_trace
from presage.traces.cleaning import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.traces import Trace

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
WORK = ROOT / "out" / "policies"
NETWORKS = ROOT / "out" / "foundation"
CELLS = ROOT / "docs" / "results" / "data" / "policies"
SITES = {
    "HPC2N": ("HPC2N-2002-2.2-cln", "HPC2N"),
    "KTH": ("KTH-SP2-1996-2.1-cln", "KTH"),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln", "fresh"),
    "BLUE": ("SDSC-BLUE-2000-4.2-cln", "BLUE"),
    "CTC": ("CTC-SP2-1996-3.1-cln", "fresh"),
    "Curie": ("CEA-Curie-2011-2.1-cln", "Curie"),
}
"""Log → file, and the fold of benchmarks/foundation.py whose networks have not seen it."""
SHIP_BY = (0, 1, 2)
"""The seeds of the networks by whose forecasts `default` is searched for: it shall not hang on one."""
SHIPPED = ROOT / "src" / "presage" / "learning" / "shipped" / "default.safetensors"
LATEST = 120_000
TRAIN, TEST = (0.3, 0.6), (0.6, 1.0)
PAIRED_RULES = ("sjf", "saf", "f2", "sqf", "wfp3", "lxf")
WINDOWS = 24
ROUNDS, ONLINE_SITES = 3, ("KTH", "SDSC-SP2", "CTC")
LOADS = {"native": None, "0.9": HIGH_LOAD}
LOOKING = LookAhead()
SEEDS = {
    "paired": (0, 1, 2), "policy/index": (0, 1, 2), "policy/default": (0, 1, 2), "policy/linear-others": (0,),
    "policy/linear-own": (0,), "policy/look-ahead": (0,),
    "tuned/paired": (0, 1, 2), "tuned/policy/index": (0, 1, 2), "tuned/policy/default": (0, 1, 2),
}  # fmt: skip
"""What is measured on each log → seeds of the networks that forecast, and of the search."""
TUNED = "tuned/"


@dataclass(frozen=True)
class Forecaster:
    """Who forecasts run times: networks of a seed, as they are or fine-tuned on the log's own past."""

    seed: int = 0
    is_tuned: bool = False

    def __str__(self) -> str:
        return f"{self.seed}{'-tuned' if self.is_tuned else ''}"


PLAIN = Forecaster()


def read(site: str) -> Trace:
    """Return the log as the protocol wants it."""
    return clean(read_trace(DATA / f"{SITES[site][0]}.swf.gz"), ["learning"])


@cache
def case(site: str, by: Forecaster) -> Case:
    """Return a log from 30 % on, with forecasts; made once, and kept in the working folder."""
    path = WORK / f"case-{site}-{by}.npz"
    if not path.exists():
        make_case(site, by, path)
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    names = ("submit_ms", "run_ms", "limit_ms", "estimate_ms", "plan_ms", "processors")
    jobs = Jobs(**{name: arrays[name] for name in names}, origin_ms=int(arrays["origin_ms"]))
    forecasts = RunForecasts(arrays["expected_s"], arrays["median_s"], arrays["inverse"])
    return Case(site, jobs, int(arrays["machine"]), arrays["users"], forecasts)


def make_case(site: str, by: Forecaster, path: Path) -> None:
    """Forecast a log, and keep what came of it."""
    trace = read(site)
    latest = min(LATEST, len(trace)) if site == "Curie" else len(trace)
    train, test = ((len(trace) - latest + int(part[0] * latest) + 0.5) / len(trace) for part in (TRAIN, TEST))
    model = networks(site, by.seed)
    towers = relearn_runs(trace, model, (train, test), seed=by.seed) if by.is_tuned else model.towers[Task.RUN]
    made = case_of(trace, towers, first=train)
    path.parent.mkdir(parents=True, exist_ok=True)
    jobs = {name: getattr(made.jobs, name) for name in made.jobs.__dataclass_fields__}
    told = {name: getattr(made.forecasts, name) for name in made.forecasts.__dataclass_fields__}
    unfinished = path.with_suffix(".partial.npz")
    np.savez(unfinished, machine=made.processors, users=made.users, **jobs, **told)
    unfinished.replace(path)


def networks(site: str, seed: int) -> Model:
    """Return a model of run times that has never seen the log."""
    return Model.load(NETWORKS / f"{SITES[site][1]}-run-{seed}-1500.safetensors")


def part(site: str, shares: tuple[float, float], load: float | None = None, by: Forecaster = PLAIN) -> Case:
    """Return a part of a log, given by shares of the whole, as it is or at a load."""
    first, last = ((share - TRAIN[0]) / (1 - TRAIN[0]) for share in shares)
    chosen = case(site, by).between(first, last)
    return chosen if load is None else chosen.at_load(load)


def paired(site: str, by: Forecaster) -> dict[str, Any]:
    """Measure what forecasts alone do: the same rule and guard by requests, by forecasts and by the truth."""
    found: dict[str, Any] = {}
    for name, load in LOADS.items():
        test = part(site, TEST, load, by)
        rows = {}
        for rule in PAIRED_RULES:
            for guard in GUARDS:
                decider = Decider(rule, GUARDS[guard])
                told = {what: slowdown(test, decider, what) for what in ("requested", "forecast", "actual")}
                rows[f"{rule}/{guard}"] = told
        found[name] = {
            "rows": rows,
            **{what: geo_mean([row[what] / row["requested"] for row in rows.values()])
               for what in ("forecast", "actual")},
        }  # fmt: skip
        say(f"{site} {name} paired {found[name]['forecast']:.3f} truth {found[name]['actual']:.3f}")
    return found


def static(site: str) -> dict[str, Any]:
    """Pick the best safe rule on the train part, and measure all rules on the test part (for hindsight)."""
    picked = best_static(part(site, TRAIN))
    found: dict[str, Any] = {"picked": label(picked)}
    for name, load in LOADS.items():
        test = part(site, TEST, load)
        line = Schedule.of(test, FIRST_COME)
        rules = {}
        for decider in static_deciders():
            schedule = Schedule.of(test, decider)
            rules[label(decider)] = {
                "bounded_slowdown": schedule.outcome.slowdown, "is_safe": schedule.outcome.is_safe(line.outcome),
            }  # fmt: skip
        found[name] = {"load": test.load, "jobs": len(test), "fcfs": figures(line), "rules": rules}
    say(f"{site} picked {found['picked']}")
    return found


def policy(site: str, name: str, by: Forecaster) -> dict[str, Any]:
    """Measure a policy on the test part against the picked rule and against first come, first served."""
    learned = policy_of(site, name, by.seed)
    picked = pick(site)
    found: dict[str, Any] = {"weights": dict(zip(OF_THE_JOB, learned.scorer.weights.tolist(), strict=True))}
    for load_name, load in LOADS.items():
        test = part(site, TEST, load, by)
        line, rule = Schedule.of(test, FIRST_COME), Schedule.of(test, picked)
        for watched in (False, True):
            own = Schedule.of(test, replace(learned, watches=watched))
            found[mode := f"{load_name}{' watched' if watched else ''}"] = compared(own, rule, line)
            say(f"{site} {name} {mode} {found[mode]['ratio_to_static']:.3f}, by requests {own.by_requests:.2f}")
    found["windows"] = in_windows(lambda case: case.run(learned.decider), picked, part(site, TEST, None, by))
    return found


def look_ahead(site: str, by: Forecaster) -> dict[str, Any]:
    """Measure look-ahead over rules and the index by forecasts, in the same way."""
    picked, found = pick(site), {}

    def starts(case: Case) -> Any:
        return schedule_looking_ahead(case.jobs, case.processors, LOOKING, [case.forecasts], users=case.users)[0]

    for load_name, load in LOADS.items():
        test = part(site, TEST, load, by)
        line, rule = Schedule.of(test, FIRST_COME), Schedule.of(test, picked)
        own = Schedule.from_starts("look-ahead", test, starts(test))
        found[load_name] = compared(own, rule, line)
        say(f"{site} look-ahead {load_name} {found[load_name]['ratio_to_static']:.3f}")
    found["windows"] = in_windows(starts, picked, part(site, TEST, None, by))
    return found


def compared(own: Schedule, rule: Schedule, line: Schedule) -> dict[str, Any]:
    """Return a schedule's figures, beside those of the picked rule and of first come, first served."""
    ratio, interval = ratio_of(own.outcome, rule.outcome)
    return {
        **figures(own), "ratio_to_static": ratio, "ci95": interval, "by_requests": own.by_requests,
        "to_fcfs": {key: value / figures(line)[key] for key, value in figures(own).items()},
    }  # fmt: skip


def in_windows(starts: Callable[[Case], Any], picked: Decider, test: Case) -> dict[str, Any]:
    """Measure in windows of 1024 jobs: the ratio of the means over windows, and its interval over them."""
    pairs = np.array(
        [
            [Outcome.of(window, starts(window)).slowdown, slowdown(window, picked, "requested")]
            for window in test.windows(WINDOWS)
        ]
    )
    drawn = pairs[np.random.default_rng(0).integers(0, WINDOWS, (2000, WINDOWS))].mean(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return {"ratio_to_static": float(pairs[:, 0].mean() / pairs[:, 1].mean()), "ci95": [float(low), float(high)]}


def policy_of(site: str, name: str, seed: int) -> LearnedPolicy:
    """Return a policy that comes with Presage, or one searched on the train part of the log or of the others."""
    if name in ("index", "default"):
        return LearnedPolicy.load(name)
    kind, _, where = name.partition("-")
    path = WORK / f"{site}-{name}-{seed}.safetensors"
    if not path.exists():
        others = [each for each in SITES if each != site] if where == "others" else [site]
        cases = [each for other in others for each in training_cases(other, seed, whole=where == "own")]
        search = Search(kind=kind, generations=GENERATIONS[kind], seed=seed)
        found = search_scorer(cases, search, journal=path.with_suffix(".jsonl"), progress=partial_say(site, name))
        about = {"method": f"CMA-ES, {kind}", "logs": others, "cost": found.cost, "history": found.history}
        LearnedPolicy(name, found.scorer, search.guard, about=about).save(path)
    return LearnedPolicy.load(path)


def ship() -> None:
    """Search on all six logs, with forecasts of several networks, and put what comes of it where `default` is."""
    cases = [each for site in SITES for seed in SHIP_BY for each in training_cases(site, seed, whole=False)]
    search = Search(generations=GENERATIONS["linear"])
    found = search_scorer(cases, search, journal=WORK / "default.jsonl", progress=partial_say("all", "default"))
    about = {
        "method": "CMA-ES over a linear scorer, from the fixed index",
        "logs": list(SITES), "networks": len(SHIP_BY), "jobs": sum(len(each) for each in cases),
        "generations": search.generations, "seed": search.seed, "cost": found.cost,
        "measured": "docs/results/policies.md, also the same search without the log that it is tested on",
    }  # fmt: skip
    LearnedPolicy("default", found.scorer, search.guard, about=about).save(SHIPPED)


GENERATIONS = {"linear": 40, "mlp": 60, "attention": 60}


def training_cases(site: str, seed: int, *, whole: bool) -> list[Case]:
    """Return what is searched on: the train part of a log at two loads, in stretches if it is one of several."""
    train = part(site, TRAIN, None, Forecaster(seed))
    if whole:
        return [train, train.at_load(0.75), train.at_load(HIGH_LOAD)]
    length = min(len(train), 8_000)
    stretches = [train.select(slice(at, at + length)) for at in (0, len(train) - length)]
    long = [each for stretch in stretches for each in (stretch, stretch.at_load(HIGH_LOAD))]
    return long + [each.in_windows(WINDOWS) for each in (train, train.at_load(HIGH_LOAD))]


def online(site: str, name: str, seed: int) -> dict[str, Any]:
    """Measure a policy whose forecasts know only what happened under that policy, not what the site lived through.

    The schedule from 30 % on is put in the place of the log's own, and jobs are forecast anew from it: where
    two rounds agree, the forecasts are those that the policy itself would have seen.
    """
    learned, picked = policy_of(site, name, seed), pick(site)
    trace, tower = read(site), networks(site, seed).towers[Task.RUN]
    known = case(site, Forecaster(seed))
    first = len(trace) - len(known)
    found: dict[str, Any] = {"rounds": []}
    for round_at in range(ROUNDS):
        if round_at:
            lived = with_lives(trace, first, known.run(learned.decider), known.jobs.run_ms)
            known = replace(known, forecasts=forecast_runs(lived, tower, first=first))
        test = replace(
            part(site, TEST, None, Forecaster(seed)),
            forecasts=known.forecasts.select(slice(-len_of_test(known), None)),
        )
        ratio, interval = ratio_of(
            Outcome.of(test, test.run(learned.decider)), Outcome.of(test, test.run(picked, "requested"))
        )
        found["rounds"].append({"ratio_to_static": ratio, "ci95": interval})
        say(f"{site} {name} online {ratio:.3f}")
    return found


def len_of_test(known: Case) -> int:
    """Return how many of the jobs of a case that begins at the train part are of the test part."""
    return len(known) - int((TEST[0] - TRAIN[0]) / (1 - TRAIN[0]) * len(known))


def with_lives(trace: Trace, first: int, start_ms: Any, run_ms: Any) -> Trace:
    """Return the log as if its jobs from `first` on had started at other times."""
    jobs = trace.jobs
    starts = pl.concat([jobs["start_ms"].head(first), pl.Series("start_ms", start_ms)])
    ends = pl.concat([jobs["end_ms"].head(first), pl.Series("end_ms", start_ms + run_ms)])
    waits = (starts - jobs["submit_ms"]) / 1000
    return trace.with_jobs(jobs.with_columns(starts, ends, waits.alias("wait_s")))


def speed() -> dict[str, Any]:
    """Measure how long one decision about a live queue takes, by the jobs that wait; in milliseconds."""
    found = {}
    learned, rng = LearnedPolicy.load("default"), np.random.default_rng(0)
    for jobs in (20, 200, 2000):
        requested_s = rng.uniform(600, 86_400, jobs)
        queue = Queue(
            rng.uniform(0, 86_400, jobs), requested_s, rng.integers(1, 64, jobs), rng.random(jobs), 30, 128
        )
        told = RunForecasts.certain(requested_s * rng.random(jobs))
        found[f"{jobs} jobs"] = times_ms(partial(learned.order, queue, told), 2000)
    for jobs in (20, 200):
        queues = cycle([live_queue(jobs, seed) for seed in range(20)])
        found[f"look-ahead, {jobs} jobs"] = times_ms(lambda queues=queues: order_now(next(queues), LOOKING), 400)
    return found


def live_queue(waiting: int, seed: int) -> LiveQueue:
    """Return a machine of 128 processors with 8 jobs that run on some 100 of them, and jobs that wait."""
    rng, running = np.random.default_rng(seed), 8
    count = running + waiting
    limit_ms = rng.integers(600, 86_400, count) * 1000
    now_ms = 86_400_000
    submit_ms = np.sort(rng.integers(0, now_ms, count))
    processors = np.concatenate([rng.integers(8, 16, running), rng.integers(1, 64, waiting)])
    jobs = Jobs(submit_ms, limit_ms, limit_ms, limit_ms, limit_ms, processors)
    free = 128 - int(processors[:running].sum())
    told = RunForecasts.certain(limit_ms / 1000 * rng.random(count))
    return LiveQueue(now_ms, 128, free, jobs, told, np.arange(running), submit_ms[:running])


def times_ms(decide: Callable[[], object], times: int) -> dict[str, float]:
    """Return the quantiles of how long a call takes, once what it needs is compiled."""
    decide()
    took_ms = []
    for _ in range(times):
        began = time.perf_counter()
        decide()
        took_ms.append(1000 * (time.perf_counter() - began))
    p50, p99 = np.percentile(took_ms, [50, 99])
    return {"p50_ms": float(p50), "p99_ms": float(p99)}


def pick(site: str) -> Decider:
    """Return the rule that was picked on the train part."""
    named = read_cell(CELLS, f"static/{site}")["picked"]
    return next(each for each in static_deciders() if label(each) == named)


def slowdown(test: Case, decider: Decider, told: Any) -> float:
    """Return the mean bounded slowdown."""
    return Outcome.of(test, test.run(decider, told)).slowdown


def figures(schedule: Schedule) -> dict[str, float]:
    """Return what is compared."""
    metrics = schedule.metrics
    return {
        "bounded_slowdown": metrics.mean_bounded_slowdown, "p99_wait_s": metrics.p99_wait_s,
        "max_wait_s": metrics.max_wait_s, "response_s": metrics.mean_response_s,
        "utilization": metrics.utilization,
    }  # fmt: skip


def geo_mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def cells() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return all cells by name, in the order in which they are made."""
    made: dict[str, Callable[[], dict[str, Any]]] = {f"static/{site}": partial(static, site) for site in SITES}
    made["speed"] = speed
    for seed in sorted({seed for seeds in SEEDS.values() for seed in seeds}):
        for name, seeds in SEEDS.items():
            for site in SITES if seed in seeds else ():
                made[f"{name}/{site}-{seed}"] = partial(measure, name, site, seed)
    return made | {f"online/{site}": partial(online, site, "linear-others", 0) for site in ONLINE_SITES}


def measure(name: str, site: str, seed: int) -> dict[str, Any]:
    """Measure forecasts alone, look-ahead or a policy on a log, with forecasts by the networks of a seed."""
    by = Forecaster(seed, name.startswith(TUNED))
    name = name.removeprefix(TUNED)
    if name == "paired":
        return paired(site, by)
    policy_name = name.partition("/")[2]
    return look_ahead(site, by) if policy_name == "look-ahead" else policy(site, policy_name, by)


def partial_say(site: str, name: str) -> Callable[[int, int, float], None]:
    """Return what tells the progress of a search."""
    return lambda done, of, cost: say(f"{site} {name} generation {done} of {of}: {cost:.3f}")


def main() -> None:
    """Make the cells that are missing, or the policy that comes with Presage."""
    if "--ship" in sys.argv:
        ship()
    else:
        run_cells("policies", __doc__ or "", CELLS, cells())


if __name__ == "__main__":
    main()
