"""Kubernetes objects in JSON: where they stand in a file, and their fields with types checked."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from presage.errors import UnreadableSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Source

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BLANKS = re.compile(r"\s*")
_MAX_WHOLE = 2**53
_SHOWN_CHARS = 200


class FieldError(ValueError):
    """A field of an object has the wrong type or a value that cannot be read."""


class Fields:
    """A JSON object. Absent and null fields read as nothing; fields of another type raise FieldError."""

    def __init__(self, value: dict[str, Any], where: str = "") -> None:
        self._value = value
        self._where = where

    def __bool__(self) -> bool:
        return bool(self._value)

    def as_dict(self) -> dict[str, Any]:
        """The object itself."""
        return self._value

    def raw(self, name: str) -> Any:
        """The field as it stands."""
        return self._value.get(name)

    def child(self, *names: str) -> Fields:
        """The object that the path of `names` leads to; empty where the path breaks off."""
        found = self
        for name in names:
            value = found._typed(name, dict, "an object")
            found = Fields(value or {}, found._path(name))
        return found

    def items(self, name: str) -> list[Fields]:
        """The objects of a list."""
        members = self._typed(name, list, "a list") or []
        for member in members:
            if not isinstance(member, dict):
                raise FieldError(f"{self._path(name)} has a member that is no object")
        return [Fields(member, f"{self._path(name)}[{i}]") for i, member in enumerate(members)]

    def text(self, name: str) -> str | None:
        """A text that is not empty."""
        value = self._typed(name, str, "a text")
        return _encodable(value) if value else None

    def texts(self, name: str) -> list[str]:
        """The texts of a list."""
        members = self._typed(name, list, "a list") or []
        return [_encodable(member) for member in members if isinstance(member, str)]

    def tags(self, name: str) -> dict[str, str]:
        """Labels, annotations or a selector: names and texts."""
        value = self._typed(name, dict, "an object") or {}
        return {_encodable(key): _encodable(text) for key, text in value.items() if isinstance(text, str)}

    def names(self) -> list[str]:
        """The names of all fields."""
        return list(self._value)

    def whole(self, name: str) -> int | None:
        """A whole number that is not negative."""
        value = self._typed(name, int, "a whole number")
        if value is not None and (isinstance(value, bool) or not 0 <= value < _MAX_WHOLE):
            raise FieldError(f"{self._path(name)}: {value!r} is no count")
        return value

    def time_ms(self, name: str) -> int | None:
        """A time in RFC 3339 as milliseconds since 1970."""
        text = self.text(name)
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
            since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
        except (ValueError, OverflowError):
            raise FieldError(f"{self._path(name)}: {text[:40]!r} is not a time") from None
        return round(since.total_seconds() * 1000)

    def _typed(self, name: str, kind: type, noun: str) -> Any:
        value = self._value.get(name)
        if value is not None and not isinstance(value, kind):
            raise FieldError(f"{self._path(name)} is not {noun}")
        return value

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


@dataclass(frozen=True)
class Located:
    """An object and where it stands. `deleted` is what a watch says of it."""

    kind: str
    fields: Fields
    file: str
    line: int | None
    deleted: bool = False

    @property
    def metadata(self) -> Fields:
        return self.fields.child("metadata")

    @property
    def place(self) -> str:
        """Namespace and name, as far as it has them. Never raises, so that messages may use it."""
        metadata = self.fields.raw("metadata")
        return place_of(metadata if isinstance(metadata, dict) else {})


def place_of(reference: dict[str, Any]) -> str:
    """Return `namespace/name` of an object's metadata or of a reference to it."""
    return _encodable(f"{reference.get('namespace') or 'default'}/{reference.get('name')}")


def located_objects(source: Source, into: TraceBuilder) -> Iterator[Located]:
    """Yield the objects of a file: a List, a single object, or a stream of objects or watch events.

    What is no object becomes a reject. Raises UnreadableSourceError if the file does not begin with JSON.
    """
    for line, document in _documents(source, into):
        yield from _unpacked(document, source.name, line, into)


def _documents(source: Source, into: TraceBuilder) -> Iterator[tuple[int, Any]]:
    """Yield (line, document) of a text that holds one JSON document after another.

    Behind damage, reading goes on at the next line that begins with a brace: only whole objects do.
    """
    text = source.read_text()
    decoder = json.JSONDecoder()
    at, line, found = 0, 1, False
    while True:
        begin = _skip_blanks(text, at)
        line += text.count("\n", at, begin)
        if begin == len(text):
            return
        try:
            document, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            if not found:
                raise _not_json(source, error) from None
            into.reject(source.name, line, f"not JSON ({error})", text[begin : begin + _SHOWN_CHARS])
            brace = text.find("\n{", begin)
            at = brace + 1 if brace >= 0 else len(text)
        else:
            found = True
            yield line, document
        line += text.count("\n", begin, at)


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _not_json(source: Source, error: Exception) -> UnreadableSourceError:
    return UnreadableSourceError(
        f"{source.name} is not a whole JSON document: {error}",
        expected="the output of `kubectl get … -o json`",
        remedy="Check that the file is not cut off, and that it is JSON and not YAML",
    )


def _unpacked(document: Any, file: str, line: int | None, into: TraceBuilder) -> Iterator[Located]:
    if not isinstance(document, dict):
        into.reject(file, line, "not a JSON object", repr(document)[:_SHOWN_CHARS])
        return
    kind = document.get("kind")
    if "object" in document and "type" in document:
        yield from _watched(document, file, line, into)
    elif isinstance(kind, str) and isinstance(document.get("items"), list):
        for number, item in enumerate(document["items"], start=1):
            yield from _item(item, kind.removesuffix("List"), file, number, into)
    elif isinstance(kind, str):
        yield Located(_encodable(kind), Fields(document), file, line)
    else:
        into.reject(file, line, "an object without a kind", repr(document)[:_SHOWN_CHARS])


def _item(item: Any, kind: str, file: str, number: int, into: TraceBuilder) -> Iterator[Located]:
    """Yield a member of a List; members of a typed list, such as a PodList, need not repeat their kind."""
    if not isinstance(item, dict):
        into.reject(file, None, f"item {number} of the list is no object", repr(item)[:_SHOWN_CHARS])
        return
    own = item.get("kind") or kind
    if not isinstance(own, str) or not own:
        into.reject(file, None, f"item {number} of the list has no kind", repr(item)[:_SHOWN_CHARS])
        return
    yield Located(_encodable(own), Fields(item), file, None)


def _watched(event: dict[str, Any], file: str, line: int | None, into: TraceBuilder) -> Iterator[Located]:
    if event["type"] == "BOOKMARK":
        return
    if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
        into.reject(file, line, "a watch event that brings no object", repr(event)[:_SHOWN_CHARS])
        return
    for found in _unpacked(event["object"], file, line, into):
        yield Located(found.kind, found.fields, file, line, deleted=event["type"] == "DELETED")


def _encodable(text: str) -> str:
    # JSON may escape half a surrogate pair, which no UTF-8 text can hold.
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode()
