"""Sums over vectors of float32."""

from __future__ import annotations

import numpy as np

from presage.synthesizers.sequence.compiled._compiling import fast, inner

ONE = np.float32(1)


@fast
def linear(values: np.ndarray, matrix: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
    """Write values @ matrix + bias."""
    for o in range(len(out)):
        out[o] = bias[o]
    fours = len(values) // 4 * 4
    for i in range(0, fours, 4):  # four rows at a time: what is summed up is fetched and put back less often
        a, b, c, d = values[i], values[i + 1], values[i + 2], values[i + 3]
        for o in range(len(out)):
            out[o] += a * matrix[i, o] + b * matrix[i + 1, o] + c * matrix[i + 2, o] + d * matrix[i + 3, o]
    for i in range(fours, len(values)):
        for o in range(len(out)):
            out[o] += values[i] * matrix[i, o]


@fast
def add(out: np.ndarray, factor: np.float32, values: np.ndarray) -> None:
    """Add factor * values."""
    for o in range(len(out)):
        out[o] += factor * values[o]


@fast
def dot(one: np.ndarray, other: np.ndarray) -> np.float32:
    """Return the inner product."""
    total = np.float32(0)
    for d in range(len(one)):
        total += one[d] * other[d]
    return total


@inner
def silu(values: np.ndarray) -> None:
    """Turn x into x / (1 + exp(-x))."""
    for d in range(len(values)):
        values[d] *= sigmoid(values[d])


@inner
def sigmoid(value: np.float32) -> np.float32:
    """Return 1 / (1 + exp(-x))."""
    return ONE / (ONE + np.exp(-value))


@inner
def pick(shares: np.ndarray, place: float) -> int:
    """Return in which share `place`, in [0, 1], falls if they are laid side by side."""
    total = np.float32(0)
    for share in shares:
        total += share
    until = place * total
    summed = np.float32(0)
    for k in range(len(shares) - 1):
        summed += shares[k]
        if summed >= until:
            return k
    return len(shares) - 1
