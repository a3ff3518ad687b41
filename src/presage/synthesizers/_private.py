"""Training under differential privacy: noise on clipped gradients (DP-SGD, Abadi et al., 2016), counted by opacus.

What is promised: whoever knows the model and all examples but one can hardly tell whether that one was there. An
example is a job for kinds that draw rows; a user with many jobs is not hidden by it. What is not covered is said
in `PUBLIC`, and in the record of every model that was trained so. A kind whose examples are more than a job, and
that releases more than a network, counts everything in one account: see `sequence.private`.

The later jobs, by which other trainings stop early, are somebody's jobs too. So nothing is scored here: the number
of epochs is fixed before, no weights are chosen by their score, and the record has no scores. Noise and the choice
of examples come from the system's randomness and not from the seed of the training: a seed that stands in the
model's record would tell the noise, and noise that is known can be taken off again. Two private trainings differ.
"""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from presage.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from presage.synthesizers._base import Privacy, Training
    from presage.synthesizers._fitting import Recipe
    from presage.synthesizers.columns import IntArray

    LossOf = Callable[[nn.Module, IntArray], Tensor]
    Gradients = Callable[[IntArray], list[Tensor]]
    Look = tuple[float, float, int]
    """Noise, share of the examples that is looked at, and how often: what opacus counts a promise by."""

UNIT = "one job (its columns and the seconds since the job before it); not all jobs of a user"
PUBLIC = (
    "taken as public, not protected: which queues, sizes, limits and other labels occur, and of more than 1,000"
    " which are the most frequent, how many users there are, the number of jobs, the first and last submit time,"
    " and whether jobs end at their limits"
)
_LEAST_NOISE, _MOST_NOISE = 0.02, 1e4
_HALVINGS = 12
_ORDERS = (1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128)
"""Rényi orders that the promise is counted by: any of them is a bound; more would make it hardly tighter."""
_AT_ONCE = 64
"""Examples whose gradients are held at the same time: each has the size of the network."""


def fit_privately(
    network: nn.Module,
    examples: int,
    loss_of: LossOf,
    recipe: Recipe,
    training: Training,
) -> dict[str, Any]:
    """Train `network` in place so that `training.privacy` holds, and return how it went, with what was spent.

    `loss_of` is as for `fit`, and must be the mean over examples that do not touch each other. A training that is
    interrupted begins anew. Raises MissingDependencyError without opacus, UsageError if no noise is enough.
    """
    privacy = training.privacy
    if privacy is None:
        raise ValueError("a private training has a promise to keep")
    descent = Descent.of(examples, recipe, privacy)
    with gradients_of(network, loss_of) as gradients:
        descend(network, gradients, examples, descent, recipe, training)
    return {
        "epochs": recipe.epochs,
        "best_epoch": recipe.epochs,
        "scores": [],
        "privacy": {
            "epsilon": descent.spent(privacy.delta),
            "delta": privacy.delta,
            "noise": descent.noise,
            "unit": privacy.unit or UNIT,
            "public": PUBLIC,
        },
    }


@dataclass(frozen=True)
class Descent:
    """How a network is led down: what of it anybody may know."""

    examples: float
    """About how many there are."""
    share: float
    """How likely each is looked at in a step."""
    steps: int
    """Of an epoch."""
    epochs: int
    noise: float
    before: tuple[Look, ...] = ()
    """What else was released from the same examples."""

    @classmethod
    def of(cls, examples: float, recipe: Recipe, privacy: Privacy, before: tuple[Look, ...] = ()) -> Descent:
        """Return a descent with the least noise that keeps the promise. Raises UsageError if there is none."""
        share = min(1.0, recipe.batch / examples)
        steps = math.ceil(1 / share)
        noise = noise_for(privacy, share, steps * recipe.epochs, before)
        return cls(examples, share, steps, recipe.epochs, noise, before)

    def spent(self, delta: float, epochs: int | None = None) -> float:
        """Return the epsilon after so many epochs, or after all, with what was released before."""
        done = self.steps * (self.epochs if epochs is None else epochs)
        return spent_by(self.noise, self.share, done, delta, self.before)


def descend(
    network: nn.Module,
    gradients: Gradients,
    examples: int,
    descent: Descent,
    recipe: Recipe,
    training: Training,
) -> None:
    """Train `network` in place by noisy steps; `examples` is how many there really are, which is not told."""
    privacy = training.privacy
    if privacy is None:
        raise ValueError("a private training has a promise to keep")
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    # Not torch's generator: it knows 32 bits of its seed, and so few can all be tried.
    secret = np.random.default_rng()
    network.train()
    for epoch in range(recipe.epochs):
        _set_rate(optimizer, epoch, recipe)
        for _ in range(descent.steps):
            chosen = np.flatnonzero(secret.random(examples) < descent.share)
            sums = clipped_sum(network, gradients, chosen, recipe.clip)
            for weight, total in zip(network.parameters(), sums, strict=True):
                added = torch.from_numpy(secret.standard_normal(tuple(total.shape), np.float32))
                weight.grad = (total + descent.noise * recipe.clip * added) / (descent.share * descent.examples)
            optimizer.step()
        told = descent.spent(privacy.delta, epoch + 1)
        training.tell(epoch + 1, recipe.epochs, f"epsilon {told:.2f}")
    network.zero_grad(set_to_none=True)
    network.eval()


def clipped_sum(network: nn.Module, gradients: Gradients, chosen: IntArray, clip: float) -> list[Tensor]:
    """Return the sum of the gradients of the examples, by parameter, none of which is longer than `clip`."""
    sums = [torch.zeros_like(weight) for weight in network.parameters()]
    for first in range(0, len(chosen), _AT_ONCE):
        each_own = gradients(chosen[first : first + _AT_ONCE])  # (B, …) each
        lengths = torch.stack([each.flatten(1).norm(dim=1) for each in each_own]).norm(dim=0)  # (B,)
        factors = (clip / (lengths + 1e-6)).clamp(max=1.0)
        for total, each in zip(sums, each_own, strict=True):
            total.add_(torch.einsum("b,b...->...", factors, each))
    return sums


@contextmanager
def gradients_of(network: nn.Module, loss_of: LossOf) -> Iterator[Gradients]:
    """Give what tells each example's own gradient, by parameter; the network is as it was afterwards.

    Where opacus knows all layers that have weights, it listens to them. Where it does not, or where a weight is
    used past its layer, so that it would not hear of it, the examples are looked at one by one, which is slow.
    """
    from opacus.grad_sample import GradSampleModule

    layers = (each for each in network.modules() if next(each.parameters(recurse=False), None) is not None)
    if all(type(each) in GradSampleModule.GRAD_SAMPLERS for each in layers):
        wrapper = GradSampleModule(network)
        try:
            if _hears_all(wrapper, network, loss_of):
                yield lambda chosen: _heard(wrapper, network, loss_of, chosen)[0]
                return
        finally:
            wrapper.cleanup()
    yield lambda chosen: _one_by_one(network, loss_of, chosen)


def _heard(
    wrapper: nn.Module, network: nn.Module, loss_of: LossOf, chosen: IntArray
) -> tuple[list[Tensor], list[Tensor]]:
    """Return each example's gradient, (B, …), and the mean as torch itself has it, by parameter."""
    wrapper.zero_grad(set_to_none=True)
    with _quiet():
        loss_of(network, chosen).backward()
    weights: list[Any] = list(network.parameters())
    nothing = torch.zeros(())
    # A weight that had no part in the loss has no gradient.
    own = [
        torch.zeros((len(chosen), *each.shape)) if each.grad_sample is None else each.grad_sample
        for each in weights
    ]
    means = [nothing.expand(each.shape) if each.grad is None else each.grad for each in weights]
    return own, means


def _hears_all(wrapper: nn.Module, network: nn.Module, loss_of: LossOf) -> bool:
    """Return whether each example's gradients make those that torch has, for the first examples."""
    own, means = _heard(wrapper, network, loss_of, np.arange(2))
    return all(
        len(each) == 2 and torch.allclose(each.mean(0), mean, rtol=1e-3, atol=1e-5)
        for each, mean in zip(own, means, strict=True)
    )


def _one_by_one(network: nn.Module, loss_of: LossOf, chosen: IntArray) -> list[Tensor]:
    rows = []
    for place in range(len(chosen)):
        network.zero_grad(set_to_none=True)
        loss_of(network, chosen[place : place + 1]).backward()
        rows.append([torch.zeros_like(w) if w.grad is None else w.grad for w in network.parameters()])
    return [torch.stack(each) for each in zip(*rows, strict=True)]


def noise_for(privacy: Privacy, share: float, steps: int, before: tuple[Look, ...] = ()) -> float:
    """Return the least noise, in lengths of a clipped gradient, that keeps the promise after `before`.

    Raises UsageError if there is none.
    """
    low, high = math.log(_LEAST_NOISE), math.log(_MOST_NOISE)
    if spent_by(_MOST_NOISE, share, steps, privacy.delta, before) > privacy.epsilon:
        raise UsageError(
            f"No noise is enough for epsilon {privacy.epsilon:g} with so few jobs",
            expected="an epsilon of 0.1 or more",
            remedy="Allow a larger epsilon or delta, ask for fewer epochs, or give a longer log",
        )
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if spent_by(math.exp(middle), share, steps, privacy.delta, before) <= privacy.epsilon:
            high = middle
        else:
            low = middle
    return math.exp(high)


def spent_by(noise: float, share: float, steps: int, delta: float, before: tuple[Look, ...] = ()) -> float:
    """Return the epsilon of so many steps that each look at a random `share` of the examples, and of `before`."""
    try:
        from opacus.accountants import RDPAccountant
    except ImportError:
        raise MissingDependencyError("opacus", extra="private", purpose="Training under privacy") from None
    accountant = RDPAccountant()
    accountant.history = [*before, (noise, share, steps)]
    with _quiet():
        return float(accountant.get_epsilon(delta=delta, alphas=list(_ORDERS)))


def _set_rate(optimizer: torch.optim.Optimizer, epoch: int, recipe: Recipe) -> None:
    from presage.synthesizers._fitting import rate_at

    for group in optimizer.param_groups:
        group["lr"] = rate_at(epoch, recipe)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep two warnings from people who can do nothing about them."""
    with warnings.catch_warnings():
        # The bound holds all the same; it is only not the tightest, with very much or very little noise.
        warnings.filterwarnings("ignore", message="Optimal order is the", category=UserWarning)
        # The first layer's inputs are data and need no gradient; the weights' gradients are complete.
        warnings.filterwarnings("ignore", message="Full backward hook is firing", category=UserWarning)
        yield
