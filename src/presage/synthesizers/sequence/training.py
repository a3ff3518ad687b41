"""Training the network: first to see for how long, by jobs that it does not learn from; then on all jobs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from presage.synthesizers._files import second_checkpoint
from presage.synthesizers._fitting import Recipe, fit
from presage.synthesizers._private import descend
from presage.synthesizers.sequence.network import Batch, SequenceNetwork, Shape

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from presage.synthesizers._base import Training
    from presage.synthesizers._private import Descent
    from presage.synthesizers.columns import Columns, FloatArray, IntArray
    from presage.synthesizers.sequence.examples import Examples
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.settings import Settings
    from presage.synthesizers.sequence.streams import Streams

SCORED_AT_ONCE = 2048
STEPS_IN_ROUND, SMALLEST_BATCH = 32, 16
"""Batches of short logs are smaller, down to a bound, so that a round through their jobs has so many steps."""
LOOKED_AT = 16
"""Jobs of a unit, drawn anew each time, by which a private step looks at it."""
PRIOR_JOBS = 10_000
"""As how many jobs the shares of words that are known already count."""
PRIVATE_PACE = 5.0
"""A private training has few steps, and takes longer ones."""
SMALLER = 3
"""A private network is that many times less wide: every weight has its noise."""


def train_network(
    examples: Examples, later: IntArray, fields: Fields, columns: Columns, settings: Settings, training: Training
) -> tuple[SequenceNetwork, dict[str, Any]]:
    """Return a network trained on all examples, and how it went.

    How many epochs that takes is found by a network that does not see the examples `later`, and is scored by them.
    Checkpoints stay, so that it need not be done again if what follows is interrupted.
    """
    own = settings
    everything = np.arange(len(examples.words))
    batch = min(own.batch, max(len(everything) // STEPS_IN_ROUND, SMALLEST_BATCH))
    recipe = Recipe(own.epochs, own.patience, batch, own.rate, own.decay)
    users = int(examples.user.max()) + 1
    shape = Shape(fields.sizes, users, own.width, own.hidden, dropout=own.dropout)

    def fresh(rows: IntArray) -> SequenceNetwork:
        torch.manual_seed(training.seed)
        return SequenceNetwork(shape, fields.values(columns), examples.counts(rows, users))

    def loss_of(net: Any, rows: IntArray) -> Any:
        return -net(examples.batch(rows)).sum(1).mean()

    def score(net: Any) -> float:
        parts = [later[at : at + SCORED_AT_ONCE] for at in range(0, len(later), SCORED_AT_ONCE)]
        return float(-sum(net(examples.batch(part)).sum() for part in parts) / len(later))

    checkpoint = training.checkpoint
    second = checkpoint and second_checkpoint(checkpoint)
    if checkpoint and second and not checkpoint.exists():
        second.unlink(missing_ok=True)  # of a training that was not gone on with
    earlier = np.setdiff1d(everything, later)
    record = fit(
        fresh(earlier), len(earlier), lambda net, rows: loss_of(net, earlier[rows]), score, recipe, training,
        asdict(own), keep_checkpoint=True,
    )  # fmt: skip
    network = fresh(everything)
    tried = record["epochs"]
    again = replace(
        training,
        checkpoint=second,
        progress=lambda done, total, _: training.tell(tried + done, tried + total, "on all jobs"),
    )
    fit(
        network, len(everything), loss_of, score, recipe, again, asdict(own), stop_at=record["best_epoch"],
        keep_checkpoint=True,
    )  # fmt: skip
    return network, record


def train_privately(
    examples: Examples,
    streams: Streams,
    shares: list[FloatArray],
    fields: Fields,
    columns: Columns,
    settings: Settings,
    training: Training,
    descent: Descent,
) -> SequenceNetwork:
    """Return a network to which every stream has added no more than a clipped gradient at a time, and noise.

    `shares` are what is known already of how often each word comes; nobody has habits of their own.
    """
    shape = Shape(
        fields.sizes,
        1,
        max(settings.width // SMALLER, 2),
        max(settings.hidden // SMALLER, 2),
        dropout=0.0,
        forget_user=0.0,
    )
    torch.manual_seed(training.seed)
    torch.set_num_threads(1)
    counts = [np.rint(each * PRIOR_JOBS).astype(np.int64)[None, :] for each in shares]
    network = SequenceNetwork(shape, fields.values(columns), counts)
    chance = np.random.default_rng()

    def gradients(chosen: IntArray) -> list[Tensor]:
        rows, weight = _some_jobs(streams, chosen, chance)
        return _each_own(network, examples.batch(rows.ravel()), weight)

    recipe = private_recipe(settings)
    descend(network, gradients, len(streams.user), descent, recipe, training)
    return network


def private_recipe(settings: Settings) -> Recipe:
    """Return how a private network is trained: units take the place of jobs in a batch."""
    return Recipe(settings.epochs, settings.patience, settings.batch, settings.rate * PRIVATE_PACE, decay=0.0)


def _some_jobs(
    streams: Streams, chosen: IntArray, chance: np.random.Generator
) -> tuple[IntArray, NDArray[np.float32]]:
    """Return jobs of the streams, and what each weighs in the mean of its stream: (streams, jobs) each."""
    rows = np.repeat(streams.first[chosen][:, None], LOOKED_AT, axis=1)
    weight = np.zeros(rows.shape, np.float32)
    for place, stream in enumerate(chosen.tolist()):
        jobs = int(streams.first[stream + 1] - streams.first[stream])
        taken = chance.permutation(jobs)[:LOOKED_AT]
        rows[place, : len(taken)] += taken
        weight[place, : len(taken)] = 1 / len(taken)
    return rows, weight


def _each_own(network: SequenceNetwork, batch: Batch, weight: NDArray[np.float32]) -> list[Tensor]:
    """Return the gradient of each stream's mean loss, by parameter: (streams, …) each."""
    streams, jobs = weight.shape
    parts = tuple(each.reshape(streams, jobs, *each.shape[1:]) for each in batch)
    weights, fixed = dict(network.named_parameters()), dict(network.named_buffers())

    def loss(known: dict[str, Tensor], one: tuple[Tensor, ...], shares: Tensor) -> Tensor:
        logs = functional_call(network, (known, fixed), (Batch(*one),))
        return -(logs.sum(1) * shares).sum()

    own = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(weights, parts, torch.from_numpy(weight))
    return [own[name].detach() for name in weights]
