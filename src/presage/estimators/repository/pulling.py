"""Where estimators come from: a folder, an OCI archive, an image, an HTTP address or an installed package."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from presage.errors import InputError, OutputError, PresageError, UsageError
from presage.estimators import ESTIMATORS
from presage.estimators._base import Estimator, Quantity
from presage.estimators.plugins._images import digest_of, read_image
from presage.estimators.plugins.container import save_image
from presage.estimators.plugins.http import describe_address
from presage.estimators.plugins.manifest import Kind, Manifest, manifest_of_labels, parse_manifest, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = "image:"
PYTHON = "python:"
ARCHIVE = "image.tar"
FORMS = "a folder with estimator.toml, an OCI archive, image:REFERENCE, http://… or python:NAME"
_LEFT_OUT = ("__pycache__", ".git", ".venv")
_MAX_FILES = 10_000
_MAX_FOLDER_BYTES = 1 << 30


@dataclass(frozen=True)
class Stated:
    """What the person who adds an estimator says of it, where it does not say so itself."""

    name: str | None = None
    version: str | None = None
    quantity: Quantity | None = None


@dataclass(frozen=True)
class Pulled:
    """An estimator that was fetched and is not kept yet."""

    manifest: Manifest
    digest: str
    files: Path | None
    """A folder to be kept; None: there is nothing to keep."""


@contextmanager
def pulled(source: str, stated: Stated, home: Path) -> Iterator[Pulled]:
    """Give an estimator, fetched into a folder in `home` that is cleared at the end.

    Raises UsageError for a source of no known form, InputError and UnreadableSourceError for one that has no
    estimator, OutputError if it cannot be kept.
    """
    if source.startswith(("http://", "https://")):
        yield _address(source, stated)
    elif source.startswith(PYTHON):
        yield _installed(source.removeprefix(PYTHON))
    else:
        with _room(home) as room:
            yield _files(source, room / "kept")


def _address(url: str, stated: Stated) -> Pulled:
    if stated.name and stated.version and stated.quantity:
        said = {"api": 1, "name": stated.name, "version": stated.version, "quantity": stated.quantity, "url": url}
        manifest = parse_manifest(said, place=url)
    else:
        manifest = describe_address(url)
    plain = json.dumps(manifest.as_dict(), sort_keys=True).encode()
    return Pulled(manifest, "sha256:" + hashlib.sha256(plain).hexdigest(), None)


def _installed(name: str) -> Pulled:
    spec = ESTIMATORS.spec(name)
    kind = ESTIMATORS.get(name)
    if spec.target.startswith("presage."):
        raise UsageError(f"The estimator {name!r} is a part of Presage and in charge already", expected=FORMS)
    if not (isinstance(kind, type) and issubclass(kind, Estimator)):
        raise InputError(
            f"{spec.target} is no estimator", expected="a class derived from presage.estimators.Estimator"
        )
    said = {
        "api": 1, "name": name, "version": str(kind.version), "quantity": kind.quantity, "kind": Kind.PYTHON,
        "target": spec.target, "summary": spec.summary,
    }  # fmt: skip
    return Pulled(parse_manifest(said, place=spec.target), f"python:{spec.target}", None)


def _files(source: str, kept: Path) -> Pulled:
    place = Path(source)
    if source.startswith(IMAGE):
        kept.mkdir()
        save_image(source.removeprefix(IMAGE), kept / ARCHIVE)
        return _image(kept, source)
    if place.is_dir():
        manifest = read_manifest(place)
        _check_size(place)
        shutil.copytree(place, kept, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        if manifest.kind is Kind.PYTHON:
            raise InputError(
                f"{source!r} describes a class of a package", remedy="Install that and add python:NAME"
            )
        if manifest.kind is Kind.FITTED:
            raise InputError(f"{source!r} describes what Presage fits itself", expected="a program or a container")
        if manifest.kind is Kind.CONTAINER:
            return _image(kept, source, manifest)
        return Pulled(manifest, digest_of(kept), kept)
    if place.is_file():
        kept.mkdir()
        shutil.copyfile(place, kept / ARCHIVE)
        return _image(kept, source)
    raise UsageError(f"There is nothing at {source!r}", expected=FORMS)


def _image(kept: Path, source: str, manifest: Manifest | None = None) -> Pulled:
    image = read_image(kept / ARCHIVE)
    if manifest is None:
        manifest = manifest_of_labels(image.labels, place=f"The labels of the image in {source!r}")
    return Pulled(replace(manifest, kind=Kind.CONTAINER), digest_of(kept / ARCHIVE), kept)


def _check_size(folder: Path) -> None:
    files = size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        files += len(names)
        size += sum((Path(place) / name).lstat().st_size for name in names)
        if files > _MAX_FILES or size > _MAX_FOLDER_BYTES:
            raise InputError(
                f"{str(folder)!r} is more than an estimator",
                expected=f"at most {_MAX_FILES:,} files and {_MAX_FOLDER_BYTES >> 30} GiB",
                remedy="Make an image of it, or a folder with nothing else in it",
            )


@contextmanager
def _room(home: Path) -> Iterator[Path]:
    try:
        home.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(dir=home, prefix=".pulling-"))
    except OSError as error:
        raise OutputError(f"Nothing can be kept in {str(home)!r}: {error.strerror or error}") from None
    try:
        yield room
    except PresageError:
        raise
    except (OSError, shutil.Error) as error:
        raise OutputError(f"The estimator cannot be copied into {str(home)!r}: {error}") from None
    finally:
        shutil.rmtree(room, ignore_errors=True)
