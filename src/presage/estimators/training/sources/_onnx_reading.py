"""An ONNX file as plain values: nodes in order, weights with their roles, inputs with their sizes. No torch."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

_FLOATING = {"float16", "float32", "float64", "bfloat16"}
_OWN_DOMAINS = {"", "ai.onnx"}

_REDUCTIONS = ("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

STATIC_INPUTS: dict[str, frozenset[int]] = {
    name: frozenset(places)
    for name, places in {
        "Clip": (1, 2), "ConstantOfShape": (0,), "CumSum": (1,), "Dropout": (1, 2), "Expand": (1,),
        "GRU": (4,), "LSTM": (4,), "OneHot": (1, 2), "Pad": (1, 2, 3), "RNN": (4,), "Range": (0, 1, 2),
        "Reshape": (1,), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
        "Tile": (1,), "TopK": (1,), "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,),
        **{f"Reduce{each}": (1,) for each in _REDUCTIONS},
    }.items()
}  # fmt: skip
"""Inputs whose values decide sizes: they must be known before anything is computed."""


GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where torch's gates are among those of ONNX."""


@dataclass(frozen=True)
class Node:
    """One operator."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    """Empty for an optional input that is left out."""
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Weight:
    """A tensor that comes with the graph."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: NDArray[Any] | None
    """None where they lie in another file: only the size matters then."""
    role: str
    """`parameter` is trained, and so is `gates`, one that only cells use; `statistic` is a running mean or
    variance, `constant` is none of these."""


@dataclass(frozen=True)
class GraphInput:
    """An input of the whole graph; the first size is the batch."""

    name: str
    shape: tuple[int | None, ...]
    """None for a size that is left open."""
    dtype: str
    below: int
    """For whole numbers: the size of the table that they look up; 2 if they look up none."""


@dataclass(frozen=True)
class Graph:
    """All of a file that is used."""

    nodes: tuple[Node, ...]
    weights: tuple[Weight, ...]
    inputs: tuple[GraphInput, ...]
    outputs: tuple[str, ...]
    opset: int
    last_uses: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """By position of a node: what nothing behind it needs."""


def require_onnx() -> None:
    """Raise MissingDependencyError, which says how to install it, where onnx is not there."""
    if importlib.util.find_spec("onnx") is None:
        raise MissingDependencyError("onnx", extra="onnx", purpose="Reading an exported graph")


def read_graph(content: bytes, place: str) -> Graph:
    """Return the graph in the bytes of a file. Raises InputError for what is no graph."""
    import onnx
    import onnx.inliner

    try:
        model = onnx.load_model_from_string(content)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        return _graph(model, place)
    except InputError:
        raise
    # protobuf and onnx raise what they like for bytes that are none of theirs.
    except Exception as error:  # noqa: BLE001
        raise InputError(f"{place} is no ONNX file: {error}", expected="a file that an exporter wrote") from None


def check_operators(graph: Graph, place: str, supported: Collection[str]) -> None:
    """Raise InputError that names all operators that are not in `supported`."""
    missing: dict[str, int] = defaultdict(int)
    for node in graph.nodes:
        if node.operator not in supported:
            missing[node.operator] += 1
        elif node.operator == "GRU" and not node.attributes.get("linear_before_reset", 0):
            missing["GRU with linear_before_reset=0"] += 1
    if missing:
        listed = ", ".join(f"{name} ({count}x)" for name, count in sorted(missing.items()))
        raise InputError(
            f"{place} uses operators that are not supported: {listed}",
            expected=f"the operators of ordinary networks, {len(supported)} in all",
            remedy="Name the network by the function that builds it instead: FILE.py:FUNCTION",
        )


def _graph(model: Any, place: str) -> Graph:
    if not model.graph.node:
        raise InputError(f"{place} holds no graph", expected="a network with at least one operator")
    nodes = [_node(each) for each in model.graph.node]
    opset = next((each.version for each in model.opset_import if each.domain in _OWN_DOMAINS), 13)
    weights = _weights(model.graph, nodes)
    nodes = [_in_order(node, weights) for node in nodes if node.operator != "Constant"]
    outputs = tuple(each.name for each in model.graph.output)
    return Graph(
        tuple(nodes), tuple(weights), _inputs(model.graph, nodes, weights), outputs, opset,
        last_uses(nodes, outputs),
    )  # fmt: skip


def _node(proto: Any) -> Node:
    import onnx

    names = (proto.name, proto.op_type, *proto.input, *proto.output)
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a name in it is no text")
    operator = proto.op_type if proto.domain in _OWN_DOMAINS else f"{proto.domain}:{proto.op_type}"
    attributes: dict[str, Any] = {}
    for each in proto.attribute:
        value = onnx.helper.get_attribute_value(each)
        if isinstance(value, onnx.TensorProto):
            value = _values(value)
        attributes[each.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return Node(operator, proto.name, tuple(proto.input), tuple(proto.output), attributes)


def _weights(graph: Any, nodes: list[Node]) -> list[Weight]:
    uses: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for node in nodes:
        for place, name in enumerate(node.inputs):
            uses[name].append((node.operator, place))
    found = []
    for tensor in graph.initializer:
        if not isinstance(tensor.name, str):
            raise TypeError("a name in it is no text")
        dtype = _dtype(tensor.data_type)
        role = _role(tuple(tensor.dims), dtype, uses[tensor.name])
        found.append(Weight(tensor.name, tuple(tensor.dims), dtype, _values(tensor), role))
    for node in nodes:
        if node.operator == "Constant":
            values = _constant(node)
            found.append(Weight(node.outputs[0], values.shape, str(values.dtype), values, "constant"))
    return found


def _in_order(node: Node, weights: list[Weight]) -> Node:
    """Return a node of cells marked as having its gates in torch's order, once its weights have them so."""
    order = GATES.get(node.operator)
    names = {name for name in node.inputs[1:4] if name}
    if order is None or not names <= {weight.name for weight in weights if weight.role == "gates"}:
        return node
    for place, weight in enumerate(weights):
        if weight.name in names:
            halves = 2 if weight.name == (*node.inputs, "", "", "")[3] else 1
            weights[place] = replace(weight, values=_reordered(weight, order, halves), role="parameter")
    return replace(node, attributes={**node.attributes, "in_order": 1})


def _reordered(weight: Weight, order: tuple[int, ...], halves: int) -> NDArray[Any] | None:
    if weight.values is None:
        return None
    shape = weight.values.shape
    gates = weight.values.reshape(shape[0], halves, len(order), -1, *shape[2:])
    return gates[:, :, list(order)].reshape(shape)


def _role(shape: tuple[int, ...], dtype: str, uses: list[tuple[str, int]]) -> str:
    if dtype not in _FLOATING or not shape:
        return "constant"
    if any(operator == "BatchNormalization" and place in {3, 4} for operator, place in uses):
        return "statistic"
    if len(uses) == 1 and uses[0][0] in GATES and uses[0][1] in {1, 2, 3}:
        return "gates"
    live = [place for operator, place in uses if place not in STATIC_INPUTS.get(operator, ())]
    return "parameter" if live else "constant"


def _values(tensor: Any) -> NDArray[Any] | None:
    import onnx

    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    values = np.array(onnx.numpy_helper.to_array(tensor))
    return values if values.dtype.kind in "biufc" else values.astype(np.float32)


def _constant(node: Node) -> NDArray[Any]:
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, value in node.attributes.items():
        if name == "value" and value is not None:
            return np.asarray(value)
        if name in kinds:
            return np.asarray(value, dtype=kinds[name])
    raise InputError(
        f"The constant {node.outputs[0]!r} of an ONNX file has no value that can be used",
        expected="numbers, in the file itself",
    )


def _dtype(number: int) -> str:
    import onnx

    name = str(onnx.TensorProto.DataType.Name(number)).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def _inputs(graph: Any, nodes: list[Node], weights: list[Weight]) -> tuple[GraphInput, ...]:
    names = {weight.name for weight in weights}
    found = []
    for each in graph.input:
        if each.name in names:
            continue
        tensor = each.type.tensor_type
        shape = tuple(size.dim_value if size.dim_value > 0 else None for size in tensor.shape.dim)
        dtype = _dtype(tensor.elem_type)
        found.append(GraphInput(each.name, shape, dtype, _table_size(each.name, nodes, weights)))
    return tuple(found)


def _table_size(name: str, nodes: list[Node], weights: list[Weight]) -> int:
    """Return how many rows the smallest table has that the input `name` looks up in."""
    shapes = {weight.name: weight.shape for weight in weights}
    names, sizes = {name}, []
    for node in nodes:
        if node.operator in {"Cast", "Identity"} and node.inputs[0] in names:
            names.add(node.outputs[0])
        elif node.operator == "Gather" and len(node.inputs) > 1 and node.inputs[1] in names:
            shape = shapes.get(node.inputs[0], ())
            axis = node.attributes.get("axis", 0)
            if -len(shape) <= axis < len(shape):
                sizes.append(shape[axis])
    return max(1, min(sizes, default=2))


def last_uses(nodes: list[Node], outputs: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """Return, by position of a node, what nothing behind it needs."""
    last: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in (*node.outputs, *node.inputs):
            last[name] = position
    freed: dict[int, list[str]] = defaultdict(list)
    for name, position in last.items():
        if name and name not in outputs:
            freed[position].append(name)
    return {position: tuple(names) for position, names in freed.items()}
