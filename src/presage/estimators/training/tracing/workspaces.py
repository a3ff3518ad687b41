"""What kernels need inside, which no tensor shows: copies in another order, and what a recurrent layer keeps.

The rules of the CPU are those of oneDNN, found by watching its allocations. It copies the operands of a
convolution into blocks of channels, unless the kernel is a single point that moves by one or there are too few
channels; and a recurrent layer keeps its gates and states for the way back in one piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

_CHANNEL_BLOCK = 16
_FEWEST_CHANNELS = 8
_FAR_PADDING, _FARTHER_PADDING = 8, 17
_CACHE_LINE = 64
_ALIASING = 256
# Of states as wide as the wider of inputs and states, and of states alone: fitted to seven sizes of an LSTM.
_KEPT_WIDE, _KEPT_NARROW = 5.55, 5.0
_KEPT_ON_GPU = 6
"""Gates, cell and hidden states."""


@dataclass(frozen=True)
class Copies:
    """Bytes of the copies that make a tensor: all of them before it is there, and the one it is copied from."""

    before: int
    after: int


_NONE = Copies(0, 0)


def forward_copies(arguments: Sequence[Any], result: torch.Tensor) -> Copies:
    """Return the copies that a convolution makes of its inputs, weights and outputs."""
    inputs, weight, _, stride, padding = arguments[:5]
    if _as_it_is(weight, stride):
        return _NONE
    last = _blocked(result)
    return Copies(last if _is_far(padding) else _blocked(inputs) + _bytes(weight) + last, last)


def backward_copies(arguments: Sequence[Any]) -> tuple[Copies, Copies]:
    """Return the same of a convolution's way back: for the gradient of its inputs, and then of its weights."""
    outputs, inputs, weight, _, stride, padding = arguments[:6]
    if _as_it_is(weight, stride):
        return _NONE, _NONE
    last = _blocked(inputs)
    both = last + _bytes(weight) + _blocked(outputs)
    of_weights = _bytes(weight)
    for_inputs = last if _is_far(padding) else both
    for_weights = of_weights if _is_far(padding, _FARTHER_PADDING) else both
    return Copies(for_inputs, last), Copies(for_weights, of_weights)


def recurrent_state(arguments: Sequence[Any], *, on_gpu: bool) -> int:
    """Return the bytes that a recurrent layer keeps from its way forward for its way back."""
    inputs, hidden = arguments[0], arguments[2].shape[1]
    steps, batch, width = inputs.shape
    if on_gpu:
        return int(steps * batch * hidden * _KEPT_ON_GPU * inputs.element_size())
    gates = steps * _aligned(4 * hidden)
    states = (steps + 1) * (_KEPT_WIDE * _aligned(max(width, hidden)) + _KEPT_NARROW * _aligned(hidden))
    return int(4 * batch * (gates + states))


def recurrent_copies(arguments: Sequence[Any]) -> int:
    """Return the bytes that a recurrent layer needs while it runs: new gates, and weights in its own order."""
    inputs, hidden = arguments[0], arguments[2].shape[1]
    return int(4 * prod(inputs.shape[:2]) * 4 * hidden) + _bytes(arguments[1]) + _bytes(arguments[2])


def _as_it_is(weight: torch.Tensor, stride: Sequence[int]) -> bool:
    return prod(weight.shape[2:]) == 1 and all(step == 1 for step in stride)


def _is_far(padding: Sequence[int], limit: int = _FAR_PADDING) -> bool:
    """Say whether a convolution reaches so far over the edge that it becomes a product of matrices."""
    return max(padding, default=0) >= limit


def _blocked(tensor: torch.Tensor) -> int:
    channels = tensor.shape[1]
    if channels < _FEWEST_CHANNELS:
        return 0
    padded = -(-channels // _CHANNEL_BLOCK) * _CHANNEL_BLOCK
    return _bytes(tensor) // channels * padded


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _aligned(width: int) -> int:
    """Return a row's width in numbers of four bytes, as oneDNN pads it against cache conflicts."""
    size = -(-4 * width // _CACHE_LINE) * _CACHE_LINE
    return (size + _CACHE_LINE if size % _ALIASING == 0 else size) // 4
