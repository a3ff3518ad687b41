"""Operators that an exporter took apart, put together again: apart, they keep more for the way back.

Older sets of ONNX have neither SiLU nor GELU. A network that has them is exported as a sigmoid and a product, or
as an error function with its sums and products, each with a tensor of its own that training would have to keep.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from presage.estimators.training.sources._onnx_reading import Graph, Node, last_uses

if TYPE_CHECKING:
    from collections.abc import Callable

SILU = "presage:Silu"


def fuse(graph: Graph) -> Graph:
    """Return the same graph with its SiLUs and GELUs as one operator each."""
    nodes = _Nodes(graph)
    for node in graph.nodes:
        if node.operator == "Sigmoid" and len(node.inputs) == 1:
            nodes.fuse_silu(node)
        elif node.operator == "Erf" and len(node.inputs) == 1:
            nodes.fuse_gelu(node)
    kept = tuple(nodes.replaced.get(id(node), node) for node in graph.nodes if id(node) not in nodes.dropped)
    return Graph(
        kept, graph.weights, graph.inputs, graph.outputs, graph.opset, last_uses(list(kept), graph.outputs)
    )


class _Nodes:
    def __init__(self, graph: Graph) -> None:
        self.constants = {each.name: each.values for each in graph.weights if each.role == "constant"}
        self.makers = {name: node for node in graph.nodes for name in node.outputs}
        self.users: dict[str, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            for name in node.inputs:
                self.users[name].append(node)
        self.outputs = set(graph.outputs)
        self.dropped: set[int] = set()
        self.replaced: dict[int, Node] = {}

    def fuse_silu(self, sigmoid: Node) -> None:
        """Make x * sigmoid(x) one."""
        given = sigmoid.inputs[0]
        product = self._next(sigmoid, "Mul", lambda other: other == given)
        if product is not None:
            self._replace([sigmoid], product, SILU, given)

    def fuse_gelu(self, error: Node) -> None:
        """Make (x * (1 + erf(x / sqrt 2))) * 0.5 one."""
        scaled = self.makers.get(error.inputs[0])
        if scaled is None or scaled.operator not in {"Div", "Mul"} or len(scaled.inputs) != 2:
            return
        if len(self.users[scaled.outputs[0]]) != 1:
            return
        given, factor = scaled.inputs
        wanted = 2**0.5 if scaled.operator == "Div" else 0.5**0.5
        raised = self._next(error, "Add", lambda other: self._is(other, 1.0))
        product = raised and self._next(raised, "Mul", lambda other: other == given)
        halved = product and self._next(product, "Mul", lambda other: self._is(other, 0.5))
        if raised and product and halved and self._is(factor, wanted):
            self._replace([scaled, error, raised, product], halved, "Gelu", given)

    def _next(self, node: Node, operator: str, accepts: Callable[[str], bool]) -> Node | None:
        """Return the only user of a node, if it is such an operator with an acceptable other input."""
        if not node.outputs:
            return None
        users = self.users[node.outputs[0]]
        if len(users) != 1 or users[0].operator != operator or node.outputs[0] in self.outputs:
            return None
        others = [name for name in users[0].inputs if name != node.outputs[0]]
        return users[0] if len(others) == 1 and accepts(others[0]) else None

    def _is(self, name: str, number: float) -> bool:
        values = self.constants.get(name)
        return (
            values is not None and values.size == 1 and bool(np.isclose(values.reshape(-1)[0], number, rtol=1e-3))
        )

    def _replace(self, apart: list[Node], last: Node, operator: str, given: str) -> None:
        self.dropped |= {id(node) for node in apart}
        self.replaced[id(last)] = Node(operator, last.name, (given,), last.outputs, {})
