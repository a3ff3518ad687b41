"""The folder of a trained synthesizer: `model.json` says what it is, `weights.safetensors` has its arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.numpy import load, save

from presage.errors import InputError, OutputError
from presage.traces.files import replacing, writing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

FORMAT = 1
HEAD, WEIGHTS = "model.json", "weights.safetensors"


def make_folder(folder: str | Path) -> Path:
    """Return the folder, made if need be. Raises OutputError if a file is in its place."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise OutputError(f"{str(path)!r} is a file", expected="a folder for the model", remedy="Name a folder")
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def write_model(folder: str | Path, head: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write a model; the head comes last, so that a folder with a head is complete."""
    path = make_folder(folder)
    with replacing(path / WEIGHTS) as partial:
        partial.write_bytes(save({name: array.copy() for name, array in arrays.items()}))
    with replacing(path / HEAD) as partial:
        partial.write_text(json.dumps({"format": FORMAT, **head}, indent=1) + "\n")


def read_head(folder: str | Path) -> dict[str, Any]:
    """Return what a model is. Raises InputError if the folder has none of this format."""
    path = Path(folder) / HEAD
    try:
        head: dict[str, Any] = json.loads(path.read_text())
        head["kind"], head["columns"], head["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"There is no synthesizer in {str(folder)!r}",
            expected=f"a folder with {HEAD} that `presage synth train` wrote",
            remedy="Train one there, or name another folder",
        ) from None
    if head["format"] != FORMAT:
        raise InputError(
            f"The synthesizer in {str(folder)!r} is of another version of Presage",
            expected=f"format {FORMAT}",
            remedy="Train it again with `presage synth train`",
        )
    return head


def read_arrays(folder: str | Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model. Raises InputError if they are missing or damaged."""
    path = Path(folder) / WEIGHTS
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{str(path)!r} cannot be read: {error}",
            remedy="Train the synthesizer again with `presage synth train`",
        ) from None
