"""Calling a loss whose targets nobody gave."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from presage.estimators.training.sources._base import Example

_OVER_CLASSES = (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)
_FUNCTIONS_OVER_CLASSES = (functional.cross_entropy, functional.nll_loss)


def call_loss(loss: Callable[..., Any], outputs: Any, inputs: Example) -> Any:
    """Return the loss: torch's own get made-up targets, others the outputs and, if they take two, the inputs."""
    first = first_tensor(outputs)
    if first is not None and _wants_targets(loss):
        over_classes = isinstance(loss, _OVER_CLASSES) or loss in _FUNCTIONS_OVER_CLASSES
        return loss(first, class_targets(first) if over_classes else torch.zeros_like(first))
    if _takes_two(loss):
        return loss(outputs, _unwrapped(inputs))
    return loss(outputs)


def class_targets(scores: torch.Tensor) -> torch.Tensor:
    """Return class 0 for everything that `scores`, with classes in dimension 1, are given for."""
    shape = scores.shape[:1] + scores.shape[2:] if scores.dim() > 1 else scores.shape[:0]
    return torch.zeros(shape, dtype=torch.long, device=scores.device)


def first_tensor(outputs: Any) -> torch.Tensor | None:
    """Return the first tensor in nested outputs; None if there is none."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    if isinstance(outputs, dict):
        outputs = tuple(outputs.values())
    if isinstance(outputs, tuple | list):
        return next((found for each in outputs if (found := first_tensor(each)) is not None), None)
    return None


def _wants_targets(loss: Callable[..., Any]) -> bool:
    home = getattr(loss, "__module__", None) or type(loss).__module__
    return home in {"torch.nn.functional", "torch._C._nn"} or type(loss).__module__ == "torch.nn.modules.loss"


def _takes_two(loss: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(loss).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    return len(positional) > 1 or any(each.kind is each.VAR_POSITIONAL for each in parameters)


def _unwrapped(inputs: Example) -> Any:
    positional, keyword = inputs
    if keyword:
        return keyword
    return positional[0] if len(positional) == 1 else positional
