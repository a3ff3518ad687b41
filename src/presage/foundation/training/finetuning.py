"""A model that has seen many clusters learns the ways of one more, and takes over only where that helps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.mixture import log_quantiles
from presage.foundation.training.corpus import Corpus, Source
from presage.foundation.training.loop import Recipe, train
from presage.foundation.training.towers import network_of, tower_of
from presage.foundation.view.targets import targets_of
from presage.foundation.view.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.foundation.model import Tower
    from presage.foundation.view.examples import Examples

    Rows = NDArray[np.int64]

SHORTER = 0.6
"""How high the learning rate of a round is against that of the one before."""
JUDGED_BY = 3000
"""Questions by which it is looked."""


@dataclass(frozen=True)
class Course:
    """How a network is fine-tuned: in rounds, ever shorter of breath."""

    recipe: Recipe
    """Of the first round; its steps are those of all rounds together."""
    rounds: int
    stops_early: bool
    """Whether the best round counts, by the rows held back, and not the last.

    Waits hang on the weeks they are of, and soon too much is learnt. Run times are learnt better with every round,
    and which one is best by a few bursts of jobs is chance.
    """

    def of_steps(self, steps: int | None) -> Course:
        """Return the same course with another number of steps; None: as it is."""
        return self if steps is None else replace(self, recipe=replace(self.recipe, steps=steps))

    @property
    def round_steps(self) -> int:
        """Steps of each round."""
        return max(self.recipe.steps // self.rounds, 1)

    @property
    def steps(self) -> int:
        """Steps of all rounds."""
        return self.round_steps * self.rounds


_RECIPE = Recipe(steps=300, rate=4e-4, warm_up=30, blind=0.2)
COURSES = {
    Task.WAIT: Course(_RECIPE, rounds=3, stops_early=True),
    Task.RUN: Course(replace(_RECIPE, steps=1000), rounds=5, stops_early=False),
}


@dataclass(frozen=True)
class Finetuned:
    """What came of it."""

    tower: Tower
    """The better one of both."""
    before: float
    """The median error (log10 of seconds) on the rows held back, before and after."""
    after: float

    @property
    def took_over(self) -> bool:
        """Whether the fine-tuned network is the better one."""
        return self.after < self.before


def finetune_tower(
    tower: Tower,
    examples: Examples,
    learn: Rows,
    judge: Rows,
    *,
    course: Course | None = None,
    seed: int = 0,
    on_progress: Callable[[float], None] = lambda _share: None,
) -> Finetuned:
    """Train on some rows of one log, and keep what came of it if it is better on rows that came later.

    Without a course, it is the one of the tower's task. `on_progress` is told by how much training advances with
    each step.
    """
    course = course or COURSES[tower.task]
    if len(judge) > JUDGED_BY:
        judge = np.sort(np.random.default_rng(seed).choice(judge, JUDGED_BY, replace=False))
    before = error_of(tower, examples, judge)
    best, least = tower, np.inf
    network = network_of(tower)
    corpus = Corpus([Source(examples, tower.task, rows=learn)])
    for part in range(course.rounds):
        recipe = replace(course.recipe, rate=course.recipe.rate * SHORTER**part, steps=course.round_steps)
        train(
            network, corpus, tower.scaling, recipe, seed=seed + 1000 * part,
            on_step=lambda _step, _loss: on_progress(1 / course.steps),
        )  # fmt: skip
        if not course.stops_early and part < course.rounds - 1:
            continue
        tuned = tower_of(network, tower.task, tower.scaling)
        error = error_of(tuned, examples, judge)
        if error < least:
            best, least = tuned, error
    return Finetuned(best if least < before else tower, before, least)


def error_of(tower: Tower, examples: Examples, rows: Rows) -> float:
    """Return the mean error of the medians, in powers of ten."""
    medians = log_quantiles(tower.answers(examples, rows)[0], np.array([0.5]))[:, 0]
    truth = np.log1p(targets_of(examples, tower.task).outcome_s[rows])
    return float(np.abs(medians - truth).mean() / np.log(10))
