"""The weights of a network as the arrays of a model's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import nn

_PREFIX = "network/"


def weights_of(network: nn.Module) -> dict[str, NDArray[Any]]:
    """Return the weights of a network by name."""
    return {f"{_PREFIX}{name}": value.detach().numpy() for name, value in network.state_dict().items()}


def give_weights(network: nn.Module, arrays: dict[str, NDArray[Any]]) -> None:
    """Give a network its weights, ready to draw. Raises ValueError if they are another network's."""
    weights = {
        name.removeprefix(_PREFIX): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith(_PREFIX)
    }
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    network.eval()
