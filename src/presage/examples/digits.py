"""A small network that learns to read digits, in plain numpy. `presage demo` runs it; change it as you like.

The pictures are drawn here: the ten digits, shifted and covered with noise. The lines that make it a job
which survives its limits are those with `presage` and `run` in them; all else is any training.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

import presage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "11110 00001 00001 01110 00001 00001 11110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
WIDTH, HEIGHT = 9, 11
BATCH = 64
RATE, MOMENTUM = 0.01, 0.9


def draw_digits(count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return noisy pictures, one in a row, and the digits they show."""
    random = np.random.default_rng(seed)
    shapes = np.array([[[int(dot) for dot in row] for row in glyph.split()] for glyph in GLYPHS], float)
    digits = random.integers(0, 10, count)
    pictures = np.zeros((count, HEIGHT, WIDTH))
    for picture, digit in zip(pictures, digits, strict=True):
        top, left = random.integers(0, (HEIGHT - 6, WIDTH - 4))
        picture[top : top + 7, left : left + 5] = shapes[digit]
    flipped = random.random(pictures.shape) < 0.03
    pictures = np.abs(pictures - flipped) + random.normal(0, 0.25, pictures.shape)
    return pictures.reshape(count, -1), digits


class Network:
    """Two hidden layers, and the momentum with which they learn."""

    def __init__(self, hidden: int) -> None:
        random = np.random.default_rng(7)
        sizes = (WIDTH * HEIGHT, hidden, hidden, 10)
        self.weights = [
            random.normal(0, np.sqrt(2 / before), (before + 1, after)) for before, after in pairwise(sizes)
        ]
        self.speeds = [np.zeros_like(each) for each in self.weights]

    def state_dict(self) -> dict[str, Any]:
        """Return what must be saved to go on."""
        return {"weights": self.weights, "speeds": self.speeds}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what was saved."""
        self.weights, self.speeds = state["weights"], state["speeds"]

    def scores(self, pictures: NDArray[Any]) -> list[NDArray[Any]]:
        """Return what each layer gets, and at last the chance of each digit."""
        layers = [_with_one(pictures)]
        for weights in self.weights[:-1]:
            layers.append(_with_one(np.maximum(layers[-1] @ weights, 0)))
        logits = layers[-1] @ self.weights[-1]
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        return [*layers, chances / chances.sum(axis=1, keepdims=True)]

    def judge(self, pictures: NDArray[Any], digits: NDArray[Any]) -> tuple[float, float]:
        """Return the loss, and the share of digits that are read right."""
        chances = self.scores(pictures)[-1]
        loss = -np.log(chances[np.arange(len(digits)), digits] + 1e-12).mean()
        return float(loss), float(np.mean(chances.argmax(axis=1) == digits))

    def learn(self, pictures: NDArray[Any], digits: NDArray[Any]) -> None:
        """Take one step down."""
        *layers, error = self.scores(pictures)
        error[np.arange(len(digits)), digits] -= 1
        for index in reversed(range(len(self.weights))):
            slope = layers[index].T @ error / len(digits)
            error = (error @ self.weights[index].T * (layers[index] > 0))[:, :-1]
            self.speeds[index] = MOMENTUM * self.speeds[index] - RATE * slope
            self.weights[index] = self.weights[index] + self.speeds[index]


class Batches:
    """The pictures in an order that depends on the epoch alone, so that a job that resumes sees the same."""

    def __init__(self, count: int, epoch: int) -> None:
        self.order = np.random.default_rng(epoch).permutation(count)

    def __len__(self) -> int:
        return max(1, len(self.order) // BATCH)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Give the places of the pictures in each batch."""
        return iter(np.array_split(self.order, len(self)))


def train(epochs: int, samples: int, hidden: int) -> None:
    """Learn for so many epochs, or what is left of them."""
    pictures, digits = draw_digits(samples, seed=1)
    unseen, answers = draw_digits(1000, seed=2)
    network = Network(hidden)
    run = presage.track(epochs, every_s=10, network=network)
    if run.resumed_from is not None:
        print(f"goes on after {run.done:.1f} of {epochs} epochs, from {run.resumed_from.name}", flush=True)
    for epoch in run:
        for batch in run.batches(Batches(samples, epoch)):
            network.learn(pictures[batch], digits[batch])
        loss, accuracy = network.judge(unseen, answers)
        run.report(loss=loss, accuracy=accuracy)
        print(f"epoch {epoch + 1} of {epochs}: loss {loss:.3f}, reads {accuracy:.1%} of new digits", flush=True)


def _with_one(values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([values, np.ones((len(values), 1))], axis=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Learn to read digits.")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--hidden", type=int, default=192)
    options = parser.parse_args()
    with threadpool_limits(1):  # it asks for one core
        train(options.epochs, options.samples, options.hidden)
