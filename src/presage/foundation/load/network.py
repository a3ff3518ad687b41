"""A small network that gives three quantiles of six quantities: NumPy alone, forward and backward.

Letters of shapes: B rows, F inputs, K hidden units, Q quantities. The outputs of a quantity are a middle, and how
far below and above it the outer quantiles lie, so that quantiles never cross.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

QUANTILES = (0.1, 0.5, 0.9)
QUANTITIES = ("utilisation", "queue", "work", "wait_small", "wait_medium", "wait_large")
_FARTHEST = 5.0
"""Inputs count no further than so many standard deviations from what was usual in training."""


@dataclass(frozen=True, eq=False)
class Network:
    """Two hidden layers; parameters by name, as they are stored."""

    parameters: dict[str, Floats]

    @classmethod
    def create(cls, inputs: Floats, hidden: int, rng: np.random.Generator) -> Network:
        """Return a network with random weights whose inputs are scaled as `inputs` (B, F) are spread."""
        outputs = len(QUANTITIES) * len(QUANTILES)
        sizes = (inputs.shape[1], hidden, hidden, outputs)
        parameters: dict[str, Floats] = {
            "mean": inputs.mean(0, dtype=np.float64).astype(np.float32),
            "deviation": np.maximum(inputs.std(0, dtype=np.float64), 1e-3).astype(np.float32),
        }
        for layer, (before, after) in enumerate(pairwise(sizes), start=1):
            gain = 0.1 if layer == len(sizes) - 1 else 1.0
            weights = rng.normal(0, gain / np.sqrt(before), (before, after))
            parameters[f"weight{layer}"] = weights.astype(np.float32)
            parameters[f"bias{layer}"] = np.zeros(after, np.float32)
        return cls(parameters)

    def quantiles(self, inputs: NDArray[np.floating]) -> Floats:
        """Return (B, Q, 3) in units of each quantity's scale, relative to its base."""
        return spread_out(self.forward(self.scaled(inputs))[-1])

    def scaled(self, inputs: NDArray[np.floating]) -> Floats:
        """Return the inputs in standard deviations from what was usual in training."""
        known = self.parameters
        scaled: Floats = (inputs.astype(np.float32) - known["mean"]) / known["deviation"]
        return np.clip(scaled, -_FARTHEST, _FARTHEST)

    def forward(self, scaled: Floats) -> list[Floats]:
        """Return the scaled inputs, both hidden layers and the raw outputs."""
        known = self.parameters
        layers = [scaled]
        for layer in (1, 2):
            layers.append(np.maximum(layers[-1] @ known[f"weight{layer}"] + known[f"bias{layer}"], 0))  # (B, K)
        layers.append(layers[-1] @ known["weight3"] + known["bias3"])
        return layers

    def gradients(self, layers: list[Floats], slopes: Floats) -> dict[str, Floats]:
        """Return the gradient of every trained parameter from slopes of the loss at the raw outputs (B, 3Q)."""
        found = {}
        for layer in (3, 2, 1):
            found[f"weight{layer}"] = layers[layer - 1].T @ slopes
            found[f"bias{layer}"] = slopes.sum(0)
            if layer > 1:
                slopes = (slopes @ self.parameters[f"weight{layer}"].T) * (layers[layer - 1] > 0)
        return found


def spread_out(raw: Floats) -> Floats:
    """Return ordered quantiles (B, Q, 3) of raw outputs (B, 3Q)."""
    parts = raw.reshape(len(raw), len(QUANTITIES), 3)
    middle = parts[:, :, 1]
    below, above = _softplus(parts[:, :, 0]), _softplus(parts[:, :, 2])
    return np.stack([middle - below, middle, middle + above], -1)


def pinball(raw: Floats, truth: Floats, weights: Floats) -> tuple[float, Floats]:
    """Return the weighted mean pinball loss and its slopes at the raw outputs; missing truths count nothing.

    `truth` and `weights` are (B, Q), the truth in the units of the outputs.
    """
    quantiles = spread_out(raw)
    there = np.isfinite(truth)
    shares = np.where(there, weights, 0).astype(np.float32)
    shares /= max(float(shares.sum()), 1e-9)
    levels = np.asarray(QUANTILES, np.float32)
    misses = np.where(there, truth, 0)[:, :, None] - quantiles
    loss = float((np.maximum(levels * misses, (levels - 1) * misses) * shares[:, :, None]).sum())
    slope = np.where(misses > 0, -levels, 1 - levels) * shares[:, :, None]  # (B, Q, 3)
    parts = raw.reshape(slope.shape)
    raw_slope = np.stack([
        -slope[:, :, 0] * _sigmoid(parts[:, :, 0]), slope.sum(-1), slope[:, :, 2] * _sigmoid(parts[:, :, 2]),
    ], -1)  # fmt: skip
    return loss, raw_slope.reshape(raw.shape).astype(np.float32)


def _softplus(values: Floats) -> Floats:
    return np.logaddexp(values, np.float32(0)).astype(np.float32)


def _sigmoid(values: Floats) -> Floats:
    return (1 / (1 + np.exp(-np.clip(values, -30, 30)))).astype(np.float32)
