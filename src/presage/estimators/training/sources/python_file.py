"""A network that a function of the user's own makes: `train.py:build_model?layers=12`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.errors import InputError, UnreadableSourceError, closest
from presage.estimators.training.sources._base import (
    Example,
    InputForm,
    ModelSource,
    canonical,
    digest_of,
    path_of,
    read_bytes,
)
from presage.estimators.training.sources._imports import local_files, names_of, parse
from presage.estimators.training.sources._user_code import explain, running_user_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    import torch

_MOST_BYTES = 16 << 20


class PythonFile(ModelSource):
    """A function that takes no arguments, or those given in the spec.

    It returns a module, or (module, loss), or (module, loss, inputs). A loss of torch's own gets made-up targets;
    a function gets the outputs, and the inputs if it takes two arguments. `inputs` is a function of the batch
    size, or tensors whose first dimension is the batch: one tensor, a tuple of positional or a dictionary of
    keyword ones.
    """

    def __init__(
        self, spec: str, forms: tuple[InputForm, ...] = (), options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(spec, forms, options)
        where, separator, self._function = spec.rpartition(":")
        if not separator or not where or not self._function.isidentifier():
            raise InputError(
                f"{spec!r} names no function", expected="FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION",
                remedy="Name the function that returns your network, for example train.py:build_model",
            )  # fmt: skip
        self._path, self._root, self._module_name = _locate(where)
        content = read_bytes(self._path, most_bytes=_MOST_BYTES)
        tree = parse(content, self._path)
        self._check_name(names_of(tree))
        self._files = local_files(self._path, self._root)
        self._module: ModuleType | None = None
        self._loss: Callable[..., Any] | None = None
        self._inputs: Any = None

    @property
    def digest(self) -> str:
        parts: list[bytes | str] = ["file", self._function, canonical(self.options)]
        for path in self._files:
            parts += [str(path.relative_to(self._root)), read_bytes(path, most_bytes=_MOST_BYTES)]
        return digest_of(*parts)

    def build(self) -> torch.nn.Module:
        import torch

        function = self._find_function()
        self._check_arguments(function)
        with running_user_code(self._argv(), self.explain, f"calling {self._function}"):
            made = function(**self.options)
        parts = made if isinstance(made, tuple | list) else (made,)
        if not 1 <= len(parts) <= 3 or not isinstance(parts[0], torch.nn.Module):
            raise self._wrong(
                f"{self._function} returned {_described(made)}",
                "a torch.nn.Module, or (module, loss), or (module, loss, inputs)",
            )
        module, self._loss, self._inputs = (*parts, None, None)[:3]
        if self._loss is not None and not callable(self._loss):
            raise self._wrong(f"The loss that {self._function} returned is {_described(self._loss)}", "a function")
        return module.train()

    def example_inputs(self, batch: int) -> Example:
        if self._inputs is None:
            return super().example_inputs(batch)
        inputs = self._inputs
        if callable(inputs):
            with running_user_code(self._argv(), self.explain, "making inputs"):
                inputs = inputs(batch)
        else:
            inputs = _with_batch(inputs, batch)
        if isinstance(inputs, dict):
            return (), inputs
        return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), {}

    def loss(self, outputs: Any, inputs: Example) -> torch.Tensor | None:
        if self._loss is None:
            return None
        import torch

        from presage.estimators.training.sources._losses import call_loss

        with running_user_code(self._argv(), self.explain, "computing the loss"):
            loss = call_loss(self._loss, outputs, inputs)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise self._wrong(f"The loss is {_described(loss)}", "a tensor with one number")
        return loss.reshape(())

    def explain(self, error: BaseException, doing: str) -> InputError:
        """Return `error` with the lines of the user's files on the way to it."""
        return explain(error, doing, self._root)

    def _argv(self) -> list[str]:
        return [str(self._path)]

    def _find_function(self) -> Callable[..., Any]:
        if self._module is None:
            with running_user_code(self._argv(), self.explain, f"importing {self._path.name}"):
                self._module = _import(self._path, self._root, self._module_name, self.digest)
        function = getattr(self._module, self._function, None)
        if function is None:
            self._check_name(set(vars(self._module)))
        if not callable(function):
            raise self._wrong(f"{self._function} in {self._path.name} is {_described(function)}", "a function")
        return function

    def _check_name(self, names: set[str] | None) -> None:
        if names is None or self._function in names:
            return
        near = closest(self._function, names)
        public = sorted(name for name in names if not name.startswith("_"))
        raise InputError(
            f"{self._path.name} defines nothing named {self._function!r}",
            expected=f"one of {', '.join(public[:12])}" if public else "a function that returns the network",
            remedy=f"Did you mean {self._path.name}:{near}?"
            if near
            else "Add a function that returns your network",
        )

    def _check_arguments(self, function: Callable[..., Any]) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(**self.options)
        except TypeError as error:
            raise InputError(
                f"{self._function} cannot be called with {canonical(self.options)}: {error}{_line_of(function)}",
                expected=f"arguments that fit {self._function}{signature}",
                remedy=f"Give them after a question mark: {self._path.name}:{self._function}?NAME=VALUE&…",
            ) from None

    def _wrong(self, problem: str, expected: str) -> InputError:
        function = getattr(self._module, self._function, None)
        return InputError(problem + (_line_of(function) if function else ""), expected=expected)


def _locate(where: str) -> tuple[Path, Path, str]:
    """Return the file, the folder that its imports start from, and the module's name (empty for a plain file)."""
    path = path_of(where)
    if path.suffix == ".py" or "/" in where:
        path = path if path.suffix == ".py" or path.exists() else path.with_suffix(".py")
        if not path.is_file():
            raise UnreadableSourceError(
                f"{path} does not exist", expected="a Python file",
                remedy=_similar_file(path),
            )  # fmt: skip
        path = path.resolve()
        return path, path.parent, ""
    _add_to_path(Path.cwd())
    try:
        found = importlib.util.find_spec(where)
    # The packages that it lies in are imported for this, and are anybody's code.
    except Exception:  # noqa: BLE001
        found = None
    if found is None or not found.origin or not found.origin.endswith(".py"):
        raise InputError(
            f"There is no Python module named {where!r}", expected="FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION",
            remedy=f"If it is a file, name it {where}.py:FUNCTION",
        )  # fmt: skip
    path = Path(found.origin).resolve()
    depth = where.count(".") + (path.name == "__init__.py")
    return path, path.parents[depth], where


def _similar_file(path: Path) -> str:
    try:
        near = closest(path.name, [each.name for each in path.parent.glob("*.py")])
    except OSError:
        near = None
    return f"Did you mean {path.with_name(near)}?" if near else "Name it from the folder you are in"


def _import(path: Path, root: Path, module_name: str, digest: str) -> ModuleType:
    _add_to_path(root)
    if module_name:
        return importlib.import_module(module_name)
    # Not its own name: two files named train.py may be loaded one after the other, and "__main__" would train.
    name = f"presage_source_{digest[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _with_batch(given: Any, batch: int) -> Any:
    """Return tensors like the given ones with another batch, made anew so that they suit any mode and device."""
    import torch

    if isinstance(given, torch.Tensor):
        if given.dim() == 0:
            return torch.zeros((), dtype=given.dtype)
        return torch.zeros((batch, *given.shape[1:]), dtype=given.dtype)
    if isinstance(given, dict):
        return {name: _with_batch(each, batch) for name, each in given.items()}
    if isinstance(given, tuple | list):
        return type(given)(_with_batch(each, batch) for each in given)
    return given


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {', '.join(type(each).__name__ for each in value) or 'nothing'}"
    return "nothing (None)" if value is None else f"a {type(value).__name__}"


def _line_of(function: Any) -> str:
    try:
        lines, first = inspect.getsourcelines(function)
        file = Path(inspect.getsourcefile(function) or "").name
    except (OSError, TypeError):
        return ""
    shown = next((line for line in lines if line.lstrip().startswith(("def ", "class ", "async "))), lines[0])
    return f" ({file}, line {first + lines.index(shown)}: {shown.strip()})"
