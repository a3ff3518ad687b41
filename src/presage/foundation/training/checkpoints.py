"""Where an interrupted training goes on: weights, the optimizer's memory and the step, in one safetensors file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from presage.errors import InputError
from presage.traces.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn


def save_checkpoint(
    path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, step: int, about: dict[str, Any]
) -> None:
    """Write how far a training is. `about` says which training it is: only the same one may go on from here."""
    tensors = {f"network/{name}": value for name, value in network.state_dict().items()}
    for place, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{place}/{name}": torch.as_tensor(value) for name, value in state.items()}
    with replacing(path) as partial:
        partial.write_bytes(save(tensors, {"step": str(step), "about": json.dumps(about, sort_keys=True)}))


def load_checkpoint(
    path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, about: dict[str, Any]
) -> int:
    """Put a training where it was interrupted, and return how many steps it has done.

    Raises InputError if the file belongs to another training, or to another network, or is damaged.
    """
    try:
        with safe_open(path, "pt") as opened:
            head = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise InputError(
            f"{path.name} is not the state of a training: {error}", remedy="Remove it to begin anew"
        ) from None
    if json.loads(head.get("about", "null")) != json.loads(json.dumps(about)):
        raise InputError(
            f"{path.name} is the state of another training",
            expected="the same recipe, seed and logs",
            remedy="Remove it to begin anew, or name another folder",
        )
    try:
        network.load_state_dict(_under("network/", tensors))
    except RuntimeError:
        raise InputError(
            f"{path.name} is the state of a network that is built in another way",
            expected="a training that this version of Presage began",
            remedy="Remove it to begin anew",
        ) from None
    memory = optimizer.state_dict()
    places = sorted({int(name.split("/")[1]) for name in tensors if name.startswith("optimizer/")})
    memory["state"] = {place: _under(f"optimizer/{place}/", tensors) for place in places}
    optimizer.load_state_dict(memory)
    return int(head["step"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
