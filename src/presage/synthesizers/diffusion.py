"""Rows out of noise: diffusion of mixed columns, after FinDiff (Sattarov, Schreyer and Borth, 2023).

A row becomes one vector: for each category a learned direction, for each number the normal score of its place
among all. Noise is added until nothing else is left, and a network learns to take it off again. As in continuous
diffusion of words (Dieleman et al., 2022) the network says for a category how likely each label is; the row moves
towards the mean of their directions, and at the end its label is drawn from what is then likely. For a number it
says the velocity between value and noise. Drawing takes `steps` long strides without new noise (DDIM, Song et al.,
2021).

Shapes: B rows, N numbers, E length of a direction, X of a whole row, D width, V labels of a category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from presage.synthesizers._base import Synthesizer
from presage.synthesizers._fitting import Recipe, fit
from presage.synthesizers._weights import give_weights, weights_of
from presage.synthesizers.columns import JobTable
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers._base import Drawing, Training
    from presage.synthesizers.columns import Columns, IntArray

_DRAWN_AT_ONCE = 4096
_WAVES = 16
_EARLIEST, _LATEST = 0.004, 0.996
"""Times between which rows are learned: at 0 nothing is noise, at 1 everything is."""
_SCORED_TIMES = 4


@dataclass(frozen=True)
class Settings:
    """How big the network is, how it learns, and in how many steps it draws."""

    width: int = parameter(256, "width of the network", minimum=8, maximum=4096)
    layers: int = parameter(3, "blocks of the network", minimum=1, maximum=24)
    direction: int = parameter(16, "length of a label's direction", minimum=2, maximum=256)
    dropout: float = parameter(0.0, "share of units left out while learning", minimum=0, maximum=0.9)
    steps: int = parameter(16, "strides from noise to rows when drawing", minimum=2, maximum=1000)
    epochs: int = parameter(40, "rounds through all jobs at most", minimum=1, maximum=10_000)
    patience: int = parameter(15, "rounds without a better score before it ends", minimum=1, maximum=10_000)
    batch: int = parameter(256, "jobs per step", minimum=1, maximum=65_536)
    rate: float = parameter(2e-3, "highest learning rate", above=0, maximum=1)


class Denoiser(nn.Module):
    """What a row was before noise came over it."""

    def __init__(self, columns: Columns, settings: Settings) -> None:
        super().__init__()
        labels = [len(each) for each in columns.categories]
        width = settings.width
        self.numbers = len(columns.numbers)
        self.directions = nn.ModuleList(nn.Embedding(count, settings.direction) for count in labels)
        self.entry = nn.Linear(self.numbers + settings.direction * len(labels), width)
        self.clock = nn.Linear(2 * _WAVES, width)
        self.blocks = nn.ModuleList(_Block(width, settings.dropout) for _ in range(settings.layers))
        self.last = nn.LayerNorm(width)
        self.velocities = nn.Linear(width, self.numbers)
        self.outputs = nn.ModuleList(nn.Linear(width, count) for count in labels)

    def place(self, codes: Tensor, scores: Tensor) -> Tensor:
        """Return the rows without noise, (B, X), of labels (B, categories) and normal scores (B, N)."""
        parts = [_of_length(table(codes[:, place])) for place, table in enumerate(self.directions)]
        return torch.cat([scores, *parts], 1)

    def forward(self, noisy: Tensor, times: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the velocities of the numbers, (B, N), and the logits of the labels, (B, V) each."""
        states = self.entry(noisy) + self.clock(_waves(times))  # (B, D)
        for block in self.blocks:
            states = block(states)
        states = self.last(states)
        return self.velocities(states), [output(states) for output in self.outputs]

    def clean(self, noisy: Tensor, times: Tensor) -> Tensor:
        """Return the mean of what the rows may have been, (B, X)."""
        velocities, logits = self(noisy, times)
        kept, added = shares_at(times)
        numbers = kept * noisy[:, : self.numbers] - added * velocities
        means = [
            torch.softmax(each, 1) @ _of_length(table.weight)
            for each, table in zip(logits, self.directions, strict=True)
        ]
        return torch.cat([numbers, *means], 1)


class _Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor) -> Tensor:
        return states + self.narrow(self.dropout(nnf.silu(self.wide(self.norm(states)))))


class Diffusion(Synthesizer):
    """Rows out of noise, after FinDiff (2023); rows do not know of each other."""

    name: ClassVar[str] = "diffusion"
    settings_type: ClassVar[type] = Settings
    network: Denoiser

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        own: Settings = self.settings
        torch.manual_seed(training.seed)
        self.network = Denoiser(self.columns, own)
        codes, scores = self._tensors(table, training.seed)
        later_codes, later_scores = self._tensors(later, training.seed)

        def loss_of(network: nn.Module, places: IntArray) -> Tensor:
            some = torch.from_numpy(places)
            return row_loss(network, codes[some], scores[some]).mean()

        def score(network: nn.Module) -> float:
            # The same times and noise after every epoch, so that scores differ by what was learned alone.
            noise = torch.Generator().manual_seed(training.seed)
            losses = [row_loss(network, later_codes, later_scores, noise).mean() for _ in range(_SCORED_TIMES)]
            return float(torch.stack(losses).mean())

        recipe = Recipe(own.epochs, own.patience, own.batch, own.rate)
        record = fit(self.network, len(codes), loss_of, score, recipe, training, {"kind": self.name})
        return {**record, "parameters": sum(each.numel() for each in self.network.parameters())}

    def _tensors(self, table: JobTable, seed: int) -> tuple[Tensor, Tensor]:
        """Return the labels, (B, categories), and the normal scores of the numbers, (B, N)."""
        rng = np.random.default_rng(seed)
        codes = np.zeros((len(table), len(self.columns.categories)), np.int64)
        for place, each in enumerate(self.columns.categories):
            codes[:, place] = table.codes[each.name]
        places = [each.to_uniform(table.numbers[each.name], rng) for each in self.columns.numbers]
        return torch.from_numpy(codes), torch.special.ndtri(torch.from_numpy(np.stack(places, 1))).float()

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        tables = []
        for first in range(0, count, _DRAWN_AT_ONCE):
            some = min(_DRAWN_AT_ONCE, count - first)
            with torch.no_grad():
                tables.append(self._table(*draw_rows(self.network, some, self.settings.steps, rng)))
            drawing.tell(some)
        return JobTable.joined(tables)

    def _table(self, numbers: Tensor, codes: IntArray) -> JobTable:
        """Return the jobs of these normal scores, (B, N), and labels, (B, categories)."""
        places = torch.special.ndtr(numbers.double()).numpy()
        return JobTable(
            {each.name: codes[:, place] for place, each in enumerate(self.columns.categories)},
            {each.name: each.from_uniform(places[:, place]) for place, each in enumerate(self.columns.numbers)},
        )

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return weights_of(self.network)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.network = Denoiser(self.columns, self.settings)
        give_weights(self.network, arrays)


def row_loss(network: nn.Module, codes: Tensor, scores: Tensor, noise: torch.Generator | None = None) -> Tensor:
    """Return how far the network is from the truth for each row, (B,), at a time and with noise drawn for each.

    A column counts as much as any other: the surprise at a label is told as a share of that at blind guessing.
    """
    clean = network.place(codes, scores)  # (B, X)
    times = _EARLIEST + (_LATEST - _EARLIEST) * torch.rand((len(codes), 1), generator=noise)
    added_noise = torch.randn(clean.shape, generator=noise)
    kept, added = shares_at(times)
    velocities, logits = network(kept * clean + added * added_noise, times)
    numbers = velocities.shape[1]
    truth = kept * added_noise[:, :numbers] - added * scores
    loss = ((velocities - truth) ** 2).sum(1)
    for place, each in enumerate(logits):
        loss = loss + nnf.cross_entropy(each, codes[:, place], reduction="none") / math.log(each.shape[1])
    return loss


def shares_at(times: Tensor) -> tuple[Tensor, Tensor]:
    """Return by how much the row and the noise are multiplied at these times; their squares make 1."""
    return torch.cos(times * (math.pi / 2)), torch.sin(times * (math.pi / 2))


def draw_rows(network: Denoiser, count: int, steps: int, rng: np.random.Generator) -> tuple[Tensor, IntArray]:
    """Return the normal scores, (B, N), and the labels, (B, categories), of rows that are led out of noise."""
    rows = torch.from_numpy(rng.standard_normal((count, network.entry.in_features), np.float32))
    path = torch.linspace(_LATEST, _EARLIEST, steps + 1)
    for now, then in pairwise(path):
        times = now.expand(count, 1)
        clean = network.clean(rows, times)
        kept, added = shares_at(now)
        noise = (rows - kept * clean) / added
        kept, added = shares_at(then)
        rows = kept * clean + added * noise
    times = path[-1].expand(count, 1)
    _, logits = network(rows, times)
    # The largest of logits with Gumbel noise is a draw from their softmax.
    noisy = [each.numpy() - np.log(rng.standard_exponential(each.shape)) for each in logits]
    codes = [each.argmax(1) for each in noisy]
    numbers = network.clean(rows, times)[:, : network.numbers]
    return numbers, np.stack(codes, 1) if codes else np.zeros((count, 0), np.int64)


def _of_length(directions: Tensor) -> Tensor:
    """Return the directions at the length that noise has, so that none can hide from it by growing."""
    return nnf.normalize(directions, dim=-1) * math.sqrt(directions.shape[-1])


def _waves(times: Tensor) -> Tensor:
    """Return the times as waves of many lengths, (B, 2 x waves)."""
    turns = times * torch.logspace(0, 2, _WAVES) * math.pi  # (B, waves)
    return torch.cat([torch.sin(turns), torch.cos(turns)], 1)
