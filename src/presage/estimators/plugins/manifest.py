"""What a plug-in says of itself: `estimator.toml`, the labels of an image, or what its HTTP address returns."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from presage.errors import InputError, UnreadableSourceError
from presage.estimators._base import Quantity  # noqa: TC001  (pydantic reads it)
from presage.estimators.plugins.contract import API, printable

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "estimator.toml"
LABEL = "presage.estimator."
"""Prefix of the labels of an image: `presage.estimator.name` and so on."""

_Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$")]
_Version = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._+-]{0,62}[A-Za-z0-9])?$")]
_MIB = 1024 * 1024


class Kind(StrEnum):
    """How a plug-in is run."""

    PYTHON = "python"
    """A class of an installed package, in this process."""
    PROGRAM = "program"
    """A command with limits, and with the rights of whoever asks."""
    CONTAINER = "container"
    """An OCI image without network, that can write nothing."""
    HTTP = "http"
    """A server."""
    FITTED = "fitted"
    """An estimator of Presage with what it learned from jobs; nobody adds one."""


@dataclass(frozen=True)
class Limits:
    """What one question may take."""

    timeout_s: float = 20.0
    memory_bytes: int = 512 * _MIB
    processes: int = 64


@dataclass(frozen=True)
class Manifest:
    """A plug-in, before it is asked anything."""

    name: str
    version: str
    quantity: Quantity
    kind: Kind
    summary: str = ""
    entrypoint: tuple[str, ...] = ()
    """Of a program, run in the folder of the manifest; `python3` is the interpreter of Presage."""
    url: str = ""
    token_variable: str = ""
    """Environment variable that holds the token of an HTTP address."""
    target: str = ""
    """Of a Python class: `package.module:Class`."""
    limits: Limits = Limits()
    labels: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    """What its maker measured, like `median_error = 0.12`."""

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON has it."""
        return asdict(self)


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    timeout_s: Annotated[float, Field(gt=0, le=600)] = Limits.timeout_s
    memory_bytes: Annotated[int, Field(ge=16 * _MIB)] = Limits.memory_bytes
    processes: Annotated[int, Field(ge=1, le=4096)] = Limits.processes


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    api: Literal[1]
    name: _Name
    version: _Version
    quantity: Quantity
    kind: Kind
    summary: Annotated[str, Field(max_length=500)] = ""
    entrypoint: Annotated[tuple[str, ...], Field(max_length=64)] = ()
    url: Annotated[str, Field(pattern=r"^(https?://.+)?$", max_length=2000)] = ""
    token_variable: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]*$")] = ""
    target: Annotated[str, Field(pattern=r"^([\w.]+:[\w.]+)?$")] = ""
    limits: _Limits = _Limits()
    labels: dict[str, str] = {}
    metrics: dict[str, float] = {}


_NEEDED = {Kind.PROGRAM: "entrypoint", Kind.HTTP: "url", Kind.PYTHON: "target"}


def parse_manifest(document: Any, *, place: str) -> Manifest:
    """Return the manifest in a TOML or JSON document. Raises InputError naming `place` and what is wrong.

    Without a `kind`, one with a `url` is of kind http, and any other is a program.
    """
    if isinstance(document, dict) and "kind" not in document:
        document = {**document, "kind": Kind.HTTP if document.get("url") else Kind.PROGRAM}
    try:
        read = _Document.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        member = ".".join(str(part) for part in first["loc"]) or "the document"
        problem = f"{place} does not describe an estimator: {member}: {printable(first['msg'])}"
        raise InputError(problem, expected=f"name, version, quantity, kind and api = {API}") from None
    needed = _NEEDED.get(read.kind)
    if needed and not getattr(read, needed):
        raise InputError(f"{place} describes a plug-in of kind {read.kind.value} without {needed}")
    members = read.model_dump(exclude={"api", "limits"})
    return Manifest(**members, limits=Limits(**read.limits.model_dump()))


def read_manifest(folder: Path) -> Manifest:
    """Return what `estimator.toml` of a folder says. Raises UnreadableSourceError, InputError."""
    path = folder / MANIFEST
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableSourceError(
            f"{str(path)!r} cannot be read: {error.strerror or error}",
            expected=f"a folder with {MANIFEST}",
        ) from None
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not TOML: {error}") from None
    return parse_manifest(document, place=str(path))


def manifest_of_labels(labels: dict[str, str], *, place: str) -> Manifest:
    """Return what the labels of an image say. Raises InputError."""
    own = {key.removeprefix(LABEL): text for key, text in labels.items() if key.startswith(LABEL)}
    document: dict[str, Any] = {key: own[key] for key in ("name", "version", "quantity", "summary") if key in own}
    document["api"] = int(own["api"]) if own.get("api", "").isdecimal() else own.get("api")
    document["kind"] = Kind.CONTAINER
    document["metrics"] = {key.removeprefix("metrics."): own[key] for key in own if key.startswith("metrics.")}
    document["labels"] = {key: text for key, text in labels.items() if not key.startswith(LABEL)}
    return parse_manifest(document, place=place)
