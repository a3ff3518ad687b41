"""The folder of a trained synthesizer: `model.json` says what it is, `weights.safetensors` has its arrays.

`people.json` is there where the model can recognise people, and `known_jobs.safetensors` where it can tell which
jobs the log has; a model that is given away without them can do the rest.
"""

from __future__ import annotations

import json
import os
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

FORMAT = 5
HEAD, WEIGHTS = "model.json", "weights.safetensors"
KNOWN_PEOPLE, KNOWN_JOBS = "people.json", "known_jobs.safetensors"
_OWN = 0o600


def make_folder(folder: str | Path) -> Path:
    """Return the folder, made if need be. Raises OutputError if a file is in its place."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise OutputError(f"{str(path)!r} is a file", expected="a folder for the model", remedy="Name a folder")
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def second_checkpoint(first: Path) -> Path:
    """Return where a training of two parts keeps its second one, if it keeps the first in `first`."""
    return first.with_name(f"again-{first.name}")


def drop_checkpoints(first: Path) -> None:
    """Remove what a training kept in `first`, and in its second part."""
    for kept in (first, second_checkpoint(first)):
        kept.unlink(missing_ok=True)


def write_model(
    folder: str | Path,
    head: Mapping[str, Any],
    arrays: Mapping[str, NDArray[np.generic]],
    people: Mapping[str, Any] | None = None,
    known_jobs: Mapping[str, NDArray[np.generic]] | None = None,
) -> None:
    """Write a model; nothing takes its place before all is written, and the head comes last.

    Without `people` or `known_jobs`, those of a model that was there before go away.
    """
    path = make_folder(folder)
    with replacing(path / HEAD) as new_head, replacing(path / WEIGHTS) as new_weights:
        new_head.write_text(json.dumps({"format": FORMAT, **head}, indent=1) + "\n")
        new_weights.write_bytes(_bytes_of(arrays))
        _write_own(path / KNOWN_PEOPLE, None if people is None else (json.dumps(people, indent=1) + "\n").encode())
        _write_own(path / KNOWN_JOBS, None if known_jobs is None else _bytes_of(known_jobs))


def _bytes_of(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    return save({name: array.copy() for name, array in arrays.items()})


def _write_own(path: Path, content: bytes | None) -> None:
    """Write a file that nobody else may read; where there is no content, there is no file either."""
    if content is None:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as new:
        new.touch(mode=_OWN)
        new.write_bytes(content)


def read_people(folder: str | Path) -> dict[str, Any] | None:
    """Return the people whom a model can recognise; None where it cannot, or where that is not ours to read.

    Raises InputError if the file is damaged.
    """
    path = Path(folder) / KNOWN_PEOPLE
    try:
        people: dict[str, Any] = json.loads(path.read_text())
        people["key"], people["numbers"]
    except (FileNotFoundError, PermissionError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{str(path)!r} is damaged",
            expected="what `presage synth train` wrote there",
            remedy="Delete it, so that the model recognises nobody, or train it again",
        ) from None
    return people


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


def read_known_jobs(folder: str | Path) -> dict[str, NDArray[Any]] | None:
    """Return the arrays by which a model can tell which jobs the log has; None where `read_people` would say so.

    Raises InputError if the file is damaged.
    """
    path = Path(folder) / KNOWN_JOBS
    return _read_arrays(path) if os.access(path, os.R_OK) else None


def read_arrays(folder: str | Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model. Raises InputError if they are missing or damaged."""
    return _read_arrays(Path(folder) / WEIGHTS)


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{str(path)!r} cannot be read: {error}",
            remedy="Train the synthesizer again with `presage synth train`",
        ) from None
