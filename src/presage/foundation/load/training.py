"""How the shipped networks were made: rows of many sites, pinball loss, Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.foundation.load.network import QUANTITIES, Network, pinball

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Lesson:
    """Rows of one site: inputs (B, F), truths (B, Q) in the units of the outputs, missing where nothing came."""

    inputs: Floats
    truths: Floats


@dataclass(frozen=True)
class Recipe:
    """How to train; the defaults made the shipped networks."""

    hidden: int = 48
    passes: int = 6
    batch: int = 1024
    rate: float = 2e-3
    decay: float = 1e-4
    members: int = 1
    seed: int = 1


def train(
    lessons: Sequence[Lesson], recipe: Recipe, report: Callable[[float], None] | None = None
) -> list[Network]:
    """Return the members of an ensemble; every site counts the same whatever its number of rows.

    `report` is told the loss of every pass.
    """
    inputs = np.concatenate([lesson.inputs for lesson in lessons]).astype(np.float32)
    truths = np.concatenate([lesson.truths for lesson in lessons]).astype(np.float32)
    truths = np.clip(truths, -20, 20)
    weights = np.concatenate([_shares(lesson.truths) for lesson in lessons]).astype(np.float32)
    rngs = np.random.default_rng(recipe.seed).spawn(recipe.members)
    return [_train_member(inputs, truths, weights, recipe, rng, report) for rng in rngs]


def _shares(truths: Floats) -> Floats:
    count = np.maximum(np.isfinite(truths).sum(0), 50)
    return np.broadcast_to(1 / count, truths.shape).astype(np.float32) * 1e3


def _train_member(
    inputs: Floats,
    truths: Floats,
    weights: Floats,
    recipe: Recipe,
    rng: np.random.Generator,
    report: Callable[[float], None] | None,
) -> Network:
    network = Network.create(inputs, recipe.hidden, rng)
    known, scaled = network.parameters, network.scaled(inputs)
    trained = [name for name in known if name.startswith(("weight", "bias"))]
    first = {name: np.zeros_like(known[name]) for name in trained}
    second = {name: np.zeros_like(known[name]) for name in trained}
    steps = recipe.passes * -(-len(inputs) // recipe.batch)
    step = 0
    for _ in range(recipe.passes):
        order, losses = rng.permutation(len(inputs)), []
        for begin in range(0, len(order), recipe.batch):
            rows = order[begin : begin + recipe.batch]
            layers = network.forward(scaled[rows])
            loss, slopes = pinball(layers[-1], truths[rows], weights[rows])
            losses.append(loss)
            step += 1
            rate = recipe.rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, gradient in network.gradients(layers, slopes * len(QUANTITIES)).items():
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.999 * second[name] + 0.001 * gradient**2
                unbiased = first[name] / (1 - 0.9**step)
                size = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
                known[name] -= (rate * (unbiased / size + recipe.decay * known[name])).astype(np.float32)
        if report:
            report(float(np.mean(losses)))
    return network
