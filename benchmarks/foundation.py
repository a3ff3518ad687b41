"""How good the model's forecasts are on clusters that none of its weights has seen.

Prints one JSON object. Every cell of the experiment is a file of its own under docs/results/data/foundation: an
interrupted run goes on with the first cell that is missing, and several processes may work on different cells.

Protocol: 15 logs with real waits; the last 80,000 jobs of the five main sites, the last 50,000 of the others, jobs
that never ran left out; the test is the last fifth by submit. The main sites are held out one by one, the others
in groups of five: no weight has seen a log that it is measured on. The recipe was chosen with the main sites held
out together; `fresh` and `rest` were scored once it was fixed.

    python benchmarks/foundation.py                      # what is missing; hours of CPU
    python benchmarks/foundation.py --only zero-shot/fresh --seeds 0
    python benchmarks/foundation.py --collect            # only put together what is there
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import presage
from presage.foundation.baselines import BASELINES, ForecastsFailures
from presage.foundation.baselines.boosting import Boosting
from presage.foundation.baselines.simulation import Simulation
from presage.foundation.evaluation import answer_test, failure_scores
from presage.foundation.mixture import log_quantiles
from presage.foundation.model import Model
from presage.foundation.scoring import Split, area_under_roc, average_precision, score, split_of
from presage.foundation.training.corpus import Corpus, Source
from presage.foundation.training.finetuning import COURSES, error_of, finetune_tower
from presage.foundation.training.loop import Recipe, train
from presage.foundation.training.network import Network
from presage.foundation.training.pretraining import Plan, examples_for
from presage.foundation.training.towers import network_of, shape_for, tower_of
from presage.foundation.view import numbers
from presage.foundation.view.examples import Examples, Questions, at_submits, examples_of
from presage.foundation.view.jobs import JobHistory, history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.simulator.bootstrap import Draws
from presage.traces import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from presage.foundation.model import Tower

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
WORK = ROOT / "out" / "foundation"
CELLS = ROOT / "docs" / "results" / "data" / "foundation"
FOLDS = {
    "main": {
        "KTH": "KTH-SP2-1996-2.1-cln",
        "Curie": "CEA-Curie-2011-2.1-cln",
        "BLUE": "SDSC-BLUE-2000-4.2-cln",
        "HPC2N": "HPC2N-2002-2.2-cln",
        "RICC": "RICC-2010-2",
    },
    "fresh": {
        "CTC": "CTC-SP2-1996-3.1-cln",
        "SDSC-SP2": "SDSC-SP2-1998-4.2-cln",
        "Intrepid": "ANL-Intrepid-2009-1",
        "COARE": "DOST-ASTI_COARE-Saliksik-2020-cln",
        "Ross": "Sandia-Ross-2001-1.1-cln",
    },
    "rest": {
        "CM5": "LANL-CM5-1994-4.1-cln",
        "LPC": "LPC-EGEE-2004-1.2-cln",
        "MetaCentrum": "METACENTRUM-2009-2",
        "OSC": "OSC-Clust-2000-3.1-cln",
        "SDSC-Par": "SDSC-Par-1996-3.1-cln",
    },
}
FILES = {name: file for fold in FOLDS.values() for name, file in fold.items()}
SCHEDULERS = {"slurm": ("Curie", "COARE")}
"""Held out together, to see how the model does under a scheduler it has never seen."""
ELSEWHERE = {
    "pozidriv (Slurm)": "xdmod-pozidriv.sacct.txt.gz",
    "SuperCloud (Slurm)": "mit-supercloud-2021-sample.csv.gz",
    "openb (Kubernetes)": "openb/openb_pod_list_default.csv.gz",
    "Google 2011 (Borg)": "google-2011-job_events-000-099.csv.gz",
}
"""Logs of other kinds that no network of this benchmark is trained on."""
NAMED = ("pozidriv (Slurm)",)
"""Logs that tell the names of jobs, and have enough of them."""
RULES = ("requested", "last-two", "similar", "state-knn", "qbets")
ROWS_PER_SITE = 10_000
KNOWN_JOBS = (0, 10, 100, 1_000, 10_000)
CUTS, ASKED_AFTER = (0.8, 0.87, 0.94), 500
"""Where in a log a cluster counts as new, and how many jobs after that are asked about."""
FEWEST_TO_LEARN = 100
SIMULATED, SHARES = 1_500, (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


def latest(site: str) -> int:
    """Return how many jobs of a log are used."""
    return 80_000 if site in FOLDS["main"] else 50_000


@cache
def examples(site: str) -> Examples:
    """Return the questions about a log; made once, and kept in the working folder."""
    path = WORK / f"{site}-{numbers.VERSION}.npz"
    if path.exists():
        return load_examples(path)
    made = examples_for(history(site), Plan(jobs=latest(site)), [*FILES, *ELSEWHERE].index(site))
    save_examples(made, path)
    return made


def history(site: str) -> JobHistory:
    """Return the jobs of a log."""
    file = ELSEWHERE[site] if site in ELSEWHERE else f"{FILES[site]}.swf.gz"
    return history_of(read_trace(DATA / file))


def save_examples(made: Examples, path: Path) -> None:
    """Write examples as arrays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    history, questions = made.history, made.questions
    partial = path.with_suffix(".partial.npz")
    np.savez(
        partial, facts=history.facts, start_s=history.start_s, end_s=history.end_s, outcome=history.outcome,
        size=np.float64(history.size or np.nan),
        counts=np.array([history.users, history.queues, history.origin_ms]),
        asked=questions.asked, time_s=questions.time_s, kinds=questions.kinds, jobs=made.jobs, x=made.x,
        waits=made.waits, runs=made.runs,
    )  # fmt: skip
    partial.replace(path)


def load_examples(path: Path) -> Examples:
    """Read what `save_examples` wrote; ids of jobs are not kept."""
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    users, queues, origin_ms = (int(each) for each in arrays["counts"])
    history = JobHistory(
        arrays["facts"], arrays["start_s"], arrays["end_s"], arrays["outcome"], [], origin_ms,
        float(arrays["size"]), None, users, queues,
    )  # fmt: skip
    questions = Questions(arrays["asked"], arrays["time_s"], arrays["kinds"])
    return Examples(history, questions, arrays["jobs"], arrays["x"], arrays["waits"], arrays["runs"])


def split(site: str, task: Task) -> Split:
    """Return the protocol's split, the same for all forecasters and seeds."""
    return split_of(examples(site), task, latest(site))


def held_out(fold: str) -> tuple[str, ...]:
    """Return the sites of a fold: a group of five, one site, or the sites of one scheduler."""
    if fold in FOLDS:
        return tuple(FOLDS[fold])
    return SCHEDULERS.get(fold, (fold,))


def trained_on(fold: str) -> list[str]:
    """Return all other sites."""
    return [site for site in FILES if site not in held_out(fold)]


def zero_shot(fold: str, task: Task, seed: int, steps: int) -> dict[str, Any]:
    """Train without the sites of a fold, and measure on each of them, as it is and fine-tuned on its own past."""
    tower, cpu_s = pretrained(fold, task, seed, steps)
    sites: dict[str, dict[str, Any]] = {}
    for site in held_out(fold):
        part = split(site, task)
        answer = answer_test(tower, examples(site), part)
        sites[site] = {"plain": answer.plain.as_dict(), "recalibrated": answer.recalibrated.as_dict()}
        if answer.failure is not None:
            sites[site]["failure_auroc"], sites[site]["failure_auprc"] = answer.failure
        if site == fold:
            sites[site]["finetuned"] = finetuned(tower, site, part, seed)
        say(f"{site} {task} {answer.recalibrated.log_mae:.3f} {answer.recalibrated.coverage_80:.3f}")
    return {"trained_on": trained_on(fold), "steps": steps, "train_cpu_s": cpu_s, "sites": sites}


def pretrained(fold: str, task: Task, seed: int, steps: int) -> tuple[Tower, float]:
    """Return a network that has seen all sites but those of the fold, and the CPU seconds it took.

    It is kept in the working folder, so that it can be measured again without being trained again.
    """
    path = WORK / f"{fold}-{task}-{seed}-{steps}.safetensors"
    if path.exists():
        held = Model.load(path)
        return held.towers[task], float(held.about["cpu_s"])
    recipe = Plan.of(steps=steps, seed=seed).recipe(task)
    corpus = Corpus([Source(examples(site), task) for site in trained_on(fold)])
    scaling = corpus.scaling(np.random.default_rng(seed))
    torch.manual_seed(seed)
    network = Network(shape_for(task))
    begin = time.process_time()
    train(network, corpus, scaling, recipe, seed=seed)
    cpu_s = time.process_time() - begin
    tower = tower_of(network, task, scaling)
    Model({task: tower}, {"cpu_s": cpu_s}).save(path)
    return tower, cpu_s


def finetuned(tower: Tower, site: str, part: Split, seed: int) -> dict[str, Any]:
    """Return the figures after fine-tuning on the site's first 70 %, judged by its next 10 %."""
    begin = time.process_time()
    tuned = finetune_tower(tower, examples(site), part.train, part.validate, seed=seed)
    cpu_s = time.process_time() - begin
    answer = answer_test(tuned.tower, examples(site), part)
    return {**answer.recalibrated.as_dict(), "took_over": tuned.took_over, "cpu_s": cpu_s}


def boosting(fold: str, task: Task) -> dict[str, Any]:
    """Train boosting on the same numbers of the same other sites, and measure on the sites of the fold."""
    parts = boosted_on(fold, task)
    model = Boosting()
    model.fit(parts, task)
    if task is Task.RUN:
        model.fit_failures(parts)
    return {"trained_on": trained_on(fold), "sites": {site: _scores(model, site, task) for site in held_out(fold)}}


def boosted_on(fold: str, task: Task) -> list[tuple[Examples, NDArray[np.int64]]]:
    """Return what boosting learns from: as many questions at submits of each other site."""
    rng = np.random.default_rng(0)
    parts = []
    for site in trained_on(fold):
        rows = Source(examples(site), task).rows
        rows = rows[examples(site).questions.kinds[rows] == 0]
        rows = rows[~targets_of(examples(site), task).is_censored[rows]]
        parts.append((examples(site), np.sort(rng.choice(rows, min(ROWS_PER_SITE, len(rows)), replace=False))))
    return parts


def failures(fold: str, steps: int) -> dict[str, Any]:
    """Measure how sure it is that a network ranks failures better than boosting does: over blocks of jobs."""
    tower, _ = pretrained(fold, Task.RUN, 0, steps)
    boosted = Boosting()
    boosted.fit_failures(boosted_on(fold, Task.RUN))
    sites = {}
    for site in held_out(fold):
        rows = split(site, Task.RUN).test
        rows = rows[targets_of(examples(site), Task.RUN).end[rows] >= 0]
        failed = targets_of(examples(site), Task.RUN).end[rows] > 0
        if 0 < failed.sum() < len(failed):
            _, chances = tower.answers(examples(site), rows)
            assert chances is not None  # networks for run times tell ends
            sites[site] = {
                "jobs": len(rows), "failures": int(failed.sum()),
                **_differences(1 - chances[:, 0], boosted.failures(examples(site), rows), failed),
            }  # fmt: skip
            say(f"{site} {sites[site]}")
    return {"sites": sites}


def _differences(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], failed: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return by how much our figures are higher, with the 95 % intervals."""
    draws = Draws.of(len(failed))
    drawn = [np.repeat(np.arange(len(failed)), times.astype(int)[draws.block_of]) for times in draws.times]
    found = {}
    for name, figure in (("auroc", area_under_roc), ("auprc", average_precision)):
        values = [_higher(figure, ours[rows], theirs[rows], failed[rows]) for rows in drawn]
        found[name] = {
            "higher_by": _higher(figure, ours, theirs, failed), "ci95": draws.interval(np.array(values)),
        }  # fmt: skip
    return found


def _higher(figure: Callable[..., float | None], ours: Any, theirs: Any, failed: Any) -> float:
    one, other = figure(ours, failed), figure(theirs, failed)
    return np.nan if one is None or other is None else one - other


def in_site(site: str, task: Task) -> dict[str, Any]:
    """Measure what knows the site itself: rules, and boosting trained on its past, once and refitted."""
    found = {}
    names = [*RULES, "boosting", *(["boosting-refit"] if site in FOLDS["main"] else []), "user-ema"]
    for name in names:
        baseline = BASELINES.get(name)()
        part = split(site, task)
        if task in baseline.tasks:
            baseline.fit([(examples(site), part.train)], task, (examples(site), part.validate))
        if task is Task.RUN and isinstance(baseline, ForecastsFailures):
            baseline.fit_failures([(examples(site), part.train)], (examples(site), part.validate))
        found[name] = _scores(baseline, site, task)
        say(f"{site} {task} {name} {found[name].get('log_mae')}")
    return found


def _scores(baseline: Any, site: str, task: Task) -> dict[str, Any]:
    rows = split(site, task).test
    targets = targets_of(examples(site), task)
    found: dict[str, Any] = {}
    if task in baseline.tasks:
        found = score(baseline.forecast(examples(site), rows, task), targets.outcome_s[rows], task).as_dict()
    if task is Task.RUN and isinstance(baseline, ForecastsFailures):
        chance = baseline.failures(examples(site), rows)
        found["failure_auroc"], found["failure_auprc"] = failure_scores(chance, targets.end[rows])
    return found


def elsewhere(site: str, task: Task, steps: int) -> dict[str, Any]:
    """Measure a network that has seen SWF logs only on a log of another kind, beside what knows the log itself."""
    tower, _ = pretrained("rest", task, 0, steps)
    answer = answer_test(tower, examples(site), split(site, task))
    found = in_site(site, task)
    found["zero-shot"] = answer.recalibrated.as_dict()
    if answer.failure is not None:
        found["zero-shot"]["failure_auroc"], found["zero-shot"]["failure_auprc"] = answer.failure
    return found


def names(site: str, steps: int) -> dict[str, Any]:
    """Measure run times with the names of jobs and without them, zero-shot and fine-tuned."""
    tower, _ = pretrained("rest", Task.RUN, 0, steps)
    nameless = history(site)
    nameless.facts["name"] = 0
    nameless.facts["name_bits"] = 0
    made = {"with names": examples(site), "without": examples_for(nameless, Plan(jobs=latest(site)), 0)}
    found: dict[str, Any] = {}
    for kind, each in made.items():
        part = split_of(each, Task.RUN, latest(site))
        tuned = finetune_tower(tower, each, part.train, part.validate).tower
        found[kind] = {
            "jobs": len(part.test),
            "zero-shot": answer_test(tower, each, part).recalibrated.as_dict(),
            "fine-tuned": answer_test(tuned, each, part).recalibrated.as_dict(),
        }
    return found


def simulated(site: str, steps: int) -> dict[str, Any]:
    """Measure waits by simulating the queue forwards, and the model's forecasts shifted towards them.

    How far they are shifted is chosen by questions before the test.
    """
    tower, _ = pretrained(site, Task.WAIT, 0, steps)
    part, rng = split(site, Task.WAIT), np.random.default_rng(0)
    logs: dict[str, tuple[NDArray[np.float64], ...]] = {}
    for name, rows in {"choose": part.validate, "test": part.test}.items():
        drawn = np.sort(rng.choice(rows, min(SIMULATED, len(rows)), replace=False))
        told = log_quantiles(tower.answers(examples(site), drawn)[0], np.array([0.5]))[:, 0]
        simulation_s = Simulation(draws=0).forecast(examples(site), drawn, Task.WAIT)[:, 1]
        truth = np.log1p(targets_of(examples(site), Task.WAIT).outcome_s[drawn])
        logs[name] = (told, np.log1p(simulation_s), truth)

    def error(name: str, share: float) -> float:
        told, simulation, truth = logs[name]
        return float(np.abs((1 - share) * told + share * simulation - truth).mean() / np.log(10))

    share = min(SHARES, key=partial(error, "choose"))
    return {
        "jobs": len(logs["test"][0]), "share": share, "model": error("test", 0.0),
        "simulation": error("test", 1.0), "both": error("test", share),
    }  # fmt: skip


def memorised(site: str, task: Task, steps: int) -> dict[str, Any]:
    """Compare the shipped model, which was trained on all of a log, with a network that has never seen it."""
    unseen, _ = pretrained(site, task, 0, steps)
    part = split(site, task)
    towers = {"shipped": Model.load().towers[task], "never seen": unseen}
    return {name: answer_test(tower, examples(site), part).plain.as_dict() for name, tower in towers.items()}


def context(site: str, task: Task, steps: int) -> dict[str, Any]:
    """Measure how the error falls as more finished jobs of a new site are known, with and without pre-training."""
    tower, _ = pretrained(site, task, 0, steps)
    whole = history(site)
    ran = np.flatnonzero(np.isfinite(whole.start_s) & np.isfinite(whole.end_s) & (whole.end_s > whole.start_s))
    rows: dict[str, list[dict[str, float]]] = {"zero-shot": [], "fine-tuned": [], "from scratch": []}
    for known in KNOWN_JOBS:
        errors: dict[str, list[float]] = {kind: [] for kind in rows}
        for share in CUTS:
            cut = int(share * len(ran))
            part = whole.select(ran[max(cut - known, 0) : cut + ASKED_AFTER])
            asked = examples_of(part, at_submits(part))
            learn, judge = np.arange(min(known, cut)), np.arange(min(known, cut), len(part))
            errors["zero-shot"].append(error_of(tower, asked, judge))
            if known >= FEWEST_TO_LEARN:
                fitted = _fitted(tower, asked, learn)
                for kind, each in fitted.items():
                    errors[kind].append(error_of(each, asked, judge))
        for kind, found in errors.items():
            if found:
                rows[kind].append(
                    {"known": known, "log_mae": float(np.mean(found)), "spread": float(np.std(found))}
                )
        say(f"{site} {task} {known}: { {kind: round(float(np.mean(e)), 3) for kind, e in errors.items() if e} }")
    return {"asked_after": ASKED_AFTER, "cuts": list(CUTS), "rows": rows}


def _fitted(tower: Tower, asked: Examples, learn: NDArray[np.int64]) -> dict[str, Tower]:
    """Return the network fine-tuned on some rows, and one of the same shape that has seen nothing else."""
    corpus = Corpus([Source(asked, tower.task, rows=learn)])
    tuned = network_of(tower)
    train(tuned, corpus, tower.scaling, replace(COURSES[tower.task].recipe, steps=100))
    torch.manual_seed(0)
    fresh = Network(shape_for(tower.task))
    scaling = corpus.scaling(np.random.default_rng(0))
    train(fresh, corpus, scaling, Recipe(steps=400, warm_up=40))
    task = tower.task
    return {"fine-tuned": tower_of(tuned, task, tower.scaling), "from scratch": tower_of(fresh, task, scaling)}


def cells(seeds: list[int], steps: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the name of every cell and what makes it, the most important ones first."""
    folds = (*FOLDS["main"], "fresh", "rest")
    for seed in seeds:
        for fold in (*folds, *(SCHEDULERS if seed == seeds[0] else ())):
            for task in Task:
                yield f"zero-shot/{fold}/{task}-{seed}", partial(zero_shot, fold, task, seed, steps)
        if seed == seeds[0]:
            for fold in folds:
                for task in Task:
                    yield f"boosting/{fold}/{task}", partial(boosting, fold, task)
                yield f"failures/{fold}/run", partial(failures, fold, steps)
    for site in ("KTH", "Curie", "BLUE"):
        for task in Task:
            yield f"context/{site}/{task}", partial(context, site, task, steps)
    for site in ELSEWHERE:
        for task in Task:
            yield f"elsewhere/{site}/{task}", partial(elsewhere, site, task, steps)
    for site in FOLDS["main"]:
        yield f"simulated/{site}/wait", partial(simulated, site, steps)
    for site in NAMED:
        yield f"names/{site}/run", partial(names, site, steps)
    for site in FOLDS["main"]:
        for task in Task:
            yield f"memorised/{site}/{task}", partial(memorised, site, task, steps)
    for site in FILES:
        for task in Task:
            yield f"in-site/{site}/{task}", partial(in_site, site, task)


def say(text: str) -> None:
    """Tell how far it is, on stderr."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def run(name: str, make: Callable[[], dict[str, Any]]) -> None:
    """Make one cell unless it is there, or another process is at it."""
    path = CELLS / f"{name}.json"
    claim = path.with_suffix(".claimed")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return
    try:
        begin, cpu = time.monotonic(), time.process_time()
        say(f"{name}: running")
        result = make()
        spent = {"seconds": round(time.monotonic() - begin, 1), "cpu_s": round(time.process_time() - cpu, 1)}
        path.write_text(json.dumps({"cell": name, **spent, **result}, indent=1, allow_nan=False) + "\n")
        say(f"{name}: {spent['seconds']} s")
    finally:
        claim.unlink(missing_ok=True)


def collect() -> dict[str, Any]:
    """Return all cells that are there as one document."""
    found = {
        str(path.relative_to(CELLS).with_suffix("")): json.loads(path.read_text())
        for path in sorted(CELLS.rglob("*.json"))
    }
    return {
        "benchmark": "foundation",
        "presage": presage.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "made": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cells": found,
    }


def main() -> None:
    """Run the cells that are missing, and print what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only cells whose names begin so")
    parser.add_argument("--task", default="", help="only cells of this task")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--prepare", nargs="*", help="only make the questions about these sites")
    parser.add_argument("--collect", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, help="write the JSON there as well")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.prepare is not None:
        for site in arguments.prepare or FILES:
            say(f"{site}: {len(examples(site)):,} questions")
            examples.cache_clear()
        return
    if not arguments.collect:
        for name, make in cells(arguments.seeds, arguments.steps):
            if name.startswith(arguments.only) and arguments.task in name.rsplit("/", 1)[-1]:
                run(name, make)
    text = json.dumps(collect(), indent=1, allow_nan=False)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
