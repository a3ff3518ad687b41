"""Batches of questions from many clusters, each cluster as often as any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from presage.foundation.scaling import Scaling
from presage.foundation.training.losses import Truth
from presage.foundation.training.network import Inputs
from presage.foundation.view.targets import Targets, targets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from presage.foundation.view.examples import Examples
    from presage.foundation.view.seen import Seen
    from presage.foundation.view.tasks import Task

WARM_UP = 500
"""The first questions of a log are not trained on: too little is known then."""
NORMALISING = 2000
STRETCHED = 0.5
SMALLEST_SPREAD = 0.05


class Source:
    """The questions of one log, and which of them may be drawn."""

    def __init__(self, examples: Examples, task: Task, *, rows: NDArray[np.int64] | None = None) -> None:
        self.examples = examples
        self.task = task
        self.targets: Targets = targets_of(examples, task)
        usable = np.flatnonzero(self.targets.usable)
        self.rows = usable[WARM_UP:] if rows is None else rows

    def inputs(
        self, rows: NDArray[np.int64], scaling: Scaling, factors: NDArray[np.float32] | None = None
    ) -> Inputs:
        """Return what the network reads for some questions; with factors, on clocks of another speed."""
        seen = self.examples.seen(rows, self.task)
        return tensors_of(seen if factors is None else seen.stretched(factors), scaling)

    def truth(self, rows: NDArray[np.int64], factors: NDArray[np.float32] | float = 1.0) -> Truth:
        """Return what then happened."""
        targets = self.targets
        return Truth(
            torch.from_numpy(np.log1p(targets.outcome_s[rows] * factors).astype(np.float32)),
            torch.from_numpy(targets.is_censored[rows]),
            torch.from_numpy(np.log1p(targets.age_s[rows] * factors).astype(np.float32)),
            torch.from_numpy(targets.end[rows]),
        )


def tensors_of(seen: Seen, scaling: Scaling) -> Inputs:
    """Return what the model sees as a batch for the network."""
    arrays = (
        scaling.apply(seen.x), seen.age_numbers(), seen.tokens, seen.present, seen.outcomes, seen.ends,
        seen.anchor.copy(),
    )  # fmt: skip
    return Inputs(*(torch.from_numpy(array) for array in arrays))


class Corpus:
    """Several sources, drawn from with the given weights; one without a question is left out.

    If none is left, nothing can be drawn: `sources` is to be looked at first.
    """

    def __init__(self, sources: Sequence[Source], weights: Sequence[float] | None = None) -> None:
        self.sources = [source for source in sources if len(source.rows)]
        chosen = weights if weights is not None else [1.0] * len(sources)
        kept = [weight for weight, source in zip(chosen, sources, strict=True) if len(source.rows)]
        self.weights = np.array(kept) / (sum(kept) or 1.0)

    def scaling(self, rng: np.random.Generator) -> Scaling:
        """Return means and spreads over a sample in which every source counts the same."""
        parts = [
            source.examples.x[rng.choice(source.rows, NORMALISING), : source.task.numbers]
            for source in self.sources
        ]
        sample = np.concatenate(parts)
        spread = np.maximum(sample.std(0), SMALLEST_SPREAD)
        return Scaling(sample.mean(0).astype(np.float32), spread.astype(np.float32))

    def draw(
        self, size: int, scaling: Scaling, rng: np.random.Generator, stretch: float = 0.0
    ) -> tuple[Inputs, Truth]:
        """Return a batch. With `stretch`, half of it on clocks that are up to e to that power faster or slower."""
        counts = rng.multinomial(size, self.weights)
        inputs, truths = [], []
        for source, count in zip(self.sources, counts, strict=True):
            if count:
                rows = rng.choice(source.rows, count)
                power = rng.uniform(-stretch, stretch, count) * (rng.random(count) < STRETCHED)
                factors = np.exp(power).astype(np.float32)
                inputs.append(source.inputs(rows, scaling, factors if stretch else None))
                truths.append(source.truth(rows, factors))
        return (
            Inputs(*(torch.cat(parts) for parts in zip(*inputs, strict=True))),
            Truth(*(torch.cat(parts) for parts in zip(*truths, strict=True))),
        )
