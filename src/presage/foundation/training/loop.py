"""The training loop, for pre-training and fine-tuning alike."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from presage.foundation.training.checkpoints import load_checkpoint, save_checkpoint
from presage.foundation.training.losses import loss_of
from presage.foundation.training.processes import World
from presage.foundation.view import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from presage.foundation.scaling import Scaling
    from presage.foundation.training.corpus import Corpus
    from presage.foundation.training.network import Inputs, Network


CHECKPOINT_STEPS = 100


@dataclass(frozen=True)
class Recipe:
    """How a network is trained."""

    steps: int = 1500
    batch: int = 256
    rate: float = 2e-3
    """The highest learning rate; it rises over `warm_up` steps and then falls along a cosine."""
    warm_up: int = 100
    decay: float = 1e-2
    blind: float = 0.5
    """Share of questions whose numbers are hidden: what is left are the earlier jobs, which transfer best."""
    hidden: float = 0.2
    """Share of single numbers that are hidden."""
    forgotten: float = 0.1
    """Share of earlier jobs that are hidden."""
    stretch: float = 0.0
    """How much faster or slower the clocks of half of the questions may run, as a power of e."""
    clip: float = 1.0


def rate_at(step: int, recipe: Recipe) -> float:
    """Return the learning rate of a step."""
    rise = min(1.0, (step + 1) / max(recipe.warm_up, 1))
    fall = 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
    return recipe.rate * rise * (0.03 + 0.97 * fall)


def hide(inputs: Inputs, recipe: Recipe) -> Inputs:
    """Return a batch in which some of what is known is hidden at random."""
    rows = len(inputs.x)
    sighted = (torch.rand(rows, 1) > recipe.blind).repeat(1, inputs.x.shape[1])
    sighted[:, numbers.ALWAYS_SEEN] = True
    seen = sighted & (torch.rand(inputs.x.shape) > recipe.hidden)
    present = inputs.present & (torch.rand(inputs.present.shape) > recipe.forgotten)
    return inputs._replace(x=inputs.x * seen, present=present)


def train(
    network: Network,
    corpus: Corpus,
    scaling: Scaling,
    recipe: Recipe,
    *,
    seed: int = 0,
    logs: Sequence[str] = (),
    checkpoint: Path | None = None,
    on_step: Callable[[int, float], None] | None = None,
) -> None:
    """Train `network` in place; `on_step` is told the number of each step, from 1, and its loss.

    With `checkpoint`, the state is written there now and then, and a training that was interrupted goes on from it
    to the very weights that it would have reached; `logs` names what it learns from, so that no other training
    goes on from there. Under torchrun every process draws its share of each batch.
    """
    world = World.join()
    about = {
        "recipe": asdict(recipe), "seed": seed, "shape": network.shape.as_dict(), "processes": world.size,
        "logs": list(logs),
    }  # fmt: skip
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=recipe.rate, weight_decay=recipe.decay, betas=(0.9, 0.98)
    )
    done = 0
    if checkpoint is not None and checkpoint.exists():
        done = load_checkpoint(checkpoint, network, optimizer, about)
    model = world.shared(network)
    model.train()
    for step in range(done, recipe.steps):
        # Drawn anew for each step, so that going on after an interruption needs no memory of what was drawn.
        rng = np.random.default_rng((seed, step, world.rank))
        torch.manual_seed(int(rng.integers(1 << 62)))
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, recipe)
        inputs, truth = corpus.draw(recipe.batch // world.size, scaling, rng, recipe.stretch)
        mixture, ends = model(hide(inputs, recipe))
        loss = loss_of(mixture, ends, truth, torch.rand(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
        optimizer.step()
        if checkpoint is not None and world.rank == 0 and (step + 1) % CHECKPOINT_STEPS == 0:
            save_checkpoint(checkpoint, network, optimizer, step + 1, about)
        if on_step is not None:
            on_step(step + 1, float(loss.detach()))
    network.eval()
