"""A Keras model's own description as plain values, in the dialects of Keras 2 and 3. No torch."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from presage.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MODELS = {"Sequential", "Functional", "Model"}
WRAPPERS = {"Bidirectional", "TimeDistributed"}
_MOST_BYTES = 256 << 20
_DEEPEST = 20
_HDF5 = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Ref:
    """One tensor: which output of which call of which layer."""

    layer: str
    call: int = 0
    output: int = 0


@dataclass(frozen=True)
class Layer:
    """A layer, or a whole model used as one."""

    kind: str
    config: dict[str, Any]
    plan: Plan | None = None


@dataclass(frozen=True)
class LayerCall:
    """One use of a layer."""

    layer: str
    call: int
    inputs: tuple[Ref, ...]
    named: dict[str, Any]
    """Keyword arguments; tensors among them are Ref."""

    def refs(self) -> list[Ref]:
        """Return all tensors that it needs."""
        return [*self.inputs, *(each for each in self.named.values() if isinstance(each, Ref))]


@dataclass(frozen=True)
class Plan:
    """A model: its layers, and their uses in an order in which they can run."""

    layers: dict[str, Layer]
    calls: tuple[LayerCall, ...]
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]


def read_document(content: bytes, place: str) -> dict[str, Any]:
    """Return the description in a JSON file or in a `.keras` archive. Raises InputError."""
    if content.startswith(_HDF5):
        raise InputError(
            f"{place} is an HDF5 file", expected="a model's JSON or a .keras archive",
            remedy="Write it with model.to_json(), or save the model as .keras",
        )  # fmt: skip
    if content.startswith(b"PK"):
        content = _member(content, place)
    try:
        document = json.loads(content)
        # Written with json.dump(model.to_json()), which is a text in a text.
        document = json.loads(document) if isinstance(document, str) else document
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {error}", expected="what model.to_json() gives") from None
    kind = document.get("class_name") if isinstance(document, dict) else type(document).__name__
    if not isinstance(document, dict) or kind not in list(MODELS):
        raise InputError(
            f"{place} describes no model: {kind!r}", expected="the JSON of a Sequential or Functional model",
            remedy="Models that are classes of their own have no description; export them to ONNX",
        )  # fmt: skip
    return document


def make_plan(document: dict[str, Any], depth: int = 0) -> Plan:
    """Return the plan of a model's description. Raises InputError for one that contradicts itself."""
    if depth > _DEEPEST:
        raise InputError(f"A Keras model is nested more than {_DEEPEST} deep")
    config: Any = document.get("config")
    try:
        if document["class_name"] == "Sequential":
            return _sequential(config if isinstance(config, dict) else {"layers": config}, depth)
        return _functional(config, depth)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(
            f"The description of a Keras model cannot be followed: {type(error).__name__} {error}",
            expected="what model.to_json() gives",
        ) from None


def check_kinds(plan: Plan, supported: Iterable[str]) -> None:
    """Raise InputError that names all layers that are not supported, Lambda with the reason."""
    known = set(supported)
    missing = Counter(kind for kind in _kinds(plan) if kind not in known)
    if not missing:
        return
    listed = ", ".join(f"{kind} ({count}x)" for kind, count in sorted(missing.items()))
    why = ". Lambda layers hold code of their own, which is never run" if "Lambda" in missing else ""
    raise InputError(
        f"The Keras model has layers that are not supported: {listed}{why}",
        expected="layers that come with Keras",
        remedy="Export the model to ONNX, or name a PyTorch twin of it: FILE.py:FUNCTION",
    )


def inner_layer(config: dict[str, Any], name: str = "layer") -> Layer:
    """Return the layer that a wrapper holds under that name. Raises InputError if there is none."""
    document = config.get(name)
    if not isinstance(document, dict) or not isinstance(document.get("class_name"), str):
        raise InputError(f"A wrapper of the Keras model says no {name} that it wraps: {document!r:.80}")
    return _layer(document, 1)


def _kinds(plan: Plan) -> Iterator[str]:
    for layer in plan.layers.values():
        inner = layer
        while inner.plan is None and inner.kind in WRAPPERS:
            yield inner.kind
            inner = inner_layer(inner.config)
        if inner.plan is None:
            yield inner.kind
        else:
            yield from _kinds(inner.plan)


def _member(content: bytes, place: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.getinfo("config.json").file_size > _MOST_BYTES:
                raise InputError(f"config.json in {place} is too large")
            return archive.read("config.json")
    except (KeyError, ValueError, OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise InputError(f"{place} is no archive of a Keras model: {error}", expected="a .keras file") from None


def _layer(document: dict[str, Any], depth: int) -> Layer:
    kind, config = document["class_name"], document.get("config") or {}
    if not isinstance(kind, str):
        raise TypeError(f"{kind!r:.80} is no kind of layer")
    plan = make_plan(document, depth + 1) if kind in MODELS else None
    return Layer(kind, config if isinstance(config, dict) else {}, plan)


def _sequential(config: dict[str, Any], depth: int) -> Plan:
    layers: dict[str, Layer] = {}
    calls: list[LayerCall] = []
    last = Ref("input")
    for place, document in enumerate(config["layers"]):
        layer = _layer(document, depth)
        if layer.kind == "InputLayer":
            layers["input"] = layer
            continue
        if place == 0 and shape_of(layer.config) is not None:
            layers["input"] = Layer("InputLayer", {"batch_shape": shape_of(layer.config)})
        name = f"{place}"
        layers[name] = layer
        calls.append(LayerCall(name, 0, (last,), {}))
        last = Ref(name)
    given = config.get("build_input_shape")
    layers.setdefault("input", Layer("InputLayer", {"batch_shape": given} if given else {}))
    return Plan(layers, tuple(calls), (Ref("input"),), (last,))


def shape_of(config: dict[str, Any]) -> list[int | None] | None:
    """Return the shape, batch included, that a layer says its input has."""
    for name in ("batch_shape", "batch_input_shape"):
        if isinstance(config.get(name), list) and config[name]:
            return list(config[name])
    return None


def _functional(config: dict[str, Any], depth: int) -> Plan:
    layers: dict[str, Layer] = {}
    calls: list[LayerCall] = []
    for document in config["layers"]:
        name = document.get("name") or document["config"]["name"]
        layers[name] = _layer(document, depth)
        for place, node in enumerate(document.get("inbound_nodes") or ()):
            inputs, named = _arguments(node)
            if inputs or layers[name].kind != "InputLayer":
                calls.append(LayerCall(name, place, inputs, named))
    inputs = _refs(config["input_layers"])
    return Plan(layers, _in_order(calls, layers), inputs, _refs(config["output_layers"]))


def _arguments(node: Any) -> tuple[tuple[Ref, ...], dict[str, Any]]:
    if isinstance(node, dict):
        named = {name: _tensor(each) or each for name, each in (node.get("kwargs") or {}).items()}
        return tuple(_tensors(node.get("args"))), {
            name: each for name, each in named.items() if isinstance(each, Ref | bool | int | float)
        }
    entries = [node] if node and isinstance(node[0], str) else node
    named = {}
    for entry in entries:
        for name, each in (entry[3] if len(entry) > 3 else {}).items():
            named[name] = Ref(*each[:3]) if _is_ref(each) else each
    return tuple(Ref(*entry[:3]) for entry in entries), {
        name: each for name, each in named.items() if isinstance(each, Ref | bool | int | float)
    }


def _is_ref(value: Any) -> bool:
    return isinstance(value, list) and len(value) in {3, 4} and isinstance(value[0], str) and type(value[1]) is int


def _tensor(value: Any) -> Ref | None:
    if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        return Ref(*value["config"]["keras_history"])
    return None


def _tensors(value: Any) -> Iterator[Ref]:
    found = _tensor(value)
    if found is not None:
        yield found
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _refs(value: Any) -> tuple[Ref, ...]:
    """Return the tensors of a list of triples; Keras 3 writes a single one without the list."""
    if isinstance(value, dict):
        value = list(value.values())
    triples = [value] if value and isinstance(value[0], str) else value
    return tuple(Ref(str(each[0]), int(each[1]), int(each[2])) for each in triples)


def _in_order(calls: list[LayerCall], layers: dict[str, Layer]) -> tuple[LayerCall, ...]:
    """Return the calls so that each comes behind those it needs."""
    made = {(name, 0) for name, layer in layers.items() if layer.kind == "InputLayer"}
    needed_by: dict[tuple[str, int], list[int]] = defaultdict(list)
    missing: list[int] = []
    for place, each in enumerate(calls):
        waits = {(ref.layer, ref.call) for ref in each.refs()} - made
        missing.append(len(waits))
        for wait in waits:
            needed_by[wait].append(place)
    ready = [place for place, count in enumerate(missing) if count == 0]
    ordered: list[LayerCall] = []
    for place in ready:
        ordered.append(calls[place])
        for later in needed_by[(calls[place].layer, calls[place].call)]:
            missing[later] -= 1
            if missing[later] == 0:
                ready.append(later)
    if len(ordered) < len(calls):
        stuck = next(each.layer for place, each in enumerate(calls) if missing[place])
        raise InputError(f"The layer {stuck!r} of a Keras model needs what nothing makes")
    return tuple(ordered)
