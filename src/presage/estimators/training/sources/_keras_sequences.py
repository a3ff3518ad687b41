"""Layers of Keras over sequences: recurrent ones, wrappers of layers, attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.estimators.training.sources._keras_layers import Config, Shapes


_GATES = {"SimpleRNN": 1, "GRU": 3, "LSTM": 4}
_RUN: dict[str, Any] = {"SimpleRNN": torch.rnn_tanh, "GRU": torch.gru, "LSTM": torch.lstm}


class Recurrent(nn.Module):
    """LSTM, GRU or SimpleRNN, with as many biases as Keras has, where torch has two for each."""

    def __init__(self, kind: str, config: Config, shapes: Shapes) -> None:
        super().__init__()
        self._kind, self.units = kind, config["units"]
        rows = _GATES[kind] * self.units
        self.kernel = nn.Parameter(torch.empty(rows, shapes[0][-1]))
        self.recurrent_kernel = nn.Parameter(torch.empty(rows, self.units))
        self._has_bias = config.get("use_bias", True)
        if self._has_bias:
            self.bias = nn.Parameter(torch.empty(rows))
            second = torch.empty(rows)
            if kind == "GRU" and config.get("reset_after", True):
                self.recurrent_bias = nn.Parameter(second)
            else:
                self.register_buffer("recurrent_bias", second)
        self._dropout = config.get("dropout", 0.0)
        self._backwards = bool(config.get("go_backwards"))
        self._sequences, self._state = bool(config.get("return_sequences")), bool(config.get("return_state"))

    def reset_parameters(self) -> None:
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.dim() > 1:
                nn.init.normal_(tensor, std=1 / math.sqrt(tensor.shape[1]))
            else:
                nn.init.zeros_(tensor)

    def forward(self, values: Tensor, *states: Tensor, **_named: Any) -> Any:
        values = functional.dropout(values, self._dropout, self.training) if self._dropout else values
        values = values.flip(1) if self._backwards else values
        begin = [state.unsqueeze(0) for state in states]
        count = 2 if self._kind == "LSTM" else 1
        begin += [values.new_zeros(1, values.shape[0], self.units) for _ in range(count - len(begin))]
        weights = [self.kernel, self.recurrent_kernel]
        if self._has_bias:
            weights += [self.bias, self.recurrent_bias]
        made, *ends = _RUN[self._kind](
            values,
            tuple(begin) if count > 1 else begin[0],
            weights,
            self._has_bias,
            1,
            0.0,
            self.training,
            False,
            True,
        )
        answer = made if self._sequences else made[:, -1]
        return (answer, *(each[0] for each in ends)) if self._state else answer


class Bidirectional(nn.Module):
    """Two recurrent layers, one of them from the end."""

    def __init__(self, forward: nn.Module, backward: nn.Module, config: Config, *, sequences: bool) -> None:
        super().__init__()
        self.forward_layer, self.backward_layer = forward, backward
        self._mode = config.get("merge_mode", "concat")
        self._sequences = sequences

    def forward(self, values: Tensor, *states: Tensor, **_named: Any) -> Any:
        half = len(states) // 2
        first, second = self.forward_layer(values, *states[:half]), self.backward_layer(values, *states[half:])
        first, ahead = (first[0], first[1:]) if isinstance(first, tuple) else (first, ())
        second, behind = (second[0], second[1:]) if isinstance(second, tuple) else (second, ())
        second = second.flip(1) if self._sequences else second
        merged = _MERGES[self._mode](first, second)
        return (merged, *ahead, *behind) if ahead else merged


_MERGES: dict[str | None, Callable[[Tensor, Tensor], Any]] = {
    "concat": lambda left, right: torch.cat([left, right], -1),
    "sum": torch.add,
    "mul": torch.mul,
    "ave": lambda left, right: (left + right) / 2,
    None: lambda left, right: (left, right),
}


class TimeDistributed(nn.Module):
    """The same layer at every step."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Tensor, **_named: Any) -> Tensor:
        made = self.layer(values.flatten(0, 1))
        return made.unflatten(0, values.shape[:2])


class MultiHeadAttention(nn.Module):
    """Attention with a matrix of its own for queries, keys, values and outputs; scores are written out in full."""

    def __init__(self, config: Config, shapes: Shapes) -> None:
        super().__init__()
        self._heads, width = config["num_heads"], config["key_dim"]
        deep = config.get("value_dim") or width
        bias, query = config.get("use_bias", True), shapes[0][-1]
        value = shapes[1][-1] if len(shapes) > 1 else query
        key = shapes[2][-1] if len(shapes) > 2 else value
        answer = config.get("output_shape")
        answer = answer[-1] if isinstance(answer, list | tuple) else answer or query
        self.query = nn.Linear(query, self._heads * width, bias)
        self.key = nn.Linear(key, self._heads * width, bias)
        self.value = nn.Linear(value, self._heads * deep, bias)
        self.output = nn.Linear(self._heads * deep, answer, bias)
        self._dropout = config.get("dropout", 0.0)

    def forward(self, query: Tensor, value: Tensor | None = None, key: Tensor | None = None, **named: Any) -> Any:
        value = query if value is None else value
        q, k, v = (
            layer(each).unflatten(-1, (self._heads, -1)).transpose(-2, -3)
            for layer, each in (
                (self.query, query),
                (self.key, value if key is None else key),
                (self.value, value),
            )
        )
        scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-1, -2)
        if named.get("use_causal_mask") is True:
            ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(ahead, -1e9)
        weights = torch.softmax(scores, -1)
        kept = functional.dropout(weights, self._dropout, self.training) if self._dropout else weights
        answer = self.output((kept @ v).transpose(-2, -3).flatten(-2))
        return (answer, weights) if named.get("return_attention_scores") is True else answer
