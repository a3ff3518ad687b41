"""What an operator of a graph sees besides its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from presage.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from presage.estimators.training.sources._onnx_reading import Node


@dataclass(frozen=True)
class Call:
    """One node at the time it runs."""

    node: Node
    opset: int
    training: bool
    batches: tuple[int | None, int]
    """The batch that the graph was exported for, None if it is open, and the one that it runs with."""
    device: Any = "cpu"
    """Where tensors are made that no input is made of."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the node."""
        return self.node.attributes.get(name, default)

    def dtype(self, name: str) -> str:
        """Return the name of the type that an attribute gives by its number."""
        import onnx

        found = str(onnx.TensorProto.DataType.Name(self.get(name))).lower()
        return {"float": "float32", "double": "float64"}.get(found, found)

    def with_batch(self, shape: list[int], first: int) -> list[int]:
        """Return a written-down shape with the batch that runs now, where it holds the one of the export.

        `first` is the first size of what is given that shape.
        """
        exported, now = self.batches
        if exported is not None and exported != now and shape and shape[0] == exported and first == now:
            return [now, *shape[1:]]
        return shape


def numbers(values: Any) -> list[Any]:
    """Return what an array or a tensor holds, in one list of plain numbers."""
    return list(np.asarray(values).reshape(-1).tolist())


def torch_dtype(name: str) -> torch.dtype:
    """Return torch's type of that name. Raises InputError for one that it does not compute with."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or name.startswith(("uint16", "uint32", "uint64")):
        raise InputError(f"Numbers of the type {name} in a graph are not supported")
    return found


def from_numpy(values: NDArray[Any]) -> torch.Tensor:
    """Return an array as a tensor of its own."""
    return torch.from_numpy(np.array(values))
