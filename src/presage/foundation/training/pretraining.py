"""The model from nothing: logs of many clusters, variants of them, and a network for each task.

presage model pretrain LOG… --out model.safetensors
torchrun --nproc-per-node 2 -m presage model pretrain LOG… --out model.safetensors
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from presage.errors import InputError
from presage.foundation.model import Model
from presage.foundation.training.corpus import WARM_UP, Corpus, Source
from presage.foundation.training.loop import Recipe, train
from presage.foundation.training.network import Network
from presage.foundation.training.processes import World
from presage.foundation.training.towers import shape_for, tower_of
from presage.foundation.training.variants import can_vary, learnt_from, synthetic_variant, variant_of
from presage.foundation.view.examples import Questions, at_submits, examples_of, in_between
from presage.foundation.view.jobs import history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task
from presage.traces import read_trace
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from presage.foundation.training.variants import Draw
    from presage.foundation.view.examples import Examples
    from presage.foundation.view.jobs import JobHistory
    from presage.traces import Trace

    Progress = Callable[[str, float], None]
    """Told what is being done, and which share of it is done."""

SYNTHETIC_SEED = 1_000_003
"""Keeps the random numbers of synthetic variants apart from those of the others."""
NOUNS = {Task.WAIT: "waits", Task.RUN: "run times"}


@dataclass(frozen=True)
class Plan:
    """Everything that decides what comes out of a pre-training, besides the logs."""

    wait: Recipe = field(default_factory=Recipe)
    run: Recipe = field(default_factory=lambda: Recipe(stretch=1.5))
    jobs: int = 50_000
    """Jobs of each log that are asked about, from its end backwards."""
    later: float = 0.3
    """Share of jobs that are asked about once more while they wait, and while they run."""
    variants: int = 0
    """Variants made of each log."""
    synthetic: int = 0
    """Variants of each log that are drawn by a synthesizer which has learned from it."""
    variants_share: float = 0.5
    """Share of questions that come from variants, if there are any."""
    seed: int = 0

    @classmethod
    def of(cls, *, steps: int, variants: int = 0, synthetic: int = 0, jobs: int = 50_000, seed: int = 0) -> Plan:
        """Return the usual plan with other sizes."""
        usual = cls()
        return replace(
            usual, wait=replace(usual.wait, steps=steps), run=replace(usual.run, steps=steps), variants=variants,
            synthetic=synthetic, jobs=jobs, seed=seed,
        )  # fmt: skip

    def recipe(self, task: Task) -> Recipe:
        """Return how the network of one task is trained."""
        return self.wait if task is Task.WAIT else self.run


def examples_for(history: JobHistory, plan: Plan, seed: int) -> Examples:
    """Return the questions about one log that a network is trained with."""
    first = max(0, len(history) - plan.jobs)
    rng = np.random.default_rng((plan.seed, seed))
    return examples_of(
        history, Questions.merged(at_submits(history, first), in_between(history, plan.later, rng, first)), first
    )


def gather(
    histories: Mapping[str, JobHistory],
    plan: Plan,
    on_progress: Progress = lambda _what, _share: None,
    draws: Mapping[str, Draw] | None = None,
) -> tuple[list[Examples], list[Examples]]:
    """Return the questions about all logs, and about their variants. It takes a few seconds for each.

    `draws` makes jobs after a log, for those logs that have synthetic variants.
    """
    real, variants = [], []
    for number, (name, history) in enumerate(histories.items()):
        on_progress(f"reading {name}", number / len(histories))
        real.append(examples_for(history, plan, number))
        for variant in range(plan.variants if can_vary(history) else 0):
            rng = np.random.default_rng((plan.seed, number, variant + 1))
            variants.append(examples_for(variant_of(history, rng)[0], plan, number))
        if draws and name in draws:
            variants += _synthetic(draws[name], len(history), plan, number)
    return real, variants


def _synthetic(draw: Draw, jobs: int, plan: Plan, number: int) -> list[Examples]:
    """Return the questions about the synthetic variants of one log."""
    found = []
    for variant in range(plan.synthetic):
        rng = np.random.default_rng((plan.seed, number, SYNTHETIC_SEED, variant))
        made = synthetic_variant(draw, jobs, int(rng.integers(2**31)), rng)
        if made is not None:
            found.append(examples_for(made[0], plan, number))
    return found


def corpus_of(real: Sequence[Examples], variants: Sequence[Examples], task: Task, plan: Plan) -> Corpus:
    """Return what batches are drawn from: every log as often as any other, and so every variant."""
    share = plan.variants_share if variants else 0.0
    weights = [(1 - share) / len(real)] * len(real) + [share / max(len(variants), 1)] * len(variants)
    return Corpus([Source(examples, task) for examples in (*real, *variants)], weights)


def pretrain(
    histories: Mapping[str, JobHistory],
    plan: Plan,
    *,
    folder: Path | None = None,
    on_progress: Progress = lambda _what, _share: None,
    about: dict[str, Any] | None = None,
    draws: Mapping[str, Draw] | None = None,
) -> Model:
    """Train a model on the given logs. With `folder`, an interrupted training is taken up again where it was.

    A log that says nothing about one of the tasks teaches the other; the notes in `about` say which. `draws` makes
    jobs after a log for the plan's synthetic variants. Raises InputError if no log is left for a task.
    """
    real, variants = gather(histories, plan, on_progress, draws)
    corpora = {task: corpus_of(real, variants, task, plan) for task in Task}
    logs = dict(zip(histories, real, strict=True))
    notes = [*(about or {}).get("notes", ())]
    notes += [note for task, corpus in corpora.items() for note in _silent(logs, task, corpus)]
    towers = {}
    for task, corpus in corpora.items():
        recipe = plan.recipe(task)
        scaling = corpus.scaling(np.random.default_rng(plan.seed))
        torch.manual_seed(plan.seed)
        network = Network(shape_for(task))

        def report(step: int, loss: float, task: Task = task, recipe: Recipe = recipe) -> None:
            on_progress(f"{task}: loss {loss:.3f}", step / recipe.steps)

        checkpoint = None if folder is None else folder / f"{task}.safetensors"
        train(
            network, corpus, scaling, recipe, seed=plan.seed, logs=list(histories), checkpoint=checkpoint,
            on_step=report,
        )  # fmt: skip
        towers[task] = tower_of(network, task, scaling)
    facts = {"trained_on": list(histories), "plan": asdict(plan), **(about or {})}
    return Model(towers, {**facts, "notes": notes} if notes else facts)


def _silent(logs: Mapping[str, Examples], task: Task, corpus: Corpus) -> list[str]:
    """Return which logs teach nothing of a task, and why. Raises InputError if there is nothing else either."""
    taught_by = {id(source.examples) for source in corpus.sources}
    silent = {name: _why_silent(each, task) for name, each in logs.items() if id(each) not in taught_by}
    if not corpus.sources:
        told = "; ".join(f"{name} {why}" for name, why in silent.items())
        raise InputError(
            f"No log teaches {NOUNS[task]}: {told}",
            expected=f"at least one log with waits, and with more than {WARM_UP} jobs that ran",
            remedy="Add a log that does; of a long one without waits, --variants simulates some",
        )
    return [f"{name} {why}: it teaches no {NOUNS[task]}" for name, why in silent.items()]


def _why_silent(examples: Examples, task: Task) -> str:
    if task is Task.WAIT and not examples.history.has_waits:
        return "has no waits"
    usable = int(targets_of(examples, task).usable.sum())
    return f"has {counted(usable, 'question')} about {NOUNS[task]}, of which the first {WARM_UP} are left out"


def pretrain_files(
    paths: Sequence[str],
    plan: Plan,
    *,
    folder: Path | None,
    name: str,
    on_progress: Progress,
    learn: Callable[[Trace], Draw] | None = None,
) -> Model | None:
    """Train on the logs in some files; under torchrun only the first process gets the model.

    `learn` makes what draws synthetic variants of a log, if the plan has any; a log from which it cannot is noted.
    Raises InputError if two files have the same name, or a log cannot be read.
    """
    names = [Path(path).name for path in paths]
    twice = {each for each in names if names.count(each) > 1}
    if twice:
        raise InputError(f"Two logs are called {min(twice)!r}", expected="a file name of its own for each log")
    histories, draws, notes = {}, {}, []
    for each, path in zip(names, paths, strict=True):
        trace = read_trace(path)
        histories[each] = history_of(trace)
        if learn is None or not plan.synthetic:
            continue
        try:
            draws[each] = learn(learnt_from(trace))
        except InputError as error:
            notes.append(f"{each} has no synthetic variants: {error.problem}")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {"version": name, **({"notes": notes} if notes else {})}
    model = pretrain(histories, plan, folder=folder, on_progress=on_progress, about=about, draws=draws)
    return model if World.join().rank == 0 else None
