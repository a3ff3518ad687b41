"""What Tapis publishes of its interface, for checking what is asked and answered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from presage.errors import PresageError

SERVICES = ("tenants", "authenticator", "systems", "apps", "jobs")
_PREFIX = "/v3"
_METHODS = ("get", "post", "put", "patch", "delete")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "object": dict,
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


class Specification:
    """The OpenAPI documents of the services, by their names. Operations are called `jobs.submitJob`.

    An answer may have null where nothing is required, as those of Tapis do. A request may have no property that is
    not written down, as Tapis refuses them, although its documents do not say so.
    """

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._operations: dict[str, tuple[str, str, Mapping[str, Any]]] = {}
        for service, document in documents.items():
            for path, methods in document["paths"].items():
                for method in set(methods) & set(_METHODS):
                    full = path if path.startswith(f"{_PREFIX}/") else f"{_PREFIX}{path}"
                    name = f"{service}.{methods[method]['operationId']}"
                    self._operations[name] = (method.upper(), full, methods[method])

    @classmethod
    def read(cls, path: Path) -> Specification:
        """Return the documents in one file of JSON, by service."""
        return cls(json.loads(path.read_text()))

    def route(self, operation: str) -> tuple[str, str]:
        """Return method and path of an operation. Raises PresageError if Tapis has none of that name."""
        if operation not in self._operations:
            raise PresageError(f"Tapis has no operation {operation!r}")
        method, path, _ = self._operations[operation]
        return method, path

    def request_problems(self, operation: str, query: Mapping[str, str], body: object) -> list[str]:
        """Return what is wrong with a request."""
        service = operation.partition(".")[0]
        description = self._operations[operation][2]
        known = {
            parameter["name"] for parameter in description.get("parameters", []) if parameter["in"] == "query"
        }
        problems = [f"there is no parameter {name!r}" for name in query if name not in known]
        content = description.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            schema = content["application/json"]["schema"]
            problems += self._problems(service, schema, body, "body", is_request=True)
        elif body is not None:
            problems.append("there is a body where none is expected")
        return problems

    def answer_problems(self, operation: str, status: int, document: object) -> list[str]:
        """Return what is wrong with an answer; of a status that is not written down, that it is not."""
        service = operation.partition(".")[0]
        responses = self._operations[operation][2]["responses"]
        response = responses.get(str(status)) or responses.get("default")
        if response is None:
            return [f"there is no answer {status}"]
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        return (
            [] if schema is None else list(self._problems(service, schema, document, "answer", is_request=False))
        )

    def _problems(
        self, service: str, schema: Mapping[str, Any], value: object, place: str, *, is_request: bool
    ) -> Iterator[str]:
        if "$ref" in schema:
            schema = self._resolved(service, schema["$ref"])
        for part in schema.get("allOf", []):
            yield from self._problems(service, part, value, place, is_request=is_request)
        if value is None and not is_request:
            return
        yield from _own_problems(schema, value, place)
        if isinstance(value, list) and "items" in schema:
            for number, item in enumerate(value):
                yield from self._problems(
                    service, schema["items"], item, f"{place}[{number}]", is_request=is_request
                )
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            for name, item in value.items():
                if name in properties:
                    yield from self._problems(
                        service, properties[name], item, f"{place}.{name}", is_request=is_request
                    )
                elif is_request and properties:
                    yield f"{place} has {name!r}, which is not written down"

    def _resolved(self, service: str, reference: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._documents[service]
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        if "$ref" in found:
            return self._resolved(service, found["$ref"])
        return found


def _own_problems(schema: Mapping[str, Any], value: object, place: str) -> Iterator[str]:
    """Yield what is wrong with a value, its parts aside."""
    kind = schema.get("type")
    if kind in _TYPES and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{place} is {type(value).__name__} where {kind} is expected"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {value!r}, which is none of {schema['enum']}"
    if isinstance(value, dict):
        yield from (f"{place} lacks {name!r}" for name in schema.get("required", []) if name not in value)
    if isinstance(value, str | list):
        fewest, most = (
            schema.get(f"{end}{'Length' if isinstance(value, str) else 'Items'}") for end in ("min", "max")
        )
        if (fewest is not None and len(value) < fewest) or (most is not None and len(value) > most):
            yield f"{place} has a length of {len(value)}"
