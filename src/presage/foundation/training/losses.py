"""How wrong a forecast was: the continuous ranked probability score in log time, also for outcomes cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from presage.foundation.training.network import Mixture

GRID_POINTS = 40
LONGEST = 16.0
"""The grid ends at exp(16) seconds, about a hundred days."""
LIKELIHOOD_WEIGHT = 0.05
LEAST_LEFT = 1e-3


class Truth(NamedTuple):
    """What happened, in log seconds."""

    outcome: Tensor  # (B,); the last that was seen of it if censored
    is_censored: Tensor  # (B,), bool
    age: Tensor  # (B,): how much of it had passed when the question was asked
    end: Tensor  # (B,), -1: unknown


def distribution(mixture: Mixture, grid: Tensor) -> Tensor:
    """Return the probability that the outcome is at most each value of the grid (G,): (B, G)."""
    z = (grid[None, None] - mixture.centre[..., None]) / mixture.scale[..., None]
    return (mixture.weight[..., None] * torch.sigmoid(z)).sum(1)


def distribution_at(mixture: Mixture, values: Tensor) -> Tensor:
    """Return the probability that the outcome is at most its own value, (B,)."""
    return (mixture.weight * torch.sigmoid((values[:, None] - mixture.centre) / mixture.scale)).sum(1)


def ranked_probability_score(mixture: Mixture, truth: Truth, shift: Tensor) -> Tensor:
    """Return the score per question on a grid shifted by a random part of its step, which makes it unbiased.

    What had passed already is known: the forecast counts from there. Beyond what was seen of a censored outcome
    nothing is scored.
    """
    step = LONGEST / GRID_POINTS
    grid = (torch.arange(GRID_POINTS) + shift) * step
    below = distribution(mixture, grid)
    passed = distribution_at(mixture, truth.age)[:, None] * (truth.age > 0)[:, None]
    below = ((below - passed) / (1 - passed).clamp_min(LEAST_LEFT)).clamp(0, 1)
    below = below * (grid[None] > truth.age[:, None])
    reached = truth.outcome[:, None] <= grid[None]
    beyond = torch.where(truth.is_censored[:, None], torch.zeros_like(below), 1 - below)
    error = torch.where(reached, beyond, below)
    return (error**2).sum(1) * step


def log_likelihood(mixture: Mixture, truth: Truth) -> Tensor:
    """Return the log density of the outcomes, of censored ones the log of the chance to last longer."""
    z = (truth.outcome[:, None] - mixture.centre) / mixture.scale
    log_weight = torch.log(mixture.weight + 1e-9)
    density = log_weight - z - torch.log(mixture.scale) - 2 * functional.softplus(-z)
    longer = log_weight - functional.softplus(z)
    chosen = torch.where(truth.is_censored[:, None], longer, density)
    left = torch.log((1 - distribution_at(mixture, truth.age)).clamp_min(LEAST_LEFT)) * (truth.age > 0)
    return torch.logsumexp(chosen, 1) - left


def loss_of(
    mixture: Mixture, ends: Tensor | None, truth: Truth, shift: Tensor, ends_weight: float = 0.6
) -> Tensor:
    """Return the loss of a batch."""
    loss = ranked_probability_score(mixture, truth, shift).mean()
    loss = loss - LIKELIHOOD_WEIGHT * log_likelihood(mixture, truth).mean()
    if ends is not None:
        known = truth.end >= 0
        chosen = ends.gather(1, truth.end.clamp_min(0).long()[:, None])[:, 0]
        loss = loss - ends_weight * (torch.log(chosen + 1e-6) * known).sum() / known.sum().clamp_min(1)
    return loss
