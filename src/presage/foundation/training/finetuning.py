"""A model that has seen many clusters learns the ways of one more, and takes over only where that helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.mixture import log_quantiles
from presage.foundation.training.corpus import Corpus, Source
from presage.foundation.training.loop import Recipe, train
from presage.foundation.training.towers import network_of, tower_of
from presage.foundation.view.targets import targets_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from presage.foundation.model import Tower
    from presage.foundation.view.examples import Examples

    Rows = NDArray[np.int64]

RECIPE = Recipe(steps=300, rate=4e-4, warm_up=30, blind=0.2)
ROUNDS = 3
"""After each of so many rounds, ever shorter of breath, it is looked whether the network has become better."""
JUDGED_BY = 3000
"""Questions by which it is looked."""


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
    recipe: Recipe = RECIPE,
    seed: int = 0,
    on_step: Callable[[int, float], None] | None = None,
) -> Finetuned:
    """Train on some rows of one log, and keep the best of what came, judged by rows that came later."""
    if len(judge) > JUDGED_BY:
        judge = np.sort(np.random.default_rng(seed).choice(judge, JUDGED_BY, replace=False))
    before = error_of(tower, examples, judge)
    best, least = tower, np.inf
    network = network_of(tower)
    corpus = Corpus([Source(examples, tower.task, rows=learn)])
    for part in range(ROUNDS):
        step = Recipe(**{**recipe.__dict__, "rate": recipe.rate * 0.6**part, "steps": recipe.steps // ROUNDS})
        train(network, corpus, tower.scaling, step, seed=seed + 1000 * part, on_step=on_step)
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
