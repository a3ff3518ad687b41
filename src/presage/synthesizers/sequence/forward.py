"""The network without torch: draws words for many streams at once.

Letters in shapes: A streams, K jobs that one may look back to, F fields, D width of a job's vector, H width of the
hidden layer, V words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from presage.synthesizers.sequence.features import REACH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers.columns import FloatArray, IntArray
    from presage.synthesizers.sequence.memory import Memory

    Float32 = NDArray[np.float32]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Weights:
    """The arrays of a trained network, by the names that they have in it."""

    arrays: dict[str, Float32]

    @property
    def width(self) -> int:
        """How long the vector of a job is."""
        return self.arrays["words.0.weight"].shape[1]

    def linear(self, name: str, x: Float32) -> Float32:
        """Return what the linear layer `name` makes of `x`."""
        return x @ self.arrays[f"{name}.weight"].T + self.arrays[f"{name}.bias"]

    def remember(self, words: IntArray) -> tuple[Float32, Float32]:
        """Return key and value of jobs of these words (A, F), the age not yet in the key: (A, D) each."""
        summed: Float32 = np.sum([self.vectors(place, words[:, place]) for place in range(words.shape[1])], axis=0)
        job = silu(self.linear("job", summed))
        return self.linear("key", job), self.linear("value", job)

    def vectors(self, place: int, words: IntArray) -> Float32:
        """Return the vectors of words of the field at `place`: (A, D)."""
        return self.arrays[f"words.{place}.weight"][words]

    def who(self, user: IntArray) -> Float32:
        """Return the vectors of users; a negative number is somebody unknown."""
        return self.arrays["user.weight"][user]


def draw_words(
    weights: Weights,
    place: int,
    told: Float32,
    memory: Memory,
    drawn: IntArray,
    user: IntArray,
    possible: Flags | None,
    chances: FloatArray,
    *,
    near: bool,
    fresh: Flags | None = None,
    favour: Float32 | None = None,
) -> IntArray:
    """Return a word of the field at `place` for each stream, given the words `drawn` (A, place) so far.

    `possible` (A, V) says which words can be; None: all. `chances` (3, A) are random numbers in [0, 1). `near`:
    the word is a number, and may be near that of an earlier job instead of the same, which takes one more row of
    `chances`. `fresh` streams do not look back. `favour` (A, V) makes words likelier.
    """
    weight, hidden = _look_back(weights, place, told, memory, drawn)
    own, choice = (weights.linear(f"fields.{place}.{name}", hidden) for name in ("own", "choice"))
    usual = weights.arrays[f"usual.{place}"][user]
    own += weights.arrays[f"fields.{place}.trust"] * usual
    if favour is not None:
        own += favour
    if possible is not None:
        own = np.where(possible, own, np.float32(-1e4))
    streams = np.arange(len(told))
    words = pick(np.exp(own - own.max(axis=1, keepdims=True)), chances[0])
    copies = memory.present[:, 0] & (chances[1] < sigmoid(choice[:, 0]))
    if fresh is not None:
        copies &= ~fresh
    if not copies.any():
        return words
    copied = memory.words[streams, pick(weight, chances[2]), place]
    if near:
        copied += pick(_nearness(weights, place, hidden, copied, usual), chances[3]) - REACH
        copied = np.clip(copied, 0, own.shape[1] - 1)
    if possible is not None:
        copies &= possible[streams, copied]
    return np.where(copies, copied, words)


def _look_back(
    weights: Weights, place: int, told: Float32, memory: Memory, drawn: IntArray
) -> tuple[Float32, Float32]:
    """Return the weights of earlier jobs (A, K), and what a word is drawn from (A, H)."""
    field = f"fields.{place}"
    query = weights.linear(f"{field}.query", told)  # (A, D)
    keys = memory.keys + weights.arrays["age.weight"]
    likeness = np.matmul(keys, query[:, :, None])[:, :, 0] / np.float32(np.sqrt(keys.shape[2]))  # (A, K)
    if place:
        equal = memory.words[:, :, :place] == drawn[:, None, :]
        likeness = likeness + equal.astype(np.float32) @ weights.arrays[f"{field}.same"][:place]
    likeness = np.where(memory.present, likeness, np.float32(-1e4))
    weight = softmax(likeness) * memory.present
    read = np.matmul(weight[:, None, :], memory.values)[:, 0, :]
    return weight, silu(weights.linear(f"{field}.body", np.concatenate([told, read], axis=1)))


def _nearness(weights: Weights, place: int, hidden: Float32, words: IntArray, usual: Float32) -> Float32:
    """Return how likely words are that lie from `REACH` before to `REACH` after `words`: (A, 2 REACH + 1).

    Those are shares that need not add up to 1. `hidden` (A, H) is what the word is drawn from.
    """
    near = words[:, None] + np.arange(-REACH, REACH + 1)
    there = (near >= 0) & (near < usual.shape[1])
    liked = np.take_along_axis(usual, np.clip(near, 0, usual.shape[1] - 1), axis=1)
    field = f"fields.{place}"
    logits = weights.arrays[f"{field}.kernel"] + weights.arrays[f"{field}.pull"] * liked
    if f"{field}.nearness.weight" in weights.arrays:
        logits += hidden @ weights.arrays[f"{field}.nearness.weight"].T
    logits = np.where(there, logits, np.float32(-1e4))
    shares: Float32 = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares


def pick(shares: Float32, places: FloatArray) -> IntArray:
    """Return for each row the column in which `places`, in [0, 1], falls if the shares are laid side by side."""
    sums = np.cumsum(shares, axis=1)
    found: IntArray = (sums[:, :-1] < (places * sums[:, -1])[:, None]).sum(axis=1)
    return found


def softmax(x: Float32) -> Float32:
    """Return shares of each row that add up to 1."""
    powers: Float32 = np.exp(x - x.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def silu(x: Float32) -> Float32:
    """Return x / (1 + exp(-x))."""
    return x * sigmoid(x)


def sigmoid(x: Float32) -> Float32:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))
