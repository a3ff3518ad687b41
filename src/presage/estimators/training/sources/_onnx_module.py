"""A torch module that runs a graph of ONNX."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from presage.errors import InputError
from presage.estimators.training.sources._abstract import is_abstract
from presage.estimators.training.sources._onnx_call import Call, from_numpy, numbers, torch_dtype
from presage.estimators.training.sources._onnx_reading import STATIC_INPUTS, Graph, Node, Weight
from presage.estimators.training.sources.onnx_operators import OPERATORS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALL = 64
_MOST_KNOWN = 1 << 20
"""Constants of more numbers than this take memory like any tensor, and no size can depend on them."""
_FAILURES = (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError, MemoryError)
"""What torch raises for sizes and kinds that do not fit."""
_LOOKS_AT_SIZES_ONLY = {"Shape", "Size"}


class GraphModule(torch.nn.Module):
    """Runs a graph. What depends on sizes alone is computed with real numbers, even where nothing else is."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        self._held = _Held()
        for number, weight in enumerate(graph.weights):
            self._hold(f"{re.sub(r'[^0-9A-Za-z_]', '_', weight.name)}_{number}", weight)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the output of the graph, a tuple if it has several."""
        graph = self._graph
        values: dict[str, Any] = {each.name: given for each, given in zip(graph.inputs, inputs, strict=True)}
        batches = (graph.inputs[0].shape[:1] or (None,))[0], inputs[0].shape[0]
        for position, node in enumerate(graph.nodes):
            try:
                made = self._run(node, values, batches)
            except _FAILURES as error:
                told = " ".join(str(error).split())
                raise InputError(
                    f"The operator {node.operator} {node.name!r} of the graph fails: {told}",
                    remedy="See that the inputs have the shapes that the graph was exported for",
                ) from error
            values.update(zip(node.outputs, made, strict=False))
            for name in graph.last_uses.get(position, ()):
                values.pop(name, None)
        missing = [name for name in graph.outputs if name not in values]
        if missing:
            raise InputError(f"Nothing in the graph makes its output {missing[0]!r}")
        results = tuple(_live(values[name], inputs[0]) for name in graph.outputs)
        return results[0] if len(results) == 1 else results

    def _hold(self, attribute: str, weight: Weight) -> None:
        if weight.role == "constant":
            if weight.values is None:
                raise InputError(
                    f"The constant {weight.name!r} of an ONNX file lies in another file",
                    remedy="Export the graph into one file",
                )
            self._held.constants[weight.name] = weight.values
            if weight.values.size <= _SMALL:
                return
        tensor = torch.zeros(weight.shape, dtype=torch_dtype(weight.dtype))
        if weight.values is not None and not is_abstract(tensor):
            tensor.copy_(from_numpy(weight.values))
        self._held.attributes[weight.name] = attribute
        if weight.role in {"parameter", "gates"}:
            self.register_parameter(attribute, torch.nn.Parameter(tensor))
            if weight.values is not None and weight.values.size <= _SMALL:
                self._held.constants[weight.name] = weight.values
        else:
            self.register_buffer(attribute, tensor)

    def _run(self, node: Node, values: dict[str, Any], batches: tuple[int | None, int]) -> tuple[Any, ...]:
        static = STATIC_INPUTS.get(node.operator, frozenset())
        found = [self._look_up(name, values, place in static) for place, name in enumerate(node.inputs)]
        call = Call(node, self._graph.opset, self.training, batches)
        operator = OPERATORS[node.operator]
        if node.operator in _LOOKS_AT_SIZES_ONLY:
            return (operator(call, found[0]),)
        like = next((each for each in found if isinstance(each, torch.Tensor)), None)
        if node.operator == "ConstantOfShape" and math.prod(numbers(found[0])) > _MOST_KNOWN:
            return (operator(replace(call, device=self._device(values)), found[0]),)
        if like is None:
            with _disable_current_modes(), torch.no_grad():
                made = operator(call, *_arguments(found, static, None))
                return tuple(each.numpy() for each in (made if isinstance(made, tuple) else (made,)))
        made = operator(call, *_arguments(found, static, like))
        return made if isinstance(made, tuple) else (made,)

    def _device(self, values: dict[str, Any]) -> Any:
        tensors = (*(each for each in values.values() if isinstance(each, torch.Tensor)), *self.parameters())
        return next((each.device for each in tensors), "cpu")

    def _look_up(self, name: str, values: dict[str, Any], is_static: bool) -> Any:
        if not name:
            return None
        if name in values:
            found = values[name]
        elif name in self._held.constants and (is_static or name not in self._held.attributes):
            found = self._held.constants[name]
        elif name in self._held.attributes:
            found = getattr(self, self._held.attributes[name])
        else:
            raise ValueError(f"nothing makes its input {name!r}")
        if is_static and isinstance(found, torch.Tensor):
            raise ValueError(f"its input {name!r} depends on what is computed, and must be known before")
        return found


class _Held:
    """What a module keeps of its weights besides tensors; an object, so that no conversion of tensors finds it."""

    def __init__(self) -> None:
        self.constants: dict[str, NDArray[Any]] = {}
        self.attributes: dict[str, str] = {}


def _arguments(found: list[Any], static: frozenset[int], like: torch.Tensor | None) -> list[Any]:
    made: list[Any] = []
    for place, each in enumerate(found):
        if each is None or isinstance(each, torch.Tensor) or place in static:
            made.append(each)
        else:
            made.append(from_numpy(each) if like is None else _live(each, like))
    return made


def _live(value: Any, like: torch.Tensor) -> torch.Tensor:
    """Return known numbers as a tensor beside `like`."""
    if isinstance(value, torch.Tensor):
        return value
    if is_abstract(like):
        return torch.empty(value.shape, dtype=torch_dtype(str(value.dtype)), device=like.device)
    return from_numpy(value).to(like.device)
