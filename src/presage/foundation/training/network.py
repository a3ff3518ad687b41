"""The network: a question attends to earlier jobs, and answers with a mixture of logistics in log time.

Letters in shapes: B questions, K jobs in the context, D width, H heads, C components of the mixture, E ends.

There is no attention among the earlier jobs, so that the cost is linear in K. Every earlier job offers a component
at its own outcome, shifted and widened as the network sees fit; a few free components stand around the anchor.
`presage.foundation.forward` computes the same without torch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from presage.foundation.forward import MASKED, SMALLEST_SCALE, STEP


@dataclass(frozen=True)
class Shape:
    """The sizes of a network."""

    numbers: int
    token: int
    width: int = 64
    hidden: int = 128
    layers: int = 2
    heads: int = 4
    free: int = 4
    ends: int = 0
    """How many ends of a job are told apart; 0: none."""

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as plain numbers."""
        return asdict(self)


class Inputs(NamedTuple):
    """One batch."""

    x: Tensor  # (B, numbers), normalised
    age: Tensor  # (B, 2): whether the job already waits or runs, and for how long
    tokens: Tensor  # (B, K, token)
    present: Tensor  # (B, K), bool
    outcomes: Tensor  # (B, K), log seconds
    ends: Tensor  # (B, K), -1: unknown
    anchor: Tensor  # (B,)


class Mixture(NamedTuple):
    """Logistics in log time."""

    weight: Tensor  # (B, C)
    centre: Tensor
    scale: Tensor


class Network(nn.Module):
    """Answers questions about one kind of duration."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.shape = shape
        self.question = nn.Sequential(
            nn.Linear(shape.numbers + 2, shape.hidden),
            nn.GELU(approximate="tanh"),
            nn.Linear(shape.hidden, width),
        )
        self.token_in = nn.Linear(shape.token, width)
        self.token_question = nn.Linear(width, width)
        self.token_out = nn.Linear(width, width)
        self.token_norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(width)
        self.pointer_token = nn.Linear(width, width)
        self.pointer_question = nn.Linear(width, width)
        self.pointer = nn.Linear(width, 3 + bool(shape.ends))
        self.free = nn.Linear(width, 3 * shape.free)
        self.free_ends = nn.Linear(width, shape.ends + 1) if shape.ends else None
        with torch.no_grad():
            self.free.weight.mul_(0.3)
            self.pointer.weight.mul_(0.3)
            self.free.bias[: shape.free] = 0
            self.free.bias[shape.free : 2 * shape.free] = torch.linspace(-2, 2, shape.free)

    def forward(self, inputs: Inputs) -> tuple[Mixture, Tensor | None]:
        """Return the forecast, and the probabilities of the ends (B, E) if the network tells them apart."""
        question = self.question(torch.cat([inputs.x, inputs.age], 1))  # (B, D)
        tokens = self.token_in(inputs.tokens) + self.token_question(question)[:, None]
        tokens = self.token_norm(self.token_out(functional.gelu(tokens, approximate="tanh")))  # (B, K, D)
        bias = torch.zeros_like(inputs.outcomes).masked_fill(~inputs.present, float(MASKED))  # (B, K)
        for layer in self.layers:
            question = layer(question, tokens, bias)
        question = self.norm(question)
        pointed = self.pointer_token(tokens) + self.pointer_question(question)[:, None]
        pointed = functional.gelu(pointed, approximate="tanh")
        pointer = self.pointer(pointed)  # (B, K, 3 or 4)
        return self._mixture(question, pointer, bias, inputs), self._ends(question, pointer, bias, inputs)

    def _mixture(self, question: Tensor, pointer: Tensor, bias: Tensor, inputs: Inputs) -> Mixture:
        weight, centre, scale = self.free(question).split(self.shape.free, 1)
        centre = inputs.anchor[:, None] + float(STEP) * centre
        weight = torch.cat([pointer[..., 0] + bias, weight], 1)
        centre = torch.cat([inputs.outcomes + pointer[..., 1], centre], 1)
        scale = torch.cat([pointer[..., 2] - 1, scale], 1)
        return Mixture(torch.softmax(weight, 1), centre, float(SMALLEST_SCALE) + functional.softplus(scale))

    def _ends(self, question: Tensor, pointer: Tensor, bias: Tensor, inputs: Inputs) -> Tensor | None:
        if self.free_ends is None:
            return None
        free = self.free_ends(question)  # (B, E + 1)
        known = inputs.ends >= 0
        weight = (pointer[..., 3] + bias).masked_fill(~known, float(MASKED))
        weight = torch.softmax(torch.cat([weight, free[:, -1:]], 1), 1)  # (B, K + 1)
        seen = functional.one_hot(inputs.ends.clamp_min(0).long(), self.shape.ends).float()  # (B, K, E)
        copied = (weight[:, :-1, None] * known[..., None] * seen).sum(1)
        return copied + weight[:, -1:] * torch.softmax(free[:, :-1], 1)


class Layer(nn.Module):
    """The question looks at the earlier jobs once.

    With a single question per context, keys and values need not be made for every job: the question is turned into
    the space of the tokens instead, and the mean of the tokens it looks at into the space of the values.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.keys = nn.Linear(width, width, bias=False)
        self.values = nn.Linear(width, width)
        self.query = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.norm_query = nn.LayerNorm(width)
        self.norm_feed = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(approximate="tanh"), nn.Linear(2 * width, width)
        )

    def forward(self, question: Tensor, tokens: Tensor, bias: Tensor) -> Tensor:
        """Return the question (B, D) with what it took from the tokens (B, K, D)."""
        batch, _, width = tokens.shape
        each = width // self.heads
        query = self.query(self.norm_query(question)).view(batch, self.heads, each)
        wanted = torch.einsum("bhe,hed->bdh", query, self.keys.weight.view(self.heads, each, width))
        scores = tokens @ wanted / each**0.5 + bias[..., None]  # (B, K, H)
        taken = torch.softmax(scores, 1).transpose(1, 2) @ tokens  # (B, H, D)
        seen = torch.einsum("bhd,hed->bhe", taken, self.values.weight.view(self.heads, each, width))
        question = question + self.out(seen.reshape(batch, width) + self.values.bias)
        return question + self.feed(self.norm_feed(question))
