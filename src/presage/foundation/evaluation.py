"""A model measured on a log it has not seen: every job of its last fifth is asked about as it was submitted."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError
from presage.foundation.baselines import BASELINES, ForecastsFailures
from presage.foundation.baselines.boosting_zero_shot import BoostingZeroShot
from presage.foundation.calibration import track
from presage.foundation.mixture import log_quantiles
from presage.foundation.scoring import (
    Scores,
    Split,
    area_under_roc,
    average_precision,
    cut_at_limit,
    score,
    split_of,
)
from presage.foundation.view.examples import at_submits, examples_of
from presage.foundation.view.jobs import history_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.foundation.baselines import Baseline
    from presage.foundation.model import Model, Tower
    from presage.foundation.view.examples import Examples
    from presage.foundation.view.jobs import JobHistory
    from presage.traces import Trace

    Floats = NDArray[np.float64]

LATEST = 50_000
"""Jobs of the log that are used, from its end backwards."""
LEVELS = np.array([0.1, 0.5, 0.9])
CALIBRATING_JOBS = 2000
ALL = "all"
NEEDED = {"boost": ("lightgbm",)}
"""What the extras of baselines install."""
FEWEST = 10
"""With fewer jobs to test on nothing can be said."""


@dataclass(frozen=True)
class Assessed:
    """How one forecaster did on one log."""

    scores: dict[Task, Scores]
    failure_auroc: float | None = None
    failure_auprc: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the figures under names that begin with their task; null where the log cannot tell."""
        figures: dict[str, Any] = {}
        for task in Task:
            own = self.scores[task].as_dict() if task in self.scores else dict.fromkeys(Scores.__annotations__)
            figures |= {f"{task}_{name}": value for name, value in own.items()}
        return {**figures, "failure_auroc": self.failure_auroc, "failure_auprc": self.failure_auprc}


@dataclass(frozen=True)
class Evaluation:
    """How a model and some baselines did on one log."""

    model: Assessed
    plain: Assessed
    """The model without recalibration of its intervals."""
    baselines: dict[str, Assessed]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return all figures, those of the model at the top."""
        return {
            **self.model.as_dict(),
            "without_recalibration": self.plain.as_dict(),
            "baselines": {name: assessed.as_dict() for name, assessed in self.baselines.items()},
            "notes": list(self.notes),
        }


def evaluate(
    trace: Trace,
    model: Model,
    *,
    baselines: Sequence[str] = (),
    boost_on: Sequence[Trace] = (),
    latest: int = LATEST,
) -> Evaluation:
    """Return how `model` and the baselines named do on the last `latest` jobs of a log that ran.

    Everything is causal. Baselines that learn do so on the first 70 % of those jobs. "all" among their names
    stands for those that have something to say about this log and whose packages are installed. Raises InputError
    if there are too few jobs to say anything, UnknownNameError for a baseline that does not exist. With logs of
    other clusters to `boost_on`, boosting that has seen only those is measured too.
    """
    named = {name: BASELINES.get(name) for name in baselines if name != ALL}
    history = history_of(trace)
    examples = examples_of(history, at_submits(history, first := max(0, len(history) - 2 * latest)), first)
    tasks = [task for task in Task if task is Task.RUN or history.has_waits]
    every, notes = _applicable(history, tasks) if ALL in baselines else ({}, [])
    chosen = {**every, **named}
    if len(split_of(examples, Task.RUN, latest).test) < FEWEST:
        raise InputError(
            f"Too few jobs of the log ran for a test: {int(np.isfinite(history.end_s).sum())}",
            expected=f"at least {5 * FEWEST} jobs that started and ended",
        )
    recalibrated, plain = {}, {}
    failure: tuple[float | None, float | None] = (None, None)
    for task in tasks:
        answer = answer_test(model.towers[task], examples, split_of(examples, task, latest))
        recalibrated[task], plain[task] = answer.recalibrated, answer.plain
        if answer.failure is not None:
            failure = answer.failure
    others = {name: assess_baseline(kind(), examples, tasks, latest) for name, kind in chosen.items()}
    if boost_on:
        boosted = BoostingZeroShot(boost_on, tasks)
        others[boosted.name] = assess_baseline(boosted, examples, tasks, latest)
    return Evaluation(
        Assessed(recalibrated, *failure), Assessed(plain, *failure), others, (*history.notes, *notes)
    )


def _applicable(history: JobHistory, tasks: Sequence[Task]) -> tuple[dict[str, type[Baseline]], list[str]]:
    """Return the baselines that can say something about a log, and notes on those that are not installed."""
    ends = history.outcome[np.isfinite(history.end_s)]
    tells_failures = bool((ends == 0).any() and (ends > 0).any())
    found, notes = {}, []
    for spec in BASELINES.specs():
        missing = [each for each in NEEDED.get(spec.extra, ()) if find_spec(each) is None]
        if missing:
            notes.append(f"The baseline {spec.name} is left out: it needs the extra {spec.extra!r}")
            continue
        kind = BASELINES.get(spec.name)
        if kind.tasks & set(tasks) or (tells_failures and issubclass(kind, ForecastsFailures)):
            found[spec.name] = kind
    return found, notes


@dataclass(frozen=True)
class TestAnswer:
    """What a network said about the test part of one log."""

    plain: Scores
    recalibrated: Scores
    failure: tuple[float | None, float | None] | None
    quantiles_s: Floats


def answer_test(tower: Tower, examples: Examples, split: Split) -> TestAnswer:
    """Ask a network about the test part, recalibrating as outcomes become known, from shortly before it on."""
    before = split.validate[-CALIBRATING_JOBS:]
    rows = np.concatenate([before, split.test])
    curves, chances = tower.answers(examples, rows)
    quantiles = log_quantiles(curves, LEVELS)
    targets, asked = targets_of(examples, tower.task), examples.questions.asked[rows]
    history = examples.history
    since_s = history.facts["submit_s"][asked] if tower.task is Task.WAIT else history.start_s[asked]
    tracked, _ = track(
        quantiles, examples.questions.time_s[rows], since_s, targets.outcome_s[rows], targets.is_censored[rows]
    )
    tested = slice(len(before), None)

    def scored(log_seconds: Floats) -> Scores:
        seconds = np.expm1(log_seconds[tested])
        if tower.task is Task.RUN:
            seconds = cut_at_limit(seconds, history, asked[tested])
        return score(seconds, targets.outcome_s[rows][tested], tower.task)

    failure = None
    if chances is not None:
        failure = failure_scores(1 - chances[tested, 0], targets.end[rows][tested])
    return TestAnswer(scored(quantiles), scored(tracked), failure, np.expm1(tracked[tested]))


def failure_scores(chance: Floats, ends: NDArray[np.int32]) -> tuple[float | None, float | None]:
    """Return AUROC and AUPRC of the chance not to complete, over jobs whose end is known."""
    known = ends >= 0
    failed = ends[known] > 0
    return area_under_roc(chance[known], failed), average_precision(chance[known], failed)


def assess_baseline(baseline: Baseline, examples: Examples, tasks: Sequence[Task], latest: int | None) -> Assessed:
    """Fit a baseline on the first part of a log, as far as it learns at all, and measure it on the last."""
    scores = {}
    for task in tasks:
        if task not in baseline.tasks:
            continue
        split = split_of(examples, task, latest)
        baseline.fit([(examples, split.train)], task, (examples, split.validate))
        truth_s = targets_of(examples, task).outcome_s[split.test]
        scores[task] = score(baseline.forecast(examples, split.test, task), truth_s, task)
    if not isinstance(baseline, ForecastsFailures):
        return Assessed(scores)
    split = split_of(examples, Task.RUN, latest)
    baseline.fit_failures([(examples, split.train)], (examples, split.validate))
    ends = targets_of(examples, Task.RUN).end[split.test]
    return Assessed(scores, *failure_scores(baseline.failures(examples, split.test), ends))
