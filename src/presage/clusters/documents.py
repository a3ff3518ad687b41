"""Systems as documents: TOML for their owners, plain tables for the database and for JSON.

A document has the fields of `presage.clusters.systems.System` under their own names. Partitions, node types and
GPU models are tables under their names:

    name = "lab"
    scheduler = "slurm"

    [node_types.c64]
    cores = 64
    memory_bytes = "240 GiB"

    [partitions.batch]
    node_types = ["c64"]
    limits = { max_walltime_s = "48h" }

A value whose name ends in a unit may be a number in that unit or a text that carries its own.
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from presage.clusters._amounts import parse_amount, readable_amount
from presage.clusters._checks import check_system
from presage.clusters.charges import ChargeRule
from presage.clusters.gpus import GpuModel
from presage.clusters.systems import Limits, NodeType, Partition, Staging, System
from presage.errors import InputError, UsageError, closest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

NAMED_TABLES: dict[str, type] = {"node_types": NodeType, "partitions": Partition, "gpu_models": GpuModel}
"""Fields of a system that are tables of tables, by name."""
TABLES: dict[str, type] = {"limits": Limits, "charge": ChargeRule, "staging": Staging}
"""Fields that are one table, wherever they stand."""
_NOUNS = {"node_types": "node type", "partitions": "partition", "gpu_models": "GPU model"}
_MOST = 10**18
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "dataclass_type": "a table",
}


def read_system(text: str, source: str = "the document", *, trusted: System | None = None) -> System:
    """Return the system that a TOML text describes.

    GPUs and limits that are as in `trusted` are not questioned. Raises InputError that names `source`, the place
    in it and what was expected there.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{source} is not TOML: {reason}", remedy="Correct it there") from None
    return system_of(document, source, trusted=trusted)


def write_system(system: System) -> str:
    """Return a system as TOML that `read_system` turns into the same system; what is as by default is left out."""
    import tomli_w

    return tomli_w.dumps(_table_of(system, readable=True))


def system_of(document: Any, source: str = "the document", *, trusted: System | None = None) -> System:
    """Return the system that a document describes. Raises InputError as `read_system` does."""
    system = _parsed(document, source)
    check_system(system, source, trusted)
    return system


def recalled_system(document: Any, source: str) -> System:
    """Return the system of a document that was checked before; raises InputError if it cannot be a system."""
    system = _parsed(document, source)
    check_system(system, source, trusted=system)
    return system


def document_of(system: System) -> dict[str, Any]:
    """Return a system as plain values that JSON can carry, every field included."""
    return _table_of(system, readable=False)


def place_in_words(place: Sequence[str]) -> str:
    """Return where something stands in a document: "partition 'gpu', limits.max_walltime_s"."""
    if len(place) > 1 and place[0] in _NOUNS:
        inside = f", {'.'.join(place[2:])}" if place[2:] else ""
        return f"{_NOUNS[place[0]]} {place[1]!r}{inside}"
    return ".".join(place)


@cache
def _adapter() -> TypeAdapter[System]:
    from pydantic import TypeAdapter

    return TypeAdapter(System)


def _parsed(document: Any, source: str) -> System:
    from pydantic import ValidationError

    try:
        plain = _plain_table(System, document, (), source)
        return _adapter().validate_json(json.dumps(plain, default=lambda _: {}), strict=True)
    except RecursionError:
        raise InputError(f"{source} is nested too deeply", expected="a system") from None
    except ValidationError as error:
        _refuse(error.errors()[0], plain, source)


def _plain_table(kind: type, content: Any, place: tuple[str, ...], source: str) -> dict[str, Any]:
    """Return a table as pydantic wants it: plain numbers, and named tables as a list."""
    if not isinstance(content, dict):
        _fail(source, place, f"is {_shown(content)}", "a table")
    known = [field.name for field in fields(kind)]
    plain: dict[str, Any] = {}
    for key, value in content.items():
        if key not in known:
            _refuse_key(source, place, key, known)
        where = (*place, key)
        if kind is System and key in NAMED_TABLES:
            plain[key] = _plain_named_tables(key, value, source)
        elif key in TABLES and value is not None:
            plain[key] = _plain_table(TABLES[key], value, where, source)
        else:
            plain[key] = _plain_value(key, value, where, source)
    return plain


def _plain_named_tables(key: str, content: Any, source: str) -> list[dict[str, Any]]:
    if isinstance(content, list):  # of tables that have their name inside, as JSON may come from elsewhere
        named = [(item.get("name") if isinstance(item, dict) else None, item) for item in content]
    elif isinstance(content, dict):
        named = list(content.items())
    else:
        _fail(source, (key,), f"is {_shown(content)}", "tables by name")
    tables = []
    for number, (name, item) in enumerate(named, start=1):
        place = (key, name if isinstance(name, str) else f"number {number}")
        table = _plain_table(NAMED_TABLES[key], item, place, source)
        if table.setdefault("name", name) != name or not isinstance(name, str):
            _fail(source, (*place, "name"), f"is {_shown(table['name'])}", "the name of the table, or nothing")
        tables.append(table)
    return tables


def _plain_value(key: str, value: Any, place: tuple[str, ...], source: str) -> Any:
    try:
        plain = parse_amount(key, value)
    except UsageError as error:
        _fail(source, place, f"is {_shown(value)}", error.expected)
    for number in plain.values() if isinstance(plain, dict) else (plain,):
        if isinstance(number, int | float) and not (math.isfinite(number) and 0 <= number <= _MOST):
            _fail(source, place, f"is {_shown(number)}", "a number from 0 to 10^18")
    return plain


def _table_of(thing: Any, *, readable: bool) -> dict[str, Any]:
    """Return the fields of a thing; readable ones carry units and are left out if they are as by default."""
    is_system = isinstance(thing, System)
    table: dict[str, Any] = {}
    for field in fields(thing):
        value = getattr(thing, field.name)
        if (field.name == "name" and not is_system) or (readable and value == _default_of(field)):
            continue
        if is_system and field.name in NAMED_TABLES:
            table[field.name] = {item.name: _table_of(item, readable=readable) for item in value}
        elif is_dataclass(value):
            table[field.name] = _table_of(value, readable=readable)
        else:
            table[field.name] = _plain(readable_amount(field.name, value) if readable else value)
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value


def _default_of(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _refuse(error: ErrorDetails, plain: dict[str, Any], source: str) -> NoReturn:
    """Raise what pydantic found, in words."""
    place: list[str] = []
    for part in error["loc"]:
        named = isinstance(part, int) and len(place) == 1 and place[0] in NAMED_TABLES
        place.append(plain[place[0]][part]["name"] if named and isinstance(part, int) else str(part))
    if error["type"] == "missing":
        _fail(source, tuple(place), "is missing", "")
    expected = _EXPECTED.get(error["type"]) or error["msg"].removeprefix("Input should be ")
    _fail(source, tuple(place), f"is {_shown(error['input'])}", expected)


def _refuse_key(source: str, place: tuple[str, ...], key: str, known: list[str]) -> NoReturn:
    where = f"{place_in_words(place)} has" if place else "it has"
    near = closest(key, known)
    raise InputError(
        f"{source}: {where} no field {key!r}",
        expected=f"one of {', '.join(name for name in known if name != 'name' or not place)}",
        remedy=f"The closest is {near!r}" if near else "",
    )


def _fail(source: str, place: tuple[str, ...], problem: str, expected: str) -> NoReturn:
    where = place_in_words(place)
    raise InputError(f"{source}: {where} {problem}" if where else f"{source} {problem}", expected=expected)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
