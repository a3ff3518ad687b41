"""Training the network: first to see for how long, by jobs that it does not learn from; then on all jobs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from presage.synthesizers._fitting import Recipe, fit
from presage.synthesizers.sequence.network import SequenceNetwork, Shape

if TYPE_CHECKING:
    from presage.synthesizers._base import Training
    from presage.synthesizers.columns import Columns, IntArray
    from presage.synthesizers.sequence.examples import Examples
    from presage.synthesizers.sequence.fields import Fields
    from presage.synthesizers.sequence.settings import Settings

SCORED_AT_ONCE = 2048


def train_network(
    examples: Examples, later: IntArray, fields: Fields, columns: Columns, settings: Settings, training: Training
) -> tuple[SequenceNetwork, dict[str, Any]]:
    """Return a network trained on all examples, and how it went.

    How many epochs that takes is found by a network that does not see the examples `later`, and is scored by them.
    """
    own = settings
    recipe = Recipe(own.epochs, own.patience, own.batch, own.rate, own.decay)
    users = int(examples.user.max()) + 1
    shape = Shape(fields.sizes, users, own.width, own.hidden, dropout=own.dropout)
    everything = np.arange(len(examples.words))

    def fresh(rows: IntArray) -> SequenceNetwork:
        torch.manual_seed(training.seed)
        return SequenceNetwork(shape, fields.values(columns), examples.counts(rows, users))

    def loss_of(net: Any, rows: IntArray) -> Any:
        return -net(examples.batch(rows)).sum(1).mean()

    def score(net: Any) -> float:
        parts = [later[at : at + SCORED_AT_ONCE] for at in range(0, len(later), SCORED_AT_ONCE)]
        return float(-sum(net(examples.batch(part)).sum() for part in parts) / len(later))

    checkpoint = training.checkpoint
    second = checkpoint and checkpoint.with_name(f"again-{checkpoint.name}")
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
    fit(network, len(everything), loss_of, score, recipe, again, asdict(own), stop_at=record["best_epoch"])
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return network, record
