"""Optimizers by the names that people give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from presage.errors import UnknownNameError

if TYPE_CHECKING:
    from torch import nn

_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "sgd-momentum": ("SGD", {"momentum": 0.9}),
    "adam": ("Adam", {}),
    "adamw": ("AdamW", {}),
    "rmsprop": ("RMSprop", {}),
    "adagrad": ("Adagrad", {}),
    "adadelta": ("Adadelta", {}),
    "adamax": ("Adamax", {}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "adafactor": ("Adafactor", {}),
}
_ALIASES = {"momentum": "sgd-momentum", "sgdm": "sgd-momentum"}


def make_optimizer(name: str, network: nn.Module, *, on_gpu: bool) -> torch.optim.Optimizer:
    """Return the optimizer of a network's weights, in the form that torch takes by itself on such a device.

    On a GPU that is one call for all weights, which needs room for more at once; elsewhere one weight after the
    other. Raises UnknownNameError with the closest match.
    """
    plain = "-".join(name.lower().replace("_", "-").split())
    plain = _ALIASES.get(plain, plain)
    known = {kind: entry for kind, entry in _KINDS.items() if hasattr(torch.optim, entry[0])}
    if plain not in known:
        raise UnknownNameError("optimizer", name, known)
    kind, settings = known[plain]
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    made: torch.optim.Optimizer = getattr(torch.optim, kind)(
        weights, lr=1e-3, foreach=on_gpu and kind != "Adafactor", **settings
    )
    return made
