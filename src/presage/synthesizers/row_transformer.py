"""Rows written as words, learned by one causal transformer: after REaLTabFormer (Solatorio and Dupriez, 2023).

A job becomes a sentence of fixed length. A category is one word, a number one word for each of its decimal digits,
zero-padded on the left, so that words at the same place mean the same magnitude. Every place has words of its own
and an output of its own: only words of the right column can be drawn there. Rows are independent of each other:
this kind knows what a job looks like, not who came before it.

Shapes: B rows, T places of a sentence, D width, H heads, V words of a place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from presage.synthesizers._base import Synthesizer
from presage.synthesizers._fitting import Recipe, fit
from presage.synthesizers._weights import give_weights, weights_of
from presage.synthesizers.columns import GAP, RUN, JobTable
from presage.traces.workloads._parameters import parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.synthesizers._base import Drawing, Training
    from presage.synthesizers.columns import Columns, FloatArray, IntArray, Number

BASE = 10
_MOST_DIGITS = 12
_DRAWN_AT_ONCE = 2048


@dataclass(frozen=True)
class Settings:
    """How big the network is and how it learns."""

    width: int = parameter(96, "width of the network; a multiple of heads", minimum=8, maximum=1024)
    layers: int = parameter(3, "blocks of attention", minimum=1, maximum=24)
    heads: int = parameter(4, "heads of attention", minimum=1, maximum=16)
    dropout: float = parameter(0.2, "share of units left out while learning", minimum=0, maximum=0.9)
    hidden: float = parameter(0.15, "share of words hidden while learning", minimum=0, maximum=0.9)
    epochs: int = parameter(30, "rounds through all jobs at most", minimum=1, maximum=10_000)
    patience: int = parameter(4, "rounds without a better score before it ends", minimum=1, maximum=10_000)
    batch: int = parameter(128, "jobs per step", minimum=1, maximum=65_536)
    rate: float = parameter(2e-3, "highest learning rate", above=0, maximum=1)


@dataclass(frozen=True)
class Digits:
    """How a number is written: `whole` digits before the point and `decimals` after it."""

    name: str
    whole: int
    decimals: int
    first: int
    """How many words the leading digit has."""

    @classmethod
    def of(cls, number: Number) -> Digits:
        """Return as many digits as the greatest value has, and decimals where there are fractions."""
        most = max(int(min(number.knots[-1], BASE ** (_MOST_DIGITS - 1))), 1)
        whole = len(str(most))
        decimals = min(max(-round(math.log10(number.step)), 0), _MOST_DIGITS - whole)
        return cls(number.name, whole, decimals, most // BASE ** (whole - 1) + 1)

    def sizes(self) -> list[int]:
        """Return the number of words of each place."""
        return [self.first, *[BASE] * (self.whole + self.decimals - 1)]

    def write(self, values: FloatArray) -> IntArray:
        """Return the digits of each value, (N, places); what is too great becomes the greatest."""
        most = self.first * BASE ** (self.whole + self.decimals - 1) - 1
        scaled = np.minimum(np.rint(np.maximum(values, 0) * BASE**self.decimals), most).astype(np.int64)
        return scaled[:, None] // self._powers() % BASE

    def read(self, digits: IntArray) -> FloatArray:
        """Return the values that these digits write."""
        read: FloatArray = (digits * self._powers()).sum(1) / BASE**self.decimals
        return read

    def _powers(self) -> IntArray:
        return BASE ** np.arange(self.whole + self.decimals - 1, -1, -1, dtype=np.int64)


class Sentences:
    """How the columns of a trace become sentences and back: the gap, then the categories, the run time last."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.gap, self.run = Digits.of(columns.number(GAP)), Digits.of(columns.number(RUN))
        middle = [len(each) for each in columns.categories]
        self.sizes = [*self.gap.sizes(), *middle, *self.run.sizes()]
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def write(self, table: JobTable) -> IntArray:
        """Return the words of each job, (N, T), numbered from 0 at each place."""
        middle = [table.codes[each.name][:, None] for each in self.columns.categories]
        written = [self.gap.write(table.numbers[GAP]), *middle, self.run.write(table.numbers[RUN])]
        return np.concatenate(written, axis=1)

    def read(self, words: IntArray) -> JobTable:
        """Return the jobs that these sentences tell of; numbers stay within the range of the log."""
        begin, end = len(self.gap.sizes()), words.shape[1] - len(self.run.sizes())
        codes = {each.name: words[:, begin + place] for place, each in enumerate(self.columns.categories)}
        gap, run = self.columns.number(GAP), self.columns.number(RUN)
        return JobTable(
            codes,
            {
                GAP: np.clip(self.gap.read(words[:, :begin]), gap.knots[0], gap.knots[-1]),
                RUN: np.clip(self.run.read(words[:, end:]), run.knots[0], run.knots[-1]),
            },
        )


class Block(nn.Module):
    """Attention to what was said before, then a small network, each added to its input."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.asked = nn.Linear(width, 3 * width)
        self.answer = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, memory: list[Tensor] | None = None) -> Tensor:
        """Return new states, (B, T, D); with `memory`, keys and values of earlier places are kept in it."""
        rows, places, width = states.shape
        parts = self.asked(self.before(states)).view(rows, places, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # (B, H, T, D / H) each
        if memory is not None:
            if memory:
                key, value = torch.cat([memory[0], key], 2), torch.cat([memory[1], value], 2)
            memory[:] = [key, value]
        attended = nnf.scaled_dot_product_attention(
            query, key, value, is_causal=memory is None
        )  # (B, H, T, D / H)
        states = states + self.dropout(self.answer(attended.transpose(1, 2).reshape(rows, places, width)))
        return states + self.dropout(self.narrow(nnf.gelu(self.wide(self.between(states)))))


class RowNetwork(nn.Module):
    """The next word of a row, given the words before it."""

    def __init__(self, sizes: list[int], settings: Settings) -> None:
        super().__init__()
        width = settings.heads * math.ceil(settings.width / settings.heads)
        self.start = sum(sizes)  # the word that opens a sentence; the one after it stands for a hidden word
        self.words = nn.Embedding(self.start + 2, width)
        self.places = nn.Embedding(len(sizes), width)
        self.blocks = nn.ModuleList(Block(width, settings.heads, settings.dropout) for _ in range(settings.layers))
        self.last = nn.LayerNorm(width)
        self.outputs = nn.ModuleList(nn.Linear(width, size) for size in sizes)
        self.dropout = nn.Dropout(settings.dropout)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, read: Tensor) -> list[Tensor]:
        """Return what may come at each place, (B, V) logits, given the words `read` before it, (B, T)."""
        # Places are looked up for every row, so that each row's own share in the gradient can be told.
        places = torch.arange(read.shape[1]).expand_as(read)
        states = self.dropout(self.words(read) + self.places(places))  # (B, T, D)
        for block in self.blocks:
            states = block(states)
        states = self.last(states)
        return [output(states[:, place]) for place, output in enumerate(self.outputs)]

    def step(self, read: Tensor, place: int, memories: list[list[Tensor]]) -> Tensor:
        """Return what may come at `place`, (B, V) logits, given the last word, (B,), and what is remembered."""
        states = (self.words(read) + self.places(torch.full_like(read, place)))[:, None]  # (B, 1, D)
        for block, memory in zip(self.blocks, memories, strict=True):
            # One place alone looks at all before it: there is nothing ahead to hide.
            states = block(states, memory)
        return self.outputs[place](self.last(states)[:, 0])


class RowTransformer(Synthesizer):
    """Rows as words, after REaLTabFormer (2023); rows do not know of each other."""

    name: ClassVar[str] = "row-transformer"
    settings_type: ClassVar[type] = Settings
    network: RowNetwork

    def _learn(self, table: JobTable, later: JobTable, training: Training) -> dict[str, Any]:
        own: Settings = self.settings
        sentences = Sentences(self.columns)
        torch.manual_seed(training.seed)
        self.network = RowNetwork(sentences.sizes, own)
        offsets = torch.from_numpy(sentences.offsets)
        words, later_words = torch.from_numpy(sentences.write(table)), torch.from_numpy(sentences.write(later))

        def loss_of(network: nn.Module, places: IntArray) -> Tensor:
            batch = words[torch.from_numpy(places)]  # (B, T)
            return sentence_loss(network, batch, offsets, own.hidden).mean()

        def score(network: nn.Module) -> float:
            losses = [sentence_loss(network, some, offsets) for some in later_words.split(_DRAWN_AT_ONCE)]
            return float(torch.cat(losses).mean())

        recipe = Recipe(own.epochs, own.patience, own.batch, own.rate)
        record = fit(self.network, len(words), loss_of, score, recipe, training, {"kind": self.name})
        return {**record, "parameters": sum(each.numel() for each in self.network.parameters())}

    def _draw(self, count: int, start_ms: int, rng: np.random.Generator, drawing: Drawing) -> JobTable:
        sentences = Sentences(self.columns)
        tables = []
        for first in range(0, count, _DRAWN_AT_ONCE):
            some = min(_DRAWN_AT_ONCE, count - first)
            with torch.no_grad():
                tables.append(sentences.read(draw_words(self.network, sentences, some, rng)))
            drawing.tell(some)
        return JobTable.joined(tables)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return weights_of(self.network)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.network = RowNetwork(Sentences(self.columns).sizes, self.settings)
        give_weights(self.network, arrays)


def sentence_loss(network: nn.Module, words: Tensor, offsets: Tensor, hidden: float = 0.0) -> Tensor:
    """Return the surprise at each sentence, (B,), in nats.

    A share `hidden` of the words is neither read nor asked for: a row that cannot be learned whole is not
    learned by heart.
    """
    start = offsets[-1] + network.outputs[-1].out_features
    left_out = torch.rand(words.shape) < hidden  # (B, T)
    told = torch.where(left_out, start + 1, words + offsets)
    read = torch.cat([start.expand(len(words), 1), told[:, :-1]], 1)  # (B, T)
    logits = network(read)
    surprise = [nnf.cross_entropy(each, words[:, place], reduction="none") for place, each in enumerate(logits)]
    return (torch.stack(surprise, 1) * ~left_out).sum(1)


def draw_words(network: RowNetwork, sentences: Sentences, count: int, rng: np.random.Generator) -> IntArray:
    """Return `count` sentences, (B, T), drawn word by word."""
    read = torch.full((count,), network.start)
    memories: list[list[Tensor]] = [[] for _ in network.blocks]
    drawn = []
    for place, offset in enumerate(sentences.offsets):
        chances = torch.softmax(network.step(read, place, memories).double(), 1).cumsum(1)  # (B, V)
        dice = torch.from_numpy(rng.random((count, 1)))
        words = torch.searchsorted(chances, dice * chances[:, -1:]).squeeze(1).clamp(max=chances.shape[1] - 1)
        drawn.append(words)
        read = words + int(offset)
    return torch.stack(drawn, 1).numpy()
