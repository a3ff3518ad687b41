"""A network by a Keras model's own description: `keras:model.json` or `keras:model.keras`. No TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from presage.errors import InputError
from presage.estimators.training.sources._base import (
    Example,
    InputForm,
    ModelSource,
    canonical,
    digest_of,
    path_of,
    read_bytes,
)
from presage.estimators.training.sources._keras_reading import (
    Plan,
    Ref,
    check_kinds,
    make_plan,
    read_document,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

_MOST_BYTES = 8 << 30


class KerasJson(ModelSource):
    """What `model.to_json()` gives, of Keras 2 or 3, or a `.keras` archive, whose weights are not read."""

    def __init__(
        self, spec: str, forms: tuple[InputForm, ...] = (), options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(spec, forms, options)
        if self.options:
            raise InputError(f"A Keras model takes no arguments, but {', '.join(self.options)} was given")
        path = path_of(spec)
        document = read_document(read_bytes(path, most_bytes=_MOST_BYTES), str(path))
        self._digest = digest_of("keras", canonical([document, [form.shape for form in forms]]))
        self._plan = make_plan(document)
        self._inputs = self._find_inputs()
        self._tell_what_is_left_out()

    @property
    def digest(self) -> str:
        return self._digest

    def build(self) -> torch.nn.Module:
        from presage.estimators.training.sources._keras_network import LAYERS, make_network

        check_kinds(self._plan, {*LAYERS, "InputLayer"})
        return make_network(self._plan, [form.shape for form in self._inputs]).train()

    def example_inputs(self, batch: int) -> Example:
        return tuple(form.tensor(batch) for form in self._inputs), {}

    def _find_inputs(self) -> tuple[InputForm, ...]:
        refs = self._plan.inputs
        if self.forms and len(self.forms) != len(refs):
            raise InputError(
                f"The Keras model {self.spec} takes {len(refs)} inputs, and {len(self.forms)} shapes were given",
                expected="one shape for each, without the batch",
            )
        return tuple(self._input(ref, place) for place, ref in enumerate(refs))

    def _input(self, ref: Ref, place: int) -> InputForm:
        config = self._plan.layers[ref.layer].config if ref.layer in self._plan.layers else {}
        below = _table_size(self._plan, ref)
        if self.forms:
            return InputForm(self.forms[place].shape, self.forms[place].below or below)
        shape = shape_of(config)
        sizes = [] if shape is None else shape[1:]
        if shape is None or not all(isinstance(size, int) and size > 0 for size in sizes):
            raise InputError(
                f"The Keras model {self.spec} leaves open how large its input {ref.layer!r} is: {shape}",
                expected="the shape of each input, without the batch",
                remedy="Name the shapes, for example 224x224x3",
            )
        is_whole = str(config.get("dtype", "")).startswith(("int", "uint"))
        return InputForm(tuple(int(size) for size in sizes if size), below or (2 if is_whole else None))

    def _tell_what_is_left_out(self) -> None:
        kinds = {layer.kind for layer in self._plan.layers.values()}
        changed = sorted(kind for kind in kinds if kind.startswith("Random") and kind != "RandomNormal")
        if changed:
            self.notes = (
                f"Layers that vary their inputs at random pass them on as they are: {', '.join(changed)}.",
            )


def _table_size(plan: Plan, ref: Ref) -> int | None:
    """Return how many rows the smallest table has that an input is looked up in; None if it is not."""
    sizes = []
    for call in plan.calls:
        layer = plan.layers.get(call.layer)
        if ref not in call.inputs or layer is None:
            continue
        if layer.kind == "Embedding" and isinstance(layer.config.get("input_dim"), int):
            sizes.append(layer.config["input_dim"])
        elif layer.plan is not None:
            inner = _table_size(layer.plan, layer.plan.inputs[call.inputs.index(ref)])
            sizes += [] if inner is None else [inner]
    return min(sizes, default=None)
