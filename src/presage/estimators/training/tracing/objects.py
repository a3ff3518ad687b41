"""A network that exists already as a Python object, in the shape of a model source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from presage.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable


class ObjectSource:
    """A module, or a function that makes one, with inputs: a function of the batch size, or examples of them.

    Of examples, the first dimension of every tensor is taken as the batch. A tuple or list is positional
    arguments, a dictionary named ones. `loss` takes the outputs.
    """

    def __init__(self, network: Any, inputs: Any, loss: Callable[[Any], Any] | None) -> None:
        self.notes: tuple[str, ...] = ()
        self._network = network
        self._inputs = inputs
        self._loss = loss

    def build(self) -> torch.nn.Module:
        """Return the module. Raises InputError where none is made, or making it fails."""
        made = self._network
        if not isinstance(made, torch.nn.Module) and callable(made):
            try:
                made = made()
            except Exception as error:
                raise self.explain(error, "building the network") from error
        if not isinstance(made, torch.nn.Module):
            raise InputError(
                f"The network is a {type(made).__name__}",
                expected="a torch.nn.Module, or a function that makes one",
            )
        return made

    def example_inputs(self, batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments of a forward pass with this batch."""
        given = self._inputs(batch) if callable(self._inputs) else _with_batch(self._inputs, batch)
        if isinstance(given, dict):
            return (), given
        return tuple(given) if isinstance(given, tuple | list) else (given,), {}

    def loss(self, outputs: Any, inputs: Any) -> torch.Tensor | None:
        """Return the loss of the outputs, None where nobody gave one."""
        del inputs
        if self._loss is None:
            return None
        loss = self._loss(outputs)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise UsageError(f"The loss is a {type(loss).__name__}", expected="a tensor with one number")
        return loss.reshape(())

    def explain(self, error: BaseException, doing: str) -> InputError:
        """Return the error with what was being done."""
        text = " ".join(str(error).split())[:600]
        return InputError(
            f"{type(error).__name__}: {text}, while {doing}",
            remedy="See that the shapes and kinds of the inputs are those that the network takes",
        )


def _with_batch(given: Any, batch: int) -> Any:
    if isinstance(given, torch.Tensor):
        return torch.empty((batch, *given.shape[1:]) if given.dim() else (), dtype=given.dtype)
    if isinstance(given, dict):
        return {name: _with_batch(each, batch) for name, each in given.items()}
    if isinstance(given, tuple | list):
        return type(given)(_with_batch(each, batch) for each in given)
    return given
