"""Checkpoints of a training: nested states of tensors, numbers and words in one safetensors file, never a pickle.

A state is what `state_dict()` of a module, an optimizer or a schedule gives: dictionaries, lists, tuples, torch
tensors, numpy arrays, numbers, words and None. It comes back equal; tensors come back on the processor. A file
appears under its name only when it is complete; a damaged one is passed over for the one before it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from presage.errors import InputError, OutputError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

FORMAT = "1"
KEPT = 2
"""Complete checkpoints that are kept: the latest, and one in case that it is damaged."""
_NAME = re.compile(r"checkpoint-(\d{6,})\.safetensors")
_AS_BITS = {"bfloat16": ("int16", np.int16), "float8_e4m3fn": ("int8", np.int8), "float8_e5m2": ("int8", np.int8)}
"""Types that numpy does not have, and those that carry their bits."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """What a file has: how far the training was, and the states by name."""

    number: int
    position: dict[str, Any]
    states: dict[str, Any]
    path: Path


def save_checkpoint(folder: Path, position: dict[str, Any], states: dict[str, Any]) -> Path:
    """Write the next checkpoint and return its file; all but the last KEPT go away. Raises OutputError."""
    from safetensors.numpy import save

    packing = _Packing()
    structure = {name: packing.pack(state, name) for name, state in states.items()}
    head = {"format": FORMAT, "position": json.dumps(position), "structure": json.dumps(structure)}
    content = save(packing.arrays or {"none": np.zeros(1, np.int8)}, head)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        earlier = _numbered(folder)
        path = folder / f"checkpoint-{(earlier[-1][0] if earlier else 0) + 1:06d}.safetensors"
        _write_whole(path, content)
    except OSError as error:
        raise OutputError(
            f"The checkpoint cannot be written to {str(folder)!r}: {error.strerror or error}",
            remedy="Check the space and the rights there",
        ) from None
    for _, old in earlier[: len(earlier) + 1 - KEPT]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the latest checkpoint that is whole, None if there is none.

    Raises InputError if there are some and none can be read: to begin anew then would lose work silently.
    """
    found = _numbered(folder)
    for number, path in reversed(found):
        try:
            return _read(number, path)
        except (ValueError, KeyError, OSError) as error:
            log.warning("The checkpoint %s is damaged (%s); the one before it is taken", path, error)
    if found:
        raise InputError(
            f"None of the {len(found)} checkpoints in {str(folder)!r} can be read",
            remedy="Restore one of them, or remove them to begin anew",
        )
    return None


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted((int(match[1]), path) for match, path in matches if match)


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all, also after a power cut."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _read(number: int, path: Path) -> Checkpoint:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            head = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    if head.get("format") != FORMAT:
        raise ValueError(f"its format is {head.get('format')!r}, not {FORMAT!r}")
    structure = json.loads(head["structure"])
    states = {name: _unpack(node, arrays) for name, node in structure.items()}
    return Checkpoint(number, json.loads(head["position"]), states, path)


@dataclass
class _Packing:
    """Takes the arrays out of a nested state and leaves a tree that JSON can hold."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def pack(self, state: Any, place: str) -> Any:
        if isinstance(state, dict):
            items = [[self.pack(key, place), self.pack(each, f"{place}.{key}")] for key, each in state.items()]
            return {"dict": items}
        if isinstance(state, list | tuple):
            parts = [self.pack(each, f"{place}[{index}]") for index, each in enumerate(state)]
            return {"tuple" if isinstance(state, tuple) else "list": parts}
        if state is None or isinstance(state, bool | int | float | str):
            return {"value": state}
        if isinstance(state, np.generic):
            return self.pack(state.item(), place)
        if isinstance(state, np.ndarray) and state.dtype.kind in "biuf":
            return {"array": self._put(state)}
        if _is_tensor(state):
            return self._pack_tensor(state)
        raise OutputError(
            f"A checkpoint cannot hold {place}, a {type(state).__name__}",
            expected="dictionaries, lists, tensors, arrays, numbers and words",
            remedy="Leave it out of state_dict()",
        )

    def _pack_tensor(self, tensor: Any) -> dict[str, str]:
        kind = str(tensor.dtype).removeprefix("torch.")
        plain = tensor.detach().cpu().contiguous()
        if kind in _AS_BITS:
            plain = plain.view(getattr(sys.modules["torch"], _AS_BITS[kind][0]))
        return {"tensor": self._put(plain.numpy()), "kind": kind}

    def _put(self, array: NDArray[Any]) -> str:
        name = str(len(self.arrays))
        # Copied, so that a training that goes on cannot change what is being written.
        self.arrays[name] = np.array(array, order="C")
        return name


def _unpack(node: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    if "dict" in node:
        return {_unpack(key, arrays): _unpack(each, arrays) for key, each in node["dict"]}
    if "list" in node:
        return [_unpack(each, arrays) for each in node["list"]]
    if "tuple" in node:
        return tuple(_unpack(each, arrays) for each in node["tuple"])
    if "array" in node:
        return arrays[node["array"]]
    if "tensor" in node:
        return _tensor(arrays[node["tensor"]], node["kind"])
    return node["value"]


def _is_tensor(state: Any) -> bool:
    # Without importing torch: where there is a tensor, it has been imported.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(state, torch.Tensor)


def _tensor(array: NDArray[Any], kind: str) -> Any:
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(getattr(torch, kind)) if kind in _AS_BITS else tensor
