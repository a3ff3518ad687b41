"""A network as an exported graph: `onnx:model.onnx`, run operator by operator so that it can be trained again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.errors import InputError
from presage.estimators.training.sources._base import (
    Example,
    InputForm,
    ModelSource,
    digest_of,
    path_of,
    read_bytes,
)
from presage.estimators.training.sources._onnx_fusing import fuse
from presage.estimators.training.sources._onnx_reading import (
    GraphInput,
    check_operators,
    read_graph,
    require_onnx,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

_MOST_BYTES = 8 << 30
_FOR_INFERENCE = (
    "The graph has convolutions and no normalization: if it was exported for inference, the network that is "
    "trained is another one."
)


class OnnxGraph(ModelSource):
    """An ONNX file. Its floating-point weights are trained; an open first size of an input is the batch."""

    def __init__(
        self, spec: str, forms: tuple[InputForm, ...] = (), options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(spec, forms, options)
        require_onnx()
        if self.options:
            raise InputError(f"An ONNX graph takes no arguments, but {', '.join(self.options)} was given")
        content = read_bytes(path_of(spec), most_bytes=_MOST_BYTES)
        self._digest = digest_of("onnx", content)
        self._graph = fuse(read_graph(content, spec))
        self._check_forms()
        operators = {node.operator for node in self._graph.nodes}
        if "Conv" in operators and not any(name.endswith("Normalization") for name in operators):
            self.notes = (_FOR_INFERENCE,)

    @property
    def digest(self) -> str:
        return self._digest

    def build(self) -> torch.nn.Module:
        from presage.estimators.training.sources._onnx_module import GraphModule
        from presage.estimators.training.sources.onnx_operators import OPERATORS

        check_operators(self._graph, self.spec, OPERATORS)
        return GraphModule(self._graph).train()

    def example_inputs(self, batch: int) -> Example:
        inputs = self._graph.inputs
        fixed = {each.shape[0] for each in inputs if each.shape and each.shape[0] is not None} - {batch}
        if fixed:
            told = f"The graph was exported for batches of {min(fixed)}; here it runs with another size."
            self.notes = tuple(dict.fromkeys((*self.notes, told)))
        return tuple(_example(each, self._form(place), batch) for place, each in enumerate(inputs)), {}

    def _form(self, place: int) -> InputForm | None:
        return self.forms[place] if self.forms else None

    def _check_forms(self) -> None:
        inputs = self._graph.inputs
        if self.forms and len(self.forms) != len(inputs):
            raise InputError(
                f"The graph {self.spec} takes {len(inputs)} inputs, and {len(self.forms)} shapes were given",
                expected=f"shapes, without the batch, of {', '.join(_described(each) for each in inputs)}",
            )
        unknown = [each for each in inputs if not self.forms and None in each.shape[1:]]
        if unknown:
            listed = ", ".join(_described(each) for each in unknown)
            raise InputError(
                f"The graph {self.spec} leaves open how large {listed} is",
                expected="the shape of each input, without the batch",
                remedy="Name the shapes, for example 3x224x224",
            )


def _example(given: GraphInput, form: InputForm | None, batch: int) -> torch.Tensor:
    import torch

    from presage.estimators.training.sources._onnx_call import torch_dtype

    shape = form.shape if form else tuple(size or 1 for size in given.shape[1:])
    dtype = torch_dtype(given.dtype)
    if dtype.is_floating_point:
        return torch.zeros((batch, *shape), dtype=dtype)
    below = form.below if form and form.below else given.below
    return torch.randint(below, (batch, *shape)).to(dtype)


def _described(given: GraphInput) -> str:
    return f"{given.name} ({'x'.join('?' if size is None else str(size) for size in given.shape)})"
