"""Systems as texts: files that are read and written, and the editor."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import InputError, PresageError, UnreadableSourceError, UsageError

if TYPE_CHECKING:
    from presage.clusters import System

STANDARD = "-"
_MOST_BYTES = 20_000_000


def read_systems(names: list[str]) -> list[System]:
    """Return the systems of files, all of them or none. Raises InputError."""
    from presage.clusters.documents import read_system, system_of

    systems = []
    for name in names:
        source = "standard input" if name == STANDARD else name
        text = _text_of(name)
        if text.lstrip().startswith("{"):  # no TOML begins so
            systems.append(system_of(_json_of(text, source), source))
        else:
            systems.append(read_system(text, source))
    return systems


def write_systems(systems: dict[str, System], out: Path, *, into_folder: bool) -> dict[str, str]:
    """Write systems as TOML, each whole or not at all, and return the file of each. Raises OutputError."""
    from presage.clusters.documents import write_system
    from presage.traces.files import replacing, writing

    if into_folder:
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
    written = {}
    for name, system in systems.items():
        place = out / f"{name}.toml" if into_folder else out
        with replacing(place) as partial:
            partial.write_text(write_system(system), encoding="utf-8")
        written[name] = str(place)
    return written


def edited(system: System) -> tuple[System, Path]:
    """Return a system as a person has left it in their editor, and the file with their text.

    Raises UsageError if there is no editor or it fails, InputError if the text is no longer a system of this name;
    the file is kept then, and the message says where.
    """
    from presage.clusters.documents import read_system, write_system

    descriptor, name = tempfile.mkstemp(prefix=f"presage-{system.name}-", suffix=".toml")
    place = Path(name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(write_system(system))
    _run_editor(place)
    try:
        changed = read_system(_text_of(name), name, trusted=system)
        if changed.name != system.name:
            raise InputError(f"{name}: name is {changed.name!r}", expected=f"{system.name!r}, as it was")
    except PresageError as error:
        raise kept(error, place) from None
    return changed, place


def kept(error: PresageError, place: Path) -> PresageError:
    """Return an error that also says where the person's text is."""
    hint = f"{error.remedy}. " if error.remedy else ""
    remedy = f"{hint}Your text is kept in {place}: correct it and run `presage systems import {place}`"
    kind = type(error) if isinstance(error, InputError) else InputError
    return kind(error.problem, expected=error.expected, remedy=remedy)


def _run_editor(place: Path) -> None:
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not words and not (sys.stdin.isatty() and sys.stdout.isatty()):
        place.unlink()
        raise UsageError(
            "There is no terminal for an editor",
            remedy="Change single values with --set, like --set charge.core_hour=0.01",
        )
    words = words or "vi"
    try:
        command = shlex.split(words)
        done = subprocess.run([*command, str(place)], check=False)  # noqa: S603  (the person's own choice)
    except (OSError, ValueError) as error:
        place.unlink()
        raise UsageError(
            f"The editor {words!r} cannot be started: {error}",
            remedy="Name yours in the variable EDITOR, or change single values with --set",
        ) from None
    if done.returncode:
        raise UsageError(
            f"The editor {words!r} ended with {done.returncode}; the system is as it was, your text is in {place}"
        )


def _text_of(name: str) -> str:
    try:
        if name == STANDARD:
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UnreadableSourceError(f"{name} is too long for a system", expected="at most 20 MB")
        return data.decode("utf-8")
    except FileNotFoundError:
        raise UnreadableSourceError(f"There is no file {name!r}", remedy="Check the name") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UnreadableSourceError(f"{name} cannot be read: {reason}") from None


def _json_of(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON: {error}", remedy="Correct it there") from None
