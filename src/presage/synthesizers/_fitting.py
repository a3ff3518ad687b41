"""The loop in which networks of synthesizers are trained: early stopping by later jobs, going on, privacy."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from presage.foundation.training.checkpoints import load_checkpoint, save_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from presage.synthesizers._base import Training
    from presage.synthesizers.columns import IntArray


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    epochs: int = 60
    """At most: rounds through all examples."""
    patience: int = 6
    """Rounds without a better score on the later jobs before the training ends."""
    batch: int = 256
    rate: float = 2e-3
    """The highest learning rate; it falls along a cosine over all epochs."""
    decay: float = 1e-2
    clip: float = 1.0


def fit(
    network: nn.Module,
    examples: int,
    loss_of: Callable[[nn.Module, IntArray], Tensor],
    score: Callable[[nn.Module], float],
    recipe: Recipe,
    training: Training,
    about: dict[str, Any] | None = None,
    *,
    stop_at: int | None = None,
    keep_checkpoint: bool = False,
) -> dict[str, Any]:
    """Train `network` in place, leave it with the weights that scored best, and return how it went.

    `loss_of` takes the network and the places of the examples of a batch and gives their mean loss; `score`, the
    lower the better, is asked after every epoch, in evaluation mode. A training with `training.checkpoint` that
    was interrupted goes on after its last whole epoch, to the very weights that it would have reached. With
    `training.privacy` the loss must be a mean over examples that do not touch each other: each is one unit.

    `stop_at`: no score is asked; the training ends after so many epochs of the recipe. `keep_checkpoint`: the
    checkpoint stays when the training is over, so that it need not be done again if what follows is interrupted.
    """
    torch.set_num_threads(1)
    torch.manual_seed(training.seed)
    if training.privacy is not None:
        from presage.synthesizers._private import fit_privately

        return fit_privately(network, examples, loss_of, recipe, training)
    state = State(network, recipe.epochs)
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    identity = {"recipe": vars(recipe), "seed": training.seed, "log": training.log, **(about or {})}
    done = 0
    if training.checkpoint is not None and training.checkpoint.exists():
        done = load_checkpoint(training.checkpoint, state, optimizer, identity)
    last = recipe.epochs if stop_at is None else min(stop_at, recipe.epochs)
    while done < last and not (stop_at is None and state.is_over(done, recipe.patience)):
        _run_epoch(network, examples, loss_of, optimizer, recipe, training.seed, done)
        network.eval()
        with torch.no_grad():
            state.note(done, score(network) if stop_at is None else -done)
        done += 1
        training.tell(done, last, f"score {float(state.scores[done - 1]):.4f}" if stop_at is None else "")
        if training.checkpoint is not None:
            save_checkpoint(training.checkpoint, state, optimizer, done, identity)
    state.go_to_best()
    if training.checkpoint is not None and not keep_checkpoint:
        training.checkpoint.unlink(missing_ok=True)
    scores = [round(float(each), 5) for each in state.scores[:done]]
    return {"epochs": done, "best_epoch": int(np.argmin(scores)) + 1, "scores": scores}


def rate_at(epoch: int, recipe: Recipe) -> float:
    """Return the learning rate of an epoch."""
    return recipe.rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * epoch / recipe.epochs)))


def _run_epoch(
    network: nn.Module,
    examples: int,
    loss_of: Callable[[nn.Module, IntArray], Tensor],
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    seed: int,
    epoch: int,
) -> None:
    # Drawn anew for each epoch, so that going on after an interruption needs no memory of what was drawn.
    order = np.random.default_rng((seed, epoch)).permutation(examples)
    torch.manual_seed((seed << 20) + epoch)
    for group in optimizer.param_groups:
        group["lr"] = rate_at(epoch, recipe)
    network.train()
    for first in range(0, examples, recipe.batch):
        loss = loss_of(network, order[first : first + recipe.batch])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
        optimizer.step()


class State(nn.Module):
    """A network with its best weights and its scores so far: what a checkpoint keeps."""

    scores: Tensor

    def __init__(self, network: nn.Module, epochs: int) -> None:
        super().__init__()
        self.network = network
        self.best = copy.deepcopy(network).requires_grad_(requires_grad=False)
        self.register_buffer("scores", torch.full((epochs,), math.inf, dtype=torch.float64))

    def note(self, epoch: int, score: float) -> None:
        """Remember the score of an epoch, and the weights if no earlier one was better."""
        self.scores[epoch] = score if math.isfinite(score) else math.inf
        if bool(self.scores[epoch] <= self.scores.min()):
            self.best.load_state_dict(self.network.state_dict())

    def is_over(self, done: int, patience: int) -> bool:
        """Return whether the best epoch lies too far back."""
        return done > 0 and done - 1 - int(self.scores[:done].argmin()) >= patience

    def go_to_best(self) -> None:
        """Give the network its best weights."""
        self.network.load_state_dict(self.best.state_dict())
        self.network.eval()
