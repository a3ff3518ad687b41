"""The contract of a model source, the kinds there are, and the door to them."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from presage.errors import InputError, UnreadableSourceError
from presage.registry import Registry, Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

Example: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a forward pass."""

_LARGEST_DIMENSION = 2**40
_HERE = "presage.estimators.training.sources"


@dataclass(frozen=True)
class InputForm:
    """One input: its shape without the batch and what is in it."""

    shape: tuple[int, ...]
    below: int | None = None
    """Whole numbers from 0 up to, but without, this one; None: fractions."""

    def tensor(self, batch: int) -> torch.Tensor:
        """Return an example; works on any device and in fake mode."""
        import torch

        if self.below is None:
            return torch.zeros((batch, *self.shape))
        return torch.randint(self.below, (batch, *self.shape))


class ModelSource(ABC):
    """One named network.

    `build` is deterministic: the same source gives the same layers each time. It may be called within
    `torch.device("meta")`; a network that cannot be built there raises an InputError, and is built without.
    `example_inputs` and `loss` may be called in fake mode, and hold for the module that was built last.
    """

    def __init__(
        self, spec: str, forms: tuple[InputForm, ...] = (), options: Mapping[str, Any] | None = None
    ) -> None:
        self.spec = spec
        self.forms = forms
        """What the caller said of the inputs; empty: the source has to know."""
        self.options = dict(options or {})
        self.notes: tuple[str, ...] = ()
        """What was assumed, in sentences; complete once `example_inputs` was called."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A hash of what defines the network; the same for the same text, wherever it lies."""

    @abstractmethod
    def build(self) -> torch.nn.Module:
        """Return the network, in training mode. Raises InputError, in the user's terms."""

    def example_inputs(self, batch: int) -> Example:
        """Return arguments of a forward pass. Raises InputError where nobody said what the network takes."""
        if not self.forms:
            raise InputError(
                f"Nothing says what the network {self.spec!r} takes",
                expected="the shape of each input, without the batch",
                remedy="Name it, for example 3x224x224",
            )
        return tuple(form.tensor(batch) for form in self.forms), {}

    def loss(self, outputs: Any, inputs: Example) -> torch.Tensor | None:
        """Return the scalar that is learned from; None leaves the choice to the caller."""
        del outputs, inputs
        return None

    def tie(self, module: torch.nn.Module) -> None:
        """Make shared weights one again after `to_empty`, which gives each its own memory."""
        tie_weights = getattr(module, "tie_weights", None)
        if callable(tie_weights):
            tie_weights()

    def explain(self, error: BaseException, doing: str) -> InputError:
        """Return `error`, met while `doing` ("running the network forward"), as one the user can act on."""
        text = " ".join(str(error).split())
        return InputError(
            f"{type(error).__name__} while {doing}, {self.spec!r}: {text[:600]}",
            remedy="See that the shapes and kinds of the inputs are those that the network takes",
        )


SOURCES: Registry[type[ModelSource]] = Registry(
    "kind of model source",
    "presage.model_sources",
    [
        Spec("file", f"{_HERE}.python_file:PythonFile", "a function of a Python file or module"),
        Spec("hf", f"{_HERE}.hf:HfConfig", "a configuration of transformers", extra="hf"),
        Spec("onnx", f"{_HERE}.onnx_graph:OnnxGraph", "an exported graph", extra="onnx"),
        Spec("keras", f"{_HERE}.keras_json:KerasJson", "a Keras model's own description"),
    ],
)
"""Every kind is built with (where, forms, options)."""

_KIND_OF_SUFFIX = {".onnx": "onnx", ".keras": "keras"}


def load_source(
    spec: str, inputs: tuple[tuple[int, ...], ...] = (), input_kinds: tuple[str, ...] = ()
) -> ModelSource:
    """Return the source that `spec` names. Runs none of its code, but for packages that a named module lies in.

    `inputs` are shapes without the batch, `input_kinds` is `float` or `int:N` for each; sources that know their
    own inputs need neither. Raises InputError for a spec, a shape or a file that cannot be used,
    MissingDependencyError where the kind needs a package that is not installed.
    """
    forms = input_forms(inputs, input_kinds)
    text, _, query = spec.strip().partition("?")
    if not text:
        raise InputError(
            "The name of the network is empty", expected="FILE.py:FUNCTION, hf:CONFIG, onnx:FILE or keras:FILE"
        )
    kind, where = _kind_of(text)
    return SOURCES.get(kind)(where, forms, parse_options(query))


def input_forms(inputs: tuple[tuple[int, ...], ...], kinds: tuple[str, ...]) -> tuple[InputForm, ...]:
    """Return shapes and kinds together. Raises InputError where they do not fit."""
    if kinds and len(kinds) != len(inputs):
        raise InputError(
            f"{len(inputs)} shapes and {len(kinds)} kinds of inputs were given",
            expected="one kind for each shape, or none at all",
        )
    for shape in inputs:
        if any(not 0 < size <= _LARGEST_DIMENSION for size in shape):
            raise InputError(
                f"{'x'.join(map(str, shape))} is no shape of an input",
                expected="sizes of 1 and more, without the batch, like 3x224x224",
            )
    kinds = kinds or ("float",) * len(inputs)
    return tuple(InputForm(tuple(shape), _below(kind)) for shape, kind in zip(inputs, kinds, strict=True))


def parse_options(query: str) -> dict[str, Any]:
    """Return `layers=12&name=small` as a dictionary of JSON values; what is not JSON is text.

    Raises InputError for a part without a name or a value, and for a name given twice.
    """
    options: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        name, separator, value = part.partition("=")
        name = unquote(name).strip()
        if not separator or not name or name in options:
            raise InputError(
                f"{part!r} after the question mark of a model is no new argument",
                expected="each once as NAME=VALUE, joined by &",
            )
        options[name] = _json_or_text(unquote(value))
    return options


def digest_of(*parts: bytes | str) -> str:
    """Return one hash of `parts`, each with its length so that no two lists are alike by chance."""
    hashed = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        hashed.update(len(content).to_bytes(8, "big") + content)
    return hashed.hexdigest()


def canonical(document: Any) -> str:
    """Return JSON that is the same for equal documents."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)


def path_of(text: str) -> Path:
    """Return the path that `text` names; `~` is somebody's home only if there is such a one."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def read_bytes(path: Path, *, most_bytes: int) -> bytes:
    """Return what is in a file. Raises UnreadableSourceError where it is missing, too large, or no file."""
    try:
        if not path.is_file():
            state = "is a folder" if path.is_dir() else "does not exist"
            raise UnreadableSourceError(f"{path} {state}", expected="a file that describes a network")
        if path.stat().st_size > most_bytes:
            raise UnreadableSourceError(f"{path} has more than {most_bytes >> 20} MiB", expected="a smaller file")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise UnreadableSourceError(f"{path} cannot be read: {error}") from None


def read_json(content: bytes, place: str) -> dict[str, Any]:
    """Return the JSON object in `content`. Raises InputError, which speaks of it as `place`."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{place} holds {type(document).__name__}", expected="a JSON object")
    return document


def _kind_of(text: str) -> tuple[str, str]:
    kind, separator, where = text.partition(":")
    if separator and where and "." not in kind and "/" not in kind and kind in SOURCES:
        return kind, where
    return _KIND_OF_SUFFIX.get(Path(text).suffix.lower(), "file"), text


def _below(kind: str) -> int | None:
    name, separator, number = kind.strip().lower().partition(":")
    if name == "float" and not separator:
        return None
    if name == "int" and number.isascii() and number.isdigit() and 0 < int(number) < 2**63:
        return int(number)
    raise InputError(
        f"{kind!r} is no kind of input", expected="float, or int:N for whole numbers below N, like int:30522"
    )


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
