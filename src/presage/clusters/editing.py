"""One field of a system, changed by its name: `partitions.gpu.limits.max_walltime_s=48h`."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from presage.clusters.documents import NAMED_TABLES, TABLES, document_of, system_of
from presage.clusters.systems import System
from presage.errors import UsageError, closest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_OPEN = ("policies", "connection", "peak_flops")
_NOTHING = "none"


def set_fields(system: System, assignments: Sequence[str]) -> System:
    """Return a system with other values in some fields, each given as `path=value`.

    A path names tables as in the document, with dots between them; a value is written as in TOML, text also
    without quotes, and `none` empties the field. Raises UsageError for a path that leads nowhere, InputError for a
    value that cannot be.
    """
    document = document_of(system)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise UsageError(
                f"{assignment!r} sets nothing", expected="a path, '=' and a value, like charge.core_hour=0.004"
            )
        _assign(document, path.strip(), text.strip())
    return system_of(document, f"The edited system {system.name!r}", trusted=system)


def _assign(document: dict[str, Any], path: str, text: str) -> None:
    table, rest = document, path
    kind: type = System
    while True:
        known = [field.name for field in fields(kind)]
        key, _, inside = rest.partition(".")
        if key not in known or (key == "name" and kind is System):
            raise _leads_nowhere(path, rest, [name for name in known if name != "name"])
        if kind is System and key in NAMED_TABLES:
            name, inside = _split_name(path, inside, table[key])
            table, kind, rest = table[key][name], NAMED_TABLES[key], inside
        elif key in TABLES and inside:
            table[key] = table[key] or {}
            table, kind, rest = table[key], TABLES[key], inside
        elif key in _OPEN and inside:
            _put(table[key], inside, text, is_text=key != "peak_flops")
            return
        elif inside or (key in TABLES and text != _NOTHING):
            raise _leads_nowhere(
                path, rest, [f"{key}.{f.name}" for f in fields(TABLES[key])] if key in TABLES else [key]
            )
        else:
            _put(table, key, text, is_text=_takes_text(kind, key))
            return


def _put(table: dict[str, Any], key: str, text: str, *, is_text: bool) -> None:
    if text == _NOTHING and is_text:
        table.pop(key, None)
    else:
        table[key] = None if text == _NOTHING else _value(text, is_text=is_text)


def _value(text: str, *, is_text: bool) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (ValueError, RecursionError):
        return text
    plain = isinstance(value, str) if is_text else isinstance(value, str | bool | int | float | list)
    return value if plain else text


def _takes_text(kind: type, key: str) -> bool:
    return any(
        field.name == key and str(field.type) in ("str", "str | None", "Scheduler", "WholeNodes")
        for field in fields(kind)
    )


def _split_name(path: str, rest: str, tables: Iterable[str]) -> tuple[str, str]:
    """Return the name that a path goes on with, which may have dots itself, and what comes behind it."""
    for name in sorted(tables, key=len, reverse=True):
        if rest.startswith(f"{name}."):
            return name, rest.removeprefix(f"{name}.")
    raise _leads_nowhere(path, rest.partition(".")[0], list(tables))


def _leads_nowhere(path: str, part: str, known: list[str]) -> UsageError:
    near = closest(part, known)
    return UsageError(
        f"There is no {path!r} to set",
        expected=f"one of {', '.join(known)} in the place of {part!r}",
        remedy=f"The closest is {near!r}" if near else "",
    )
