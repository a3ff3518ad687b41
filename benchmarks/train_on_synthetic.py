"""Policies learned on synthetic jobs, on real ones, and on both, tested on later real jobs of the same log.

Prints one JSON object. Every cell is a file of its own under docs/results/data/train-on-synthetic: an interrupted
run goes on with the first cell that is missing. Trained synthesizers are kept in out/train-on-synthetic.

Protocol: the last 20,000 jobs of 30-60 % of a log are there to learn from (all of them where they are fewer), the
last 40 % are the test. Real and synthetic jobs are cleaned by `learning`: runs end at their limits. Policies are
linear scorers found by CMA-ES from the fixed index, told requests and nothing else of run times. Each search runs
equally many windows of 512 jobs, each from an empty machine at a load of 0.9, drawn at random from its jobs.

real, synthetic: on the jobs to learn from, and on 20,000 that `sequence` with its defaults drew after it learned
from these. few-real, few-synthetic, few-both: on the last 1,000 of them; on 20,000 jobs of a `sequence` that
learned from these 1,000 alone; and on half as many windows of each. A seed draws synthetic jobs, windows and
candidates anew; there is one synthesizer for each log and number of jobs.

Tested on all windows of 512 later jobs that do not overlap, at the same load. `ratio` is the geometric mean over
windows and seeds of one mean bounded slowdown over the other in the same window; `of_means` is the ratio of
means. Intervals of 95 % draw blocks of neighbouring windows.

    python benchmarks/train_on_synthetic.py                  # what is missing; about 40 CPU minutes
    python benchmarks/train_on_synthetic.py --only KTH-SP2   # cells whose names begin so
    python benchmarks/train_on_synthetic.py --collect        # only put together what is there
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cells import keep_cell, read_cell, run_cells, say
from presage.learning.cases import Case
from presage.learning.outcomes import Outcome
from presage.learning.search import Search, search_scorer
from presage.policies.queue_scorer import OF_THE_JOB, Guard, QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.bootstrap import Draws
from presage.simulator.guided import Decider
from presage.simulator.jobs import jobs_of
from presage.simulator.simulation import machine_size
from presage.synthesizers import Request, Synthesizer, Training, find_synthesizer, load_synthesizer, sample
from presage.traces import read_trace
from presage.traces.cleaning import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from presage.traces import Trace

    Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
WORK = ROOT / "out" / "train-on-synthetic"
CELLS = ROOT / "docs" / "results" / "data" / "train-on-synthetic"
LOGS = {
    "SDSC-BLUE": "SDSC-BLUE-2000-4.2-cln",
    "HPC2N": "HPC2N-2002-2.2-cln",
    "CTC-SP2": "CTC-SP2-1996-3.1-cln",
    "KTH-SP2": "KTH-SP2-1996-2.1-cln",
}
SEEDS = (1, 2, 3, 4, 5)
TRAIN = (0.3, 0.6)
MOST, FEW, DRAWN = 20_000, 1_000, 20_000
SYNTHESIZER = "sequence"
JOBS, LOAD = 512, 0.9
WINDOWS, POPULATION, GENERATIONS = 32, 10, 16
NO_GUARD = Guard(1e12, 0.0)
"""Nobody waits so long."""
TRAININGS = {
    "real": ("real",),
    "synthetic": ("synthetic",),
    "few-real": ("few-real",),
    "few-synthetic": ("few-synthetic",),
    "few-both": ("few-real", "few-synthetic"),
}
"""Which jobs each training draws its windows from, equally many from each."""
RULES = ("fcfs", "sjf", "saf")


@cache
def parts(log: str) -> tuple[Trace, Trace]:
    """Return the jobs to learn from, and the later ones."""
    trace = clean(read_trace(DATA / f"{LOGS[log]}.swf.gz"), ["learning"])
    first, last = (int(share * len(trace)) for share in TRAIN)
    return trace.with_jobs(trace.jobs[max(first, last - MOST) : last]), trace.with_jobs(trace.jobs[last:])


def case_of_requests(trace: Trace) -> Case:
    """Return the jobs of a trace, of whose run times only the requests are known."""
    jobs = jobs_of(trace, kill=True)
    users = trace.jobs["user"].fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    told = RunForecasts.certain(jobs.limit_ms / 1000)
    return Case(trace.manifest.name, jobs, machine_size(trace, None), users, told)


def synthesizer(log: str, which: str) -> Synthesizer:
    """Return the model that learned from a log's jobs, or from few of them; made once, and kept."""
    folder = WORK / f"{log}-{which}"
    if not (folder / "model.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        training = Training(
            checkpoint=folder.with_suffix(".checkpoint"),
            progress=lambda done, total, words: say(f"{folder.name} {done}/{total} {words}"),
        )
        find_synthesizer(SYNTHESIZER).train(real_jobs(log, which), None, training).save(folder)
    return load_synthesizer(folder)


def real_jobs(log: str, which: str) -> Trace:
    """Return the jobs to learn from, or the last few of them."""
    learned, _ = parts(log)
    return learned.with_jobs(learned.jobs.tail(FEW)) if which.startswith("few") else learned


@lru_cache(maxsize=4)
def jobs_to_learn(log: str, which: str, seed: int) -> Case:
    """Return real or synthetic jobs; the seed draws the synthetic ones."""
    if which in ("real", "few-real"):
        return case_of_requests(real_jobs(log, which))
    drawn = sample(synthesizer(log, which), Request(jobs=DRAWN, seed=seed))
    return case_of_requests(clean(drawn, ["learning"]))


def random_windows(cases: Sequence[Case], count: int, rng: np.random.Generator) -> list[Case]:
    """Return windows at the same load that begin anywhere, equally many of each case."""
    begins = [
        (each, int(rng.integers(len(each) - JOBS + 1))) for each in cases for _ in range(count // len(cases))
    ]
    return [case.select(slice(begin, begin + JOBS)).at_load(LOAD) for case, begin in begins]


@cache
def later_windows(log: str) -> list[Case]:
    """Return all windows of later jobs that do not overlap, at the same load."""
    later = case_of_requests(parts(log)[1])
    return [
        later.select(slice(begin, begin + JOBS)).at_load(LOAD)
        for begin in range(0, len(later) - JOBS + 1, JOBS)
    ]  # fmt: skip


def slowdowns(order: QueueScorer | str, windows: Sequence[Case]) -> list[float]:
    """Return the mean bounded slowdown of each window."""
    return [Outcome.of(each, each.run(Decider(order, None))).slowdown for each in windows]


def trained(log: str, which: str) -> dict[str, Any]:
    """Train what draws the synthetic jobs, and tell how that went."""
    model = synthesizer(log, which)
    names = ("cpu_s", "epochs", "best_epoch", "calibration")
    record = {name: model.record[name] for name in names if name in model.record}
    return {"jobs": model.source.jobs, "load": model.source.load, "settings": asdict(model.settings), **record}


def rules(log: str) -> dict[str, Any]:
    """Test what nobody has to learn."""
    tested = {"index": slowdowns(QueueScorer(), later_windows(log))}
    return tested | {rule: slowdowns(rule, later_windows(log)) for rule in RULES}


def learned(log: str, training: str, seed: int) -> dict[str, Any]:
    """Search on the jobs of a training, and test what was found."""
    begin = time.process_time()
    cases = [jobs_to_learn(log, which, seed) for which in TRAININGS[training]]
    windows = random_windows(cases, WINDOWS, np.random.default_rng(seed))
    search = Search(generations=GENERATIONS, population=POPULATION, seed=seed, guard=NO_GUARD, tail=0.0)
    drawn_s, begin = time.process_time() - begin, time.process_time()
    found = search_scorer(windows, search)
    say(f"{log} {training} {seed}: cost {found.cost:.3f}")
    return {
        "weights": dict(zip(OF_THE_JOB, found.scorer.weights.tolist(), strict=True)),
        "cost": found.cost,
        "index_while_learning": geometric_mean(np.array(slowdowns(QueueScorer(), windows))),
        "drawn_cpu_s": drawn_s, "search_cpu_s": time.process_time() - begin,
        "slowdowns": slowdowns(found.scorer, later_windows(log)),
    }  # fmt: skip


def compared(log: str) -> dict[str, Any]:
    """Return how trainings and rules compare with real jobs and with few, over the seeds that are done."""
    names, seeds = what_is_done(log)
    tested = {
        name: np.array([read_cell(CELLS, f"{log}/{name}/{seed}")["slowdowns"] for seed in seeds]) for name in names
    }
    tested |= {name: np.array([values]) for name, values in read_cell(CELLS, f"{log}/rules").items()}
    rows = {}
    for name, found in tested.items():
        rows[name] = {
            "bounded_slowdown": float(found.mean()),
            "by_seed": found.mean(axis=1).tolist(),
            "ratio_by_seed": [ratio_of(each, tested["real"])["ratio"] for each in found[:, None]],
            **{f"to_{base}": ratio_of(found, tested[base]) for base in ("real", "few-real", "index")},
        }
    jobs, later = parts(log)
    sizes = {"jobs": len(jobs), "later": len(later), "windows": tested["index"].shape[1]}
    return {**sizes, "seeds": seeds, "rows": rows}


def what_is_done(log: str) -> tuple[list[str], list[int]]:
    """Return the trainings that are done for some seed, and the seeds for which all of these are."""
    names = [name for name in TRAININGS if any(is_done(f"{log}/{name}/{seed}") for seed in SEEDS)]
    return names, [seed for seed in SEEDS if all(is_done(f"{log}/{name}/{seed}") for name in names)]


def ratio_of(one: Floats, other: Floats) -> dict[str, Any]:
    """Compare two sets of slowdowns (seeds, windows) of the same windows; they may have other seeds."""
    draws = Draws.of(one.shape[1])
    logs = np.log(one).mean(axis=0) - np.log(other).mean(axis=0)
    means = one.mean(axis=0), other.mean(axis=0)
    drawn = np.exp(draws.means(logs)) if draws.any else np.empty(0)
    drawn_means = draws.sums(means[0]) / draws.sums(means[1]) if draws.any else np.empty(0)
    return {
        "ratio": float(np.exp(logs.mean())),
        "ci95": draws.interval(drawn),
        "of_means": float(means[0].mean() / means[1].mean()),
        "of_means_ci95": draws.interval(drawn_means),
    }


def geometric_mean(values: Floats) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(values).mean()))


def cells() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return all cells by name, in the order in which they build on each other."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    # Few jobs are learned from in seconds, many in minutes: these come last.
    few = ("real", "few-real", "few-synthetic", "few-both")
    for synthetic, trainings in (("few-synthetic", few), ("synthetic", ("synthetic",))):
        for log in LOGS:
            found[f"{log}/{synthetic}/model"] = partial(trained, log, synthetic)
        for seed in SEEDS:
            for log in LOGS:
                for training in trainings:
                    found[f"{log}/{training}/{seed}"] = partial(learned, log, training, seed)
    for log in LOGS:
        found[f"{log}/rules"] = partial(rules, log)
    return found


def is_done(name: str) -> bool:
    """Return whether a cell is there."""
    return (CELLS / f"{name}.json").exists()


def conclusions() -> dict[str, Any]:
    """Compare what is done on each log, and keep that beside the cells."""
    found = {}
    for log in LOGS:
        names, seeds = what_is_done(log)
        if is_done(f"{log}/rules") and seeds and {"real", "few-real"} <= set(names):
            found[log] = compared(log)
            keep_cell(CELLS, f"{log}/compared", found[log])
    return {"compared": found}


if __name__ == "__main__":
    run_cells("train_on_synthetic", __doc__ or "", CELLS, cells(), conclude=conclusions)
