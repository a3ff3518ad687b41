"""A network on fake memory, its repeated blocks, and what is done to it before it is traced."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LISTS = (nn.ModuleList, nn.Sequential)


def convert_tensors(network: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace every tensor of a network by what `convert` makes of it, also those it holds as plain attributes.

    One that is held in two places, like a tied weight, stays one.
    """
    made: dict[int, torch.Tensor] = {}
    kept: list[torch.Tensor] = []  # an identity is that of a living object only

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            kept.append(tensor)
            made[id(tensor)] = _converted(tensor, convert)
        return made[id(tensor)]

    for module in network.modules():
        for holder in (module._parameters, module._buffers, module.__dict__):
            for name, value in list(holder.items()):
                if name not in ("_parameters", "_buffers", "_modules"):
                    holder[name] = _replaced(value, once)


def repeated_blocks(network: nn.Module) -> list[nn.Module]:
    """Return the blocks that a deep network is a row of: what is recomputed or gathered as one.

    They are the members of lists that have layers of their own, the outermost where lists are nested and those
    not made of a single block.
    """
    return list(_blocks(network))


def recompute_blocks(network: nn.Module) -> int:
    """Make a network keep only the inputs of its blocks and compute them again backward; return their number."""
    enable = getattr(network, "gradient_checkpointing_enable", None)
    if callable(enable):
        enable(gradient_checkpointing_kwargs={"use_reentrant": False, "preserve_rng_state": False})
        return 1
    blocks = repeated_blocks(network)
    for block in blocks:
        block.forward = partial(_recomputed, block.forward)
    return len(blocks)


def largest_unit_bytes(network: nn.Module) -> int:
    """Return the size of the weights that are gathered at once when they are sharded by block."""
    units = [list(block.parameters()) for block in repeated_blocks(network)]
    inside = {id(weight) for unit in units for weight in unit}
    units.append([weight for weight in network.parameters() if id(weight) not in inside])
    return max(sum(weight.numel() * weight.element_size() for weight in unit) for unit in units)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    members = list(module.children())
    composite = [member for member in members if any(True for _ in member.children())]
    nested = any(isinstance(member, _LISTS) for member in composite)
    if isinstance(module, _LISTS) and len(composite) > 1 and not nested:
        yield from composite
        return
    for member in members:
        yield from _blocks(member)


def _recomputed(forward: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return checkpoint(forward, *arguments, use_reentrant=False, preserve_rng_state=False, **named)


def _converted(tensor: torch.Tensor, convert: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    new = convert(tensor)
    if new is tensor or not isinstance(tensor, nn.Parameter):
        return new
    return nn.Parameter(new.detach(), requires_grad=tensor.requires_grad)


def _replaced(value: Any, once: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return once(value)
    if type(value) in (list, tuple):
        return type(value)(_replaced(each, once) for each in value)
    if type(value) is dict:
        return {key: _replaced(each, once) for key, each in value.items()}
    return value
