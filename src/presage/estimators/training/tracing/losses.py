"""A loss for outputs of which nobody said what they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from presage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


def usual_loss(outputs: Any) -> torch.Tensor:
    """Return the loss that most would take for these outputs, as one number.

    The outputs' own `loss` where they have one; cross entropy for logits of samples or of positions; else the mean
    of the squares of all numbers. Raises InputError where there is no number that could be learned from.
    """
    own = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if isinstance(own, torch.Tensor):
        return own.mean() if own.dim() else own
    logits = outputs if isinstance(outputs, torch.Tensor) else getattr(outputs, "logits", None)
    if isinstance(logits, torch.Tensor) and _are_logits(logits):
        rows = logits.reshape(-1, logits.shape[-1])
        return functional.cross_entropy(rows, torch.zeros(rows.shape[0], dtype=torch.long, device=rows.device))
    squares = [each.pow(2).mean() for each in _numbers(outputs)]
    if not squares:
        raise InputError(
            "The outputs of the network have no tensor of real numbers that depends on its weights",
            expected="a tensor, or a tuple, list or dictionary with one",
            remedy="Return the outputs that the training learns from",
        )
    return torch.stack(squares).sum() if len(squares) > 1 else squares[0]


def _are_logits(output: torch.Tensor) -> bool:
    return output.is_floating_point() and output.dim() in (2, 3) and output.shape[-1] > 1


def _numbers(outputs: Any) -> Iterator[torch.Tensor]:
    if isinstance(outputs, torch.Tensor):
        if outputs.is_floating_point() and outputs.requires_grad:
            yield outputs
    elif isinstance(outputs, dict):
        for each in outputs.values():
            yield from _numbers(each)
    elif isinstance(outputs, list | tuple):
        for each in outputs:
            yield from _numbers(each)
