"""Fine-tuning on a trace as a whole: what to learn from, what to judge by, and the model that comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.errors import InputError
from presage.foundation.lineage import finetuned, learning
from presage.foundation.model import Model
from presage.foundation.training.finetuning import COURSES, Finetuned, finetune_tower
from presage.foundation.view._replay import SUBMITTED
from presage.foundation.view.examples import Questions, at_submits, examples_of, in_between
from presage.foundation.view.jobs import history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.foundation.view.examples import Examples
    from presage.traces import Trace

LEARNT_FROM = 0.9
FEWEST = 200
"""With fewer finished jobs there is nothing to learn that the context does not show anyway."""


@dataclass(frozen=True)
class Adapted:
    """A model fine-tuned on one cluster."""

    model: Model
    tasks: dict[Task, Finetuned]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return how each network fared on the jobs held back."""
        return {
            task.value: {"log_mae_before": each.before, "log_mae_after": each.after, "took_over": each.took_over}
            for task, each in self.tasks.items()
        }


def adapt(
    trace: Trace,
    model: Model,
    *,
    steps: int | None = None,
    latest: int = 50_000,
    seed: int = 0,
    only: Task | None = None,
    until_ms: int | None = None,
    on_progress: Callable[[float], None] = lambda _share: None,
) -> Adapted:
    """Fine-tune on the first nine tenths of the last `latest` jobs, and judge by the rest.

    With `only`, the networks of other tasks stay as they are; with `until_ms`, nothing is learnt that was not
    known by then. Each network makes the steps of its course unless `steps` says how many. `on_progress` is told
    by how much the whole advances with each step. Raises InputError if too few jobs ended.
    """
    if until_ms is not None:
        trace = trace.with_jobs(trace.jobs.filter(pl.col("submit_ms") < until_ms))
    history = history_of(trace)
    until_s = np.inf if until_ms is None else (until_ms - history.origin_ms) / 1000
    first = max(0, len(history) - latest)
    later = in_between(history, 0.3, np.random.default_rng(seed), first)
    examples = examples_of(history, Questions.merged(at_submits(history, first), later), first)
    tasks = [task for task in Task if (task is Task.RUN or history.has_waits) and only in (None, task)]
    towers, results, networks = dict(model.towers), {}, {}
    for task in tasks:
        learn, judge = _parts(examples, task, until_s)
        if len(learn) + len(judge) < FEWEST:
            raise InputError(
                f"Only {len(learn) + len(judge)} jobs of the log can be learnt from",
                expected=f"at least {FEWEST} jobs that ran",
                remedy="Use the model as it is: it needs no training",
            )
        results[task] = finetune_tower(
            towers[task], examples, learn, judge, course=COURSES[task].of_steps(steps), seed=seed,
            on_progress=lambda share: on_progress(share / len(tasks)),
        )  # fmt: skip
        networks[task] = learning(results[task], learn, judge)
        towers[task] = results[task].tower
    about = finetuned(
        model.about, version=f"{model.version}+finetuned", log=trace.manifest.name, jobs=len(history) - first,
        networks=networks,
    )  # fmt: skip
    return Adapted(Model(towers, about), results, history.notes)


def _parts(examples: Examples, task: Task, until_s: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows to learn from, whose outcomes were known when the others begin, and rows to judge by."""
    targets, questions, history = targets_of(examples, task), examples.questions, examples.history
    known_s = (history.start_s if task is Task.WAIT else history.end_s)[questions.asked]
    usable = np.flatnonzero(targets.usable & ((known_s < until_s) | np.isinf(until_s)))
    split_s = questions.time_s[usable[int(LEARNT_FROM * len(usable))]] if len(usable) else 0.0
    before = questions.time_s < split_s
    learn = usable[before[usable] & (known_s[usable] < split_s)]
    is_judge = ~before & (questions.kinds == SUBMITTED) & ~targets.is_censored
    return learn, usable[is_judge[usable]]
