"""How fast policies are learned: PPO and CMA-ES over five seeds, beside rules that nobody has to learn.

Prints one JSON object. Every cell of the experiment is a file of its own under docs/results/data/learning-curves:
an interrupted run goes on with the first cell that is missing, and several processes may work on different cells.

Protocol: windows of 256 jobs from an empty machine, each at a load of 0.9, reservations by requests. Policies
learn on windows of the first part and are judged on 32 fixed windows of the later part. `lublin`: 10,000 jobs of
Lublin's model with exact requests, learned on the first 60 %. KTH-SP2 and SDSC-SP2: cleaned by `learning`, learned
on 30-60 %, judged on the last 40 %; run times are known as requested, or as forecast by networks that have never
seen the log (those of benchmarks/foundation.py, by way of benchmarks/policies.py). All learners and rules are told
the same.

A decision is a choice that an environment asks for. CMA-ES runs whole windows in the engine instead: each window
counts as many decisions as the index is asked for in the environment.

    python benchmarks/learning_curves.py                          # what is missing; about 15 CPU minutes
    python benchmarks/learning_curves.py --only lublin/ppo        # cells whose names begin so
    python benchmarks/learning_curves.py --collect                # only put together what is there
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cells import run_cells, say
from policies import TEST, TRAIN, part
from presage.environments import Episode, Workload
from presage.learning.cases import Case
from presage.learning.observed_rules import RULES, Played, choose_by, play
from presage.learning.outcomes import Outcome
from presage.learning.reinforcement import PpoSettings, TrainedPpo, train_ppo
from presage.learning.search import Search, search_scorer
from presage.policies.queue_scorer import Guard, QueueScorer
from presage.policies.run_forecasts import RunForecasts
from presage.simulator.guided import Decider
from presage.simulator.jobs import jobs_of
from presage.traces.workloads import make_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.learning.networks import QueueNetwork
    from presage.simulator.jobs import Jobs

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "out" / "learning-curves"
CELLS = ROOT / "docs" / "results" / "data" / "learning-curves"
SEEDS = (0, 1, 2, 3, 4)
JOBS, LOAD, SLOTS = 256, 0.9, 64
JUDGED, JUDGED_SEED = 32, 1_000_000
DECISIONS, LONGER = 24_576, 98_304
CMA_WINDOWS, CMA_POPULATION = 8, 8
CMA_GENERATIONS = (1, 2, 4, 8, 16)
NO_GUARD = Guard(1e12, 0.0)
"""Nobody waits so long: PPO has no guard either."""
FEW_SHOTS = 8_192
LUBLIN_JOBS = 10_000
WORKLOADS = ("lublin/exact", "KTH/requested", "KTH/forecast")
ADAPTED = ("lublin/exact", "SDSC-SP2/forecast")
"""From which workload to which a policy is carried."""


@dataclass(frozen=True)
class CaseWindows(Workload):
    """Windows of a case, each at the same load."""

    case: Case
    jobs: int = JOBS

    def window(self, begin: int) -> Case:
        """Return the window that begins there."""
        return self.case.select(slice(begin, begin + self.jobs)).at_load(LOAD)

    def draw(self, rng: np.random.Generator) -> Episode:
        drawn = self.window(int(rng.integers(len(self.case) - self.jobs + 1)))
        return Episode(drawn.jobs, drawn.processors, drawn.users)


def told(case: Case, what: str) -> Case:
    """Return a case in which an order knows one number of each run.

    It is the request, or by forecasts the root of E[run] / E[1 / run], of which the index has the square.
    """
    estimate_s = case.told(what).expected_s
    if what == "forecast":
        estimate_s = np.sqrt(case.forecasts.expected_s / case.forecasts.inverse)
    jobs = replace(case.jobs, estimate_ms=np.round(estimate_s * 1000).astype(np.int64))
    return replace(case, jobs=jobs, forecasts=RunForecasts.certain(estimate_s))


@cache
def workloads(name: str) -> tuple[CaseWindows, CaseWindows]:
    """Return the windows to learn on and those to judge by."""
    log, what = name.split("/")
    if log != "lublin":
        return CaseWindows(told(part(log, TRAIN), what)), CaseWindows(told(part(log, TEST), what))
    trace = make_model("lublin").generate(LUBLIN_JOBS, seed=0)
    jobs: Jobs = jobs_of(trace, kill=True)
    users = np.zeros(len(jobs), np.int64)
    exact = Case("lublin", jobs, 256, users, RunForecasts.certain(jobs.run_ms / 1000))
    return CaseWindows(exact.between(0, 0.6)), CaseWindows(exact.between(0.6, 1))


def judged_windows(name: str) -> list[Case]:
    """Return the very windows that an environment draws when it is reset with the seed of the judgement."""
    held = workloads(name)[1]
    draws = [np.random.default_rng(JUDGED_SEED + k) for k in range(JUDGED)]
    return [held.window(int(rng.integers(len(held.case) - held.jobs + 1))) for rng in draws]


@cache
def by_rule(name: str, rule: str) -> Played:
    """Return how a rule does on the windows to judge by."""
    return play(choose_by(rule), workloads(name)[1], JUDGED, seed=JUDGED_SEED, slots=SLOTS)


def figures(name: str, played: Played) -> dict[str, float]:
    """Return the mean bounded slowdown, and the geometric mean of ratios to the index, window by window."""
    return {"bounded_slowdown": played.slowdown, "ratio_to_index": played.ratio_to(by_rule(name, "index"))}


def judge(name: str, network: QueueNetwork) -> dict[str, float]:
    """Return the figures of a network."""
    return figures(name, play(network.choose, workloads(name)[1], JUDGED, seed=JUDGED_SEED, slots=SLOTS))


def rules(name: str) -> dict[str, Any]:
    """Measure the rules."""
    return {rule: figures(name, by_rule(name, rule)) for rule in RULES}


def ppo(
    name: str,
    seed: int,
    *,
    imitate: str | None = "index",
    start: TrainedPpo | None = None,
    decisions: int = DECISIONS,
) -> dict[str, Any]:
    """Learn by PPO, from the index, from nothing, or from what was learned elsewhere."""
    settings = PpoSettings(
        decisions, seed=seed, imitate=imitate, slots=SLOTS, entropy=0.0 if imitate or start else 0.003
    )
    begin = time.process_time()
    trained = train_ppo(
        workloads(name)[0], settings, start=start, judge=partial(judge, name),
        progress=lambda done, _all, line: say(f"{name} ppo {seed} {done} {line['bounded_slowdown']:.2f}"),
    )  # fmt: skip
    if start is None and decisions == DECISIONS:
        trained.save(kept(name, "ppo" if imitate else "ppo-from-nothing", seed))
    return {"curve": trained.curve, "cpu_s": time.process_time() - begin}


def kept(name: str, kind: str, seed: int) -> Path:
    """Return where a trained network is kept, for others to begin with."""
    WORK.mkdir(parents=True, exist_ok=True)
    return WORK / f"{name.replace('/', '-')}-{kind}-{seed}.safetensors"


def cma(name: str, seed: int, *, generations: tuple[int, ...] = CMA_GENERATIONS) -> dict[str, Any]:
    """Search a linear scorer that begins at the index, and judge what each length of search found."""
    begin = time.process_time()
    train = workloads(name)[0]
    rng = np.random.default_rng(seed)
    cases = [train.window(int(rng.integers(len(train.case) - train.jobs + 1))) for _ in range(CMA_WINDOWS)]
    each = by_rule(name, "index").decisions / JUDGED
    journal = WORK / f"{name.replace('/', '-')}-cma-{seed}.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.unlink(missing_ok=True)
    curve = [{"decisions": 0, **scored(name, QueueScorer())}]
    for length in generations:
        # The journal keeps what shorter searches have simulated.
        search = Search(generations=length, population=CMA_POPULATION, seed=seed, guard=NO_GUARD, tail=0.0)
        found = search_scorer(cases, search, journal=journal, workers=1)
        decisions = round((length * CMA_POPULATION + 1) * CMA_WINDOWS * each)
        curve.append({"decisions": decisions, "cost": found.cost, **scored(name, found.scorer)})
        say(f"{name} cma {seed} {length} {curve[-1]['bounded_slowdown']:.2f}")
    return {"curve": curve, "weights": found.scorer.weights.tolist(), "cpu_s": time.process_time() - begin}


def scored(name: str, scorer: QueueScorer) -> dict[str, float]:
    """Return the figures of a scorer on the windows to judge by."""
    outcomes = [Outcome.of(each, each.run(Decider(scorer, None))).slowdown for each in judged_windows(name)]
    return figures(name, Played(np.array(outcomes), 0))


def adapted(kind: str, seed: int) -> dict[str, Any]:
    """Learn for a few episodes on a new log: from what was learned elsewhere, from the index, or from nothing."""
    source, target = ADAPTED
    start = TrainedPpo.load(kept(source, "ppo", seed)) if kind == "carried" else None
    return ppo(target, seed, start=start, imitate=None if kind == "from-nothing" else "index", decisions=FEW_SHOTS)


def cells() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return all cells by name, in the order in which they build on each other."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for name in (*WORKLOADS, ADAPTED[1]):
        found[f"{name}/rules"] = partial(rules, name)
    for seed in SEEDS:
        for name in WORKLOADS:
            found[f"{name}/ppo/{seed}"] = partial(ppo, name, seed)
            found[f"{name}/cma/{seed}"] = partial(cma, name, seed)
        found[f"lublin/exact/ppo-from-nothing/{seed}"] = partial(ppo, "lublin/exact", seed, imitate=None)
        for name in ("lublin/exact", "KTH/forecast"):
            found[f"{name}/ppo-longer/{seed}"] = partial(ppo, name, seed, decisions=LONGER)
        for kind in ("carried", "from-index", "from-nothing"):
            found[f"adapt/{kind}/{seed}"] = partial(adapted, kind, seed)
    return found


if __name__ == "__main__":
    known = {"jobs": JOBS, "load": LOAD, "judged": JUDGED, "seeds": len(SEEDS)}
    run_cells("learning_curves", __doc__ or "", CELLS, cells(), known)
