"""How true synthetic traces are: the flagship on six logs, every family on two, three seeds each; some privately.

The other families are on the other logs with one seed.

Prints one JSON object. Every cell is a file of its own under docs/results/data/synthesizers: an interrupted run
goes on with the first cell that is missing, and several processes may work on different cells.

Protocol: a model learns from a window of a log and draws as many jobs as it learned from. The report compares them
with the window; the jobs that follow the window in the log (`later`) are what forecasts are tested on, and the
natural level of everything else. Settings are the defaults for every log. Run times are learned from fifteen
traces of each flagship, because what is learned varies with the trace: `run_ratios`, of which the first is that of
the report; `several` compares all fifteen with the log, and `queues` are their replays; `loads` are five that were
asked for at other loads. Replays are at a load of 0.75; waits of synthetic jobs come from FCFS with EASY
backfilling on the log's machine. SDSC-BLUE was in view while the flagship was built, RICC, CTC-SP2 and HPC2N for
what it copies, RICC, Theta and HPC2N for which draft is kept, RICC and HPC2N for how run times are repeated,
Theta, CTC-SP2 and RICC for how gaps are, Theta for how a short log is learned. Private models have the same
settings, an epsilon of 8 and a delta of 1e-5, each for its own unit: a user's week for the flagship, a job for the
others. `no-copies` and `common-copies` are other traces of the flagship's models, five of each: no job, or as many
as come, may be equal to one of the log. These models are kept in out/synthesizers.

    python benchmarks/synthesizers.py                             # what is missing
    python benchmarks/synthesizers.py --only SDSC-BLUE/sequence   # cells whose names begin so
    python benchmarks/synthesizers.py --collect                   # only put together what is there
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from cells import run_cells, say
from presage.synthesizers import (
    Privacy,
    Request,
    Synthesizer,
    Training,
    find_synthesizer,
    load_synthesizer,
    sample,
)
from presage.synthesizers.fidelity.correlations import compare_correlations
from presage.synthesizers.fidelity.marginals import compare_marginals
from presage.synthesizers.fidelity.replay import replay_alike
from presage.synthesizers.fidelity.report import report
from presage.synthesizers.fidelity.temporal import compare_rhythms
from presage.synthesizers.fidelity.usefulness import measure_usefulness
from presage.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
WORK = ROOT / "out" / "synthesizers"
CELLS = ROOT / "docs" / "results" / "data" / "synthesizers"
SEEDS = (1, 2, 3)
LOAD = 0.75
WAITS = "fcfs+easy"
FLAGSHIP = "sequence"
TRACES, FEW_TRACES = 15, 5
"""Of each flagship, to learn run times from: with single ones the error varies by a tenth."""
FAMILIES = (
    FLAGSHIP, "lublin", "copula", "tvae", "ctgan", "copula-gan", "row-transformer", "diffusion",
)  # fmt: skip
PRIVATE = (FLAGSHIP, "tvae", "row-transformer")
PROMISED = "SDSC-BLUE"
PROMISE = Privacy(epsilon=8.0, delta=1e-5)
PRIVATE_SEEDS = (1, 2, 3)
COPIES = {"no-copies": 0.0, "common-copies": 1.0}
"""Which share of jobs may be copies, where it is not the default."""
QUEUES, SEVERAL, LOADS = "queues", "several", "loads"
ASKED_LOADS = (None, 0.6, 0.9)
"""None: as it comes."""
SHUFFLED = "shuffled"
"""The log's own jobs in any order at the log's own times: what a perfect model of rows would draw."""


@dataclass(frozen=True)
class Log:
    """A window of a log."""

    file: str
    begin: int
    learned: int
    later: int


LOGS = {
    "SDSC-BLUE": Log("SDSC-BLUE-2000-4.2-cln.swf.gz", 50_000, 20_000, 20_000),
    "HPC2N": Log("HPC2N-2002-2.2-cln.swf.gz", 50_000, 20_000, 20_000),
    "CTC-SP2": Log("CTC-SP2-1996-3.1-cln.swf.gz", 20_000, 20_000, 20_000),
    "RICC": Log("RICC-2010-2.swf.gz", 50_000, 20_000, 20_000),
    "Theta": Log("ALCF-Theta-2018-excerpt.txt.gz", 0, 2_000, 1_000),
    "openb": Log("openb/openb_pod_list_default.csv.gz", 0, 5_000, 2_200),
}
COMPARED = ("SDSC-BLUE", "Theta")
"""Logs on which all families have three seeds: the first, and the one without users, where others come near."""
REPLAYED = ("SDSC-BLUE", "HPC2N", "CTC-SP2", "RICC")
"""Logs that say how many processors their machine has."""
REPEATED = ("HPC2N", "RICC")
"""Logs of which more than 1 % of the jobs are equal to many others."""


@cache
def windows(name: str) -> tuple[Trace, Trace]:
    """Return the jobs to learn from, and those that follow them."""
    log = LOGS[name]
    trace = read_trace(DATA / log.file)
    usable = trace.jobs.filter(pl.col("run_s").is_not_null() & pl.col("submit_ms").is_not_null())
    split = log.begin + log.learned
    return trace.with_jobs(usable[log.begin : split]), trace.with_jobs(usable[split : split + log.later])


def learned(
    name: str, family: str, seed: int, privacy: Privacy | None = None, *, copies: float | None = None
) -> dict[str, Any]:
    """Train a family on a log and report on what it draws, as many jobs as the window has."""
    real, _ = windows(name)
    model = trained(name, family, seed, privacy)
    begin = time.process_time()
    asked = Request(jobs=len(real), seed=seed, copies=copies)
    drawn = sample(model, asked)
    draw_s = time.process_time() - begin
    if real.manifest.machine.cpus:
        drawn = sample(model, replace(asked, waits=WAITS))
    figures = measured(name, drawn, seed)
    if family == FLAGSHIP:
        figures["run_ratios"] = run_ratios(name, model, asked, TRACES if copies is None else FEW_TRACES)
    kept = ("epochs", "best_epoch", "calibration", "privacy")
    record = {key: value for key, value in model.record.items() if key in kept}
    return {
        **figures,
        "train_cpu_s": model.record["cpu_s"],
        "jobs_per_s": len(drawn) / draw_s,
        "record": record,
    }


def trained(name: str, family: str, seed: int, privacy: Privacy | None) -> Synthesizer:
    """Return a family's model of a log; the flagship's is kept, because more than one cell draws from it."""
    training = Training(
        seed=seed,
        privacy=privacy,
        progress=lambda done, total, words: say(f"{name} {family} {done}/{total} {words}"),
    )
    if family != FLAGSHIP or privacy is not None:
        return find_synthesizer(family).train(windows(name)[0], None, training)
    folder = WORK / f"{name}-{seed}"
    if not (folder / "model.json").exists():
        find_synthesizer(family).train(windows(name)[0], None, training).save(folder)
    model = load_synthesizer(folder)
    sample(model, Request(jobs=1000))  # so that kernels are there, as they are when it has just been trained
    return model


def run_ratios(name: str, model: Synthesizer, asked: Request, count: int) -> list[float]:
    """Return the error of run times learned from each of several traces over that learned from the log.

    The first trace, the one that is asked for, is the one that everything else is measured on.
    """
    real, later = windows(name)
    return [
        measure_usefulness(real, each, later, seed=asked.seed).run.ratio for each in several(model, asked, count)
    ]


def queues(name: str, seed: int) -> dict[str, Any]:
    """Replay several traces of a flagship, of which the first is that of its report."""
    real, later = windows(name)
    drawn = several(trained(name, FLAGSHIP, seed, None), Request(jobs=len(real), seed=seed), TRACES)
    found = [replay_alike(real, each, later, load=LOAD) for each in drawn]
    return {
        f"{each.policy} {each.metric}": [of_trace.outcomes[place].synthetic for of_trace in found]
        for place, each in enumerate(found[0].outcomes)
    }


def alike(name: str, seed: int) -> dict[str, Any]:
    """Compare several traces of a flagship with the log, of which the first is that of its report."""
    real, _ = windows(name)
    found = [
        (compare_marginals(real, each), compare_correlations(real, each), compare_rhythms(real, each))
        for each in several(trained(name, FLAGSHIP, seed, None), Request(jobs=len(real), seed=seed), TRACES)
    ]
    return {
        "mean_ks": [marginals.mean_ks for marginals, _, _ in found],
        "pearson_difference": [correlations.pearson_difference for _, correlations, _ in found],
        **{
            key: [getattr(rhythms.synthetic, key) for _, _, rhythms in found]
            for key in ("ac1", "ac24", "same_user", "repeated")
            if np.isfinite(getattr(found[0][2].real, key))
        },
    }


def at_loads(name: str, seed: int) -> dict[str, Any]:
    """Compare traces that were asked for at other loads with those that come, all replayed at the same load."""
    real, later = windows(name)
    model = trained(name, FLAGSHIP, seed, None)
    found: dict[str, Any] = {}
    for load in ASKED_LOADS:
        drawn = list(several(model, Request(jobs=len(real), seed=seed, load=load), FEW_TRACES))
        rhythms = [compare_rhythms(real, each).synthetic for each in drawn]
        outcomes = [replay_alike(real, each, later, load=LOAD).outcomes for each in drawn]
        found[str(load or "as it comes")] = {
            "ac1": [each.ac1 for each in rhythms],
            "ac24": [each.ac24 for each in rhythms],
            **{
                f"{each.policy} {each.metric}": [of_trace[place].synthetic for of_trace in outcomes]
                for place, each in enumerate(outcomes[0])
            },
        }
    return found


def several(model: Synthesizer, asked: Request, count: int) -> Iterator[Trace]:
    """Yield traces with seeds of their own, the one that is asked for first."""
    for seed in range(asked.seed, asked.seed + count * len(SEEDS), len(SEEDS)):
        yield sample(model, replace(asked, seed=seed))


def shuffled(name: str, seed: int) -> dict[str, Any]:
    """Report on the log's own jobs in any order."""
    real, _ = windows(name)
    order = np.random.default_rng(seed).permutation(len(real))
    jobs = real.jobs[order].with_columns(real.jobs["submit_ms"], real.jobs["job_id"])
    manifest = replace(real.manifest, synthetic=True, name=f"shuffled {real.manifest.name}")
    return measured(name, Trace.create(jobs, manifest), seed)


def measured(name: str, drawn: Trace, seed: int) -> dict[str, Any]:
    """Return the figures of a report, without what only pictures need."""
    real, later = windows(name)
    full = report(real, drawn, later, seed=seed, load=LOAD).as_dict()
    return {
        **_likeness(full["likeness"]),
        "natural": _likeness(full["natural"]),
        "usefulness": full["usefulness"],
        "replay": full["replay"],
        "memorisation": full["memorisation"],
    }


def _likeness(found: dict[str, Any]) -> dict[str, Any]:
    marginals, rhythms = dict(found["marginals"]), found["rhythms"]
    marginals["numbers"] = {each["name"]: each["ks"] for each in marginals.get("numbers", [])}
    marginals["labels"] = {each["name"]: each["tv"] for each in marginals.get("labels", [])}
    scalars = ("ac1", "ac24", "same_user", "repeated", "session_jobs", "in_sessions", "bursts")
    return {
        "marginals": marginals,
        "pearson_difference": found["correlations"].get("pearson_difference"),
        "spearman_difference": found["correlations"].get("spearman_difference"),
        "row_auc": found["rows"].get("auc"),
        "sequence_auc": found["sequences"].get("auc"),
        "told_apart_by": found["sequences"].get("strongest"),
        "rhythms": {side: {key: rhythms[side].get(key) for key in scalars} for side in ("real", "synthetic")},
        "daily_tv": rhythms.get("daily_tv"),
        "weekly_tv": rhythms.get("weekly_tv"),
        "constraints": found["constraints"],
    }


def cells() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return all cells by name, in the order of what they tell."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for seed in SEEDS:
        for name in LOGS:
            found[f"{name}/{FLAGSHIP}/{seed}"] = partial(learned, name, FLAGSHIP, seed)
            found[f"{name}/{SEVERAL}/{seed}"] = partial(alike, name, seed)
        for name in REPLAYED:
            found[f"{name}/{QUEUES}/{seed}"] = partial(queues, name, seed)
            found[f"{name}/{LOADS}/{seed}"] = partial(at_loads, name, seed)
        for name in REPEATED:
            for words, share in COPIES.items():
                found[f"{name}/{words}/{seed}"] = partial(learned, name, FLAGSHIP, seed, copies=share)
    for name, seed in [(each, seed) for each in LOGS for seed in (SEEDS if each in COMPARED else SEEDS[:1])]:
        for family in FAMILIES:
            found.setdefault(f"{name}/{family}/{seed}", partial(learned, name, family, seed))
        found[f"{name}/{SHUFFLED}/{seed}"] = partial(shuffled, name, seed)
    for seed in PRIVATE_SEEDS:
        for family in PRIVATE:
            found[f"{PROMISED}/private-{family}/{seed}"] = partial(learned, PROMISED, family, seed, PROMISE)
    return found


if __name__ == "__main__":
    run_cells("synthesizers", __doc__ or "", CELLS, cells())
