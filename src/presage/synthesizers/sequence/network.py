"""The network that draws a user's next job, field by field.

Each field is drawn from a mixture of two: a value like that of one of the user's last jobs, chosen by attention
and favoured where the fields drawn so far are the same; and a value of its own. People repeat their jobs, and a
network need not learn every repetition by heart if it can point at it. Values of one's own begin from what the
user usually does, so that the network learns only what depends on the moment.

Letters in shapes: B jobs, K jobs that one may look back to, F fields, D width of a job's vector, V words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from presage.synthesizers.sequence.features import AFTER, BEFORE, HISTORY, REACH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from presage.synthesizers.columns import FloatArray, IntArray

LEAST = 1e-9
USUAL_JOBS = 5.0
"""For how many jobs of a user what everybody does counts."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    words: tuple[int, ...]
    """Of each field; the first is the gap, the last the run time."""
    users: int
    width: int = 48
    hidden: int = 160
    user_width: int = 16
    dropout: float = 0.25
    forget_user: float = 0.15
    """Share of jobs whose user is hidden, so that newcomers can be drawn."""


class Batch(NamedTuple):
    """Jobs whose fields are known."""

    before: Tensor  # (B, BEFORE)
    after: Tensor  # (B, AFTER)
    user: Tensor  # (B,)
    words: Tensor  # (B, F)
    history: Tensor  # (B, K, F), the latest first; where there is none, the word behind the last
    present: Tensor  # (B, K)
    fresh: Tensor  # (B,): whether it is the first job of a day
    gap_words: Tensor  # (B, V of the gap): which words of it are possible
    run_words: Tensor  # (B, V of the run time)


class SequenceNetwork(nn.Module):
    """Gives the logarithm of the probability of each field of jobs.

    `values` are the numbers that the words of a field stand for; None where they stand for none. `counts` are how
    often each user had each word of a field: (users, V).
    """

    def __init__(self, shape: Shape, values: Sequence[FloatArray | None], counts: Sequence[IntArray]) -> None:
        super().__init__()
        self.shape = shape
        self.set_counts(counts)
        self.user = nn.Embedding(shape.users + 1, shape.user_width)
        self.words = nn.ModuleList(nn.Embedding(size + 1, shape.width) for size in shape.words)
        self.age = nn.Embedding(HISTORY, shape.width)
        self.job = nn.Linear(shape.width, shape.width)
        self.key = nn.Linear(shape.width, shape.width)
        self.value = nn.Linear(shape.width, shape.width)
        last = len(shape.words) - 1
        self.fields = nn.ModuleList(
            Field(shape, place, near=place in (0, last), leans=place == last) for place in range(last + 1)
        )
        nn.init.zeros_(self.user.weight)
        for place, table in enumerate(self.words):
            nn.init.normal_(table.weight, std=0.1)
            self._lay_out(table, values[place])
        for field in self.fields:
            nn.init.normal_(field.own.weight, std=0.02)
            nn.init.zeros_(field.own.bias)
        nn.init.normal_(self.age.weight, std=0.1)

    def set_counts(self, counts: Sequence[IntArray]) -> None:
        """Take up how often each user had each word; the last row is for somebody unknown."""
        for place, table in enumerate(counts):
            known = torch.from_numpy(np.concatenate([table, np.zeros_like(table[:1])])).float()
            self.register_buffer(f"counts_{place}", known)  # (users + 1, V)

    def log_usual(self, place: int, user: Tensor, true: Tensor | None = None) -> Tensor:
        """Return the logarithms of how often users have each word, leaning on everybody's: (B, V).

        With `true`, that word is counted once less: a job must not be foretold by itself.
        """
        table = self.get_buffer(f"counts_{place}")
        counts = table[user]
        if true is not None:
            counts = counts.scatter_add(1, true[:, None], -(user[:, None] < len(table) - 1).float())
        everybody = table.sum(0) + 0.5
        counts = counts.clamp(min=0) + USUAL_JOBS * everybody / everybody.sum()
        return torch.log(counts / counts.sum(1, keepdim=True))

    @staticmethod
    def _lay_out(table: nn.Embedding, values: FloatArray | None) -> None:
        """Let words that stand for numbers begin in the order of their logarithms."""
        if values is None:
            return
        logs = np.log1p(np.nan_to_num(values, posinf=0.0))
        scaled = torch.from_numpy((logs - logs.mean()) / (logs.std() + 1e-6)).float()
        direction = torch.randn(1, table.weight.shape[1]) * 0.3
        with torch.no_grad():
            table.weight[: len(scaled)] += scaled[:, None] * direction

    def forward(self, batch: Batch) -> Tensor:
        """Return the logarithms of the probabilities: (B, F)."""
        keys, values = self.remember(batch.history)  # (B, K, D) each
        user = batch.user
        if self.training:
            hidden = torch.rand(user.shape) < self.shape.forget_user
            user = torch.where(hidden, self.shape.users, user)
        who = self.user(user)
        drawn = torch.zeros(len(user), self.shape.width)  # (B, D): the sum of the fields so far
        logs = []
        for place, field in enumerate(self.fields):
            told = torch.cat([batch.before if place == 0 else batch.after, who, drawn], dim=1)
            usual = self.log_usual(place, user, batch.words[:, place] if self.training else None)
            mixture = field(told, usual, keys, values, batch, place)
            logs.append(field.log_probability(mixture, usual, batch, place))
            drawn = drawn + self.words[place](batch.words[:, place])
        return torch.stack(logs, dim=1)

    def plain_arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return what drawing needs, with what is usual for each user, and for nobody."""
        arrays = {name: value.numpy().copy() for name, value in self.state_dict().items() if "counts_" not in name}
        everyone = torch.arange(self.shape.users + 1)
        with torch.no_grad():
            for place in range(len(self.fields)):
                arrays[f"usual.{place}"] = self.log_usual(place, everyone).numpy()
        return arrays

    def remember(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Return a key and a value of each earlier job."""
        job = sum(table(history[..., place]) for place, table in enumerate(self.words))
        job = functional.silu(self.job(job))  # (B, K, D)
        return self.key(job) + self.age.weight, self.value(job)


class Mixture(NamedTuple):
    """What a field is drawn from."""

    own: Tensor  # (B, V): logits of values of its own
    weight: Tensor  # (B, K): which earlier job it is like
    chosen: Tensor  # (B,): the logit of being like one
    kernel: Tensor  # (B, 2 REACH + 1): logits of how many ranges away from that one a number lies


class Field(nn.Module):
    """Draws one field."""

    nearness: nn.Linear | None
    pull: Tensor

    def __init__(self, shape: Shape, place: int, *, near: bool, leans: bool) -> None:
        super().__init__()
        told = (BEFORE if place == 0 else AFTER) + shape.user_width + shape.width
        self.near = near
        self.count = shape.words[place]
        self.query = nn.Linear(told, shape.width)
        self.same = nn.Parameter(torch.full((len(shape.words),), 2.0))
        self.body = nn.Linear(told + shape.width, shape.hidden)
        self.dropout = nn.Dropout(shape.dropout)
        self.own = nn.Linear(shape.hidden, self.count)
        self.choice = nn.Linear(shape.hidden, 1)
        self.trust = nn.Parameter(torch.ones(1))
        # How likely a number lies how many ranges away from the earlier one that it is like.
        self.kernel = nn.Parameter(-0.8 * torch.arange(-REACH, REACH + 1).abs().float())
        if leans:
            # Some programs run as long as before to the second, others about as long.
            self.nearness = nn.Linear(shape.hidden, 2 * REACH + 1, bias=False)
            nn.init.zeros_(self.nearness.weight)
            # And how much a run time leans to what is usual for the user: one near another that is near another
            # would end up anywhere. Gaps are to go far from what is usual: that is what bursts are.
            self.pull = nn.Parameter(torch.full((1,), 0.5))
        else:
            self.nearness = None
            self.register_buffer("pull", torch.zeros(1))

    def forward(
        self, told: Tensor, usual: Tensor, keys: Tensor, values: Tensor, batch: Batch, place: int
    ) -> Mixture:
        """Return what the field is drawn from."""
        likeness = torch.einsum("bd,bkd->bk", self.query(told), keys) / keys.shape[-1] ** 0.5
        if place:
            equal = batch.history[..., :place] == batch.words[:, None, :place]  # (B, K, place)
            likeness = likeness + (equal * self.same[:place]).sum(-1)
        likeness = likeness.masked_fill(~batch.present, -1e4)
        weight = torch.softmax(likeness, dim=1) * batch.present
        read = torch.einsum("bk,bkd->bd", weight, values)
        hidden = self.dropout(functional.silu(self.body(torch.cat([told, read], dim=1))))
        own = self.own(hidden) + self.trust * usual
        own = own.masked_fill(~_possible(batch, place, self.count, len(batch.words[0])), -1e4)
        kernel = self.kernel.expand(len(told), -1)
        if self.nearness is not None:
            kernel = kernel + self.nearness(hidden)
        return Mixture(own, weight, self.choice(hidden).squeeze(1), kernel)

    def log_probability(self, mixture: Mixture, usual: Tensor, batch: Batch, place: int) -> Tensor:
        """Return the logarithm of the probability of the true word: (B,)."""
        true = batch.words[:, place]
        generated = torch.log_softmax(mixture.own, dim=1).gather(1, true[:, None]).squeeze(1)
        earlier = batch.history[..., place]  # (B, K)
        if self.near:
            alike = self._near_probability(mixture.kernel, earlier, true, usual)
        else:
            alike = (earlier == true[:, None]).float()
        copied = torch.log((mixture.weight * alike).sum(1) + LEAST)
        chosen = mixture.chosen
        if place == 0:
            # The first gap of a day counts from when it began, which is not like any other.
            chosen = chosen.masked_fill(batch.fresh, -1e4)
        chosen = chosen.masked_fill(~batch.present[:, 0], -1e4)  # nothing to point at before the first job
        return torch.logaddexp(functional.logsigmoid(chosen) + copied, functional.logsigmoid(-chosen) + generated)

    def _near_probability(self, kernel: Tensor, earlier: Tensor, true: Tensor, usual: Tensor) -> Tensor:
        """Return how likely a number that is like an earlier one, one of (B, K), is the true one: (B, K)."""
        near = torch.exp(kernel - kernel.amax(dim=1, keepdim=True))  # (B, O), O = 2 REACH + 1
        pull = self.pull * usual
        liked = torch.exp(pull - pull.amax(dim=1, keepdim=True))  # (B, V)
        words = earlier[..., None] + torch.arange(-REACH, REACH + 1)  # (B, K, O)
        there = (words >= 0) & (words < self.count)
        around = liked.gather(1, words.clamp(0, self.count - 1).flatten(1)).view(words.shape) * there
        any_word = (around * near[:, None, :]).sum(2)
        offset = true[:, None] - earlier
        this_word = near.gather(1, (offset + REACH).clamp(0, 2 * REACH)) * (offset.abs() <= REACH)
        this_word = this_word * liked.gather(1, true[:, None])
        return this_word / any_word.clamp(min=torch.finfo(any_word.dtype).tiny)


def _possible(batch: Batch, place: int, count: int, fields: int) -> Tensor:
    """Return which words of a field can be: (B, V) or (1, V)."""
    if place == 0:
        return batch.gap_words
    if place == fields - 1:
        return batch.run_words
    return torch.ones(1, count, dtype=torch.bool)
