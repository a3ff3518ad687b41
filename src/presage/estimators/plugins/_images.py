"""OCI archives: what an image says of itself, and its files in a folder; no container tool is needed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from presage.errors import InputError, OutputError, UnreadableSourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_JSON_BYTES = 4 * 1024 * 1024
_MAX_UNPACKED_BYTES = 16 * 1024**3
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"


@dataclass(frozen=True)
class Image:
    """What the configuration of an image says."""

    config_digest: str
    """`sha256:…`; container tools know the image by it."""
    command: tuple[str, ...]
    working_folder: str
    environment: dict[str, str]
    labels: dict[str, str]
    layers: tuple[str, ...] = field(repr=False)


def read_image(archive: Path) -> Image:
    """Return what an OCI archive has in it. Raises UnreadableSourceError, InputError."""
    with _opened(archive) as files:
        index = _json(files, "index.json")
        manifests = index.get("manifests") or []
        if len(manifests) != 1:
            raise InputError(f"{str(archive)!r} holds {len(manifests)} images", expected="one")
        manifest = _json(files, _blob(manifests[0]["digest"]))
        config = _json(files, _blob(manifest["config"]["digest"]))
        run = config.get("config") or {}
        return Image(
            config_digest=str(manifest["config"]["digest"]),
            command=(*(run.get("Entrypoint") or ()), *(run.get("Cmd") or ())),
            working_folder=str(run.get("WorkingDir") or "/"),
            environment=dict(pair.split("=", 1) for pair in run.get("Env") or () if "=" in pair),
            labels={str(key): str(text) for key, text in (run.get("Labels") or {}).items()},
            layers=tuple(str(layer["digest"]) for layer in manifest["layers"]),
        )


def unpack_image(archive: Path, image: Image, folder: Path) -> Path:
    """Return `folder` with the files of the image in it, unpacked if they are not there yet.

    Devices and set-user-id bits are left out. Raises UnreadableSourceError, InputError, OutputError.
    """
    root = folder / "root"
    if root.is_dir():
        return root
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unpacking-"))
        try:
            _unpack(archive, image, fresh / "root")
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        if root.is_dir():  # another process was faster; its files are as good as ours
            return root
        raise OutputError(
            f"The image cannot be unpacked into {str(folder)!r}: {error.strerror or error}"
        ) from None
    return root


def _unpack(archive: Path, image: Image, root: Path) -> None:
    root.mkdir()
    with _opened(archive) as files:
        for digest in image.layers:
            _unpack_layer(_member(files, _blob(digest)), root)
    for mount_point in ("proc", "dev"):
        (root / mount_point).mkdir(exist_ok=True)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files in a folder."""
    if path.is_file():
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    whole = hashlib.sha256()
    for each in sorted(path.rglob("*")):
        if each.is_file() and "__pycache__" not in each.parts:
            with each.open("rb") as file:
                part = hashlib.file_digest(file, "sha256").hexdigest()
            whole.update(f"{each.relative_to(path).as_posix()}\0{part}\n".encode("utf-8", "surrogateescape"))
    return "sha256:" + whole.hexdigest()


def _unpack_layer(stream: IO[bytes], root: Path) -> None:
    unpacked = 0
    with tarfile.open(fileobj=stream, mode="r:*") as layer:
        # Ours below is stricter about places and laxer about links; Pythons before 3.11.4 have none.
        layer.extraction_filter = staticmethod(lambda member, _: member)
        for member in layer:
            member.name = member.name.lstrip("/")
            place = _inside(root, member.name)
            if place.name == _OPAQUE:
                _empty(root, place.parent)
            elif place.name.startswith(_WHITEOUT):
                _remove(root, place.parent / place.name.removeprefix(_WHITEOUT))
            elif not (member.ischr() or member.isblk() or member.isfifo()):
                _remove_if_other_kind(root, place, member)
                layer.extract(_plain(member, root), root)
            unpacked += member.size
            if unpacked > _MAX_UNPACKED_BYTES:
                raise InputError("The image takes too much space", expected="at most 16 GiB unpacked")


def _inside(root: Path, name: str) -> Path:
    """Return the place of a name below the root. Raises InputError if it is elsewhere, also by way of links."""
    place = root / name
    parent = root if place == root else place.parent
    if ".." in PurePosixPath(name).parts or not parent.resolve().is_relative_to(root.resolve()):
        raise InputError(f"The image has a file outside of itself: {name[:200]!r}")
    return place


def _plain(member: tarfile.TarInfo, root: Path) -> tarfile.TarInfo:
    """Return a member that is owned by us, can be read and has no set-user-id bit.

    Where a symbolic link points is not looked at: it is meant from the image's own root. Raises InputError for a
    hard link to something outside.
    """
    if member.islnk():
        member.linkname = member.linkname.lstrip("/")
        if not _inside(root, member.linkname).resolve().is_relative_to(root.resolve()):
            raise InputError(f"The image links to a file outside of itself: {member.linkname[:200]!r}")
    member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o400)
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    return member


def _remove_if_other_kind(root: Path, place: Path, member: tarfile.TarInfo) -> None:
    if (place.is_symlink() or place.exists()) and not (member.isdir() and place.is_dir()):
        _remove(root, place)


def _remove(root: Path, place: Path) -> None:
    if not place.parent.resolve().is_relative_to(root.resolve()) or place == root:
        raise InputError("The image removes files outside of itself")
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _empty(root: Path, folder: Path) -> None:
    if folder.is_dir():
        for each in folder.iterdir():
            _remove(root, each)


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive, "r:") as files:
            yield files
    except (tarfile.TarError, EOFError) as error:
        raise InputError(
            f"{str(archive)!r} is no OCI archive: {error}", expected="one as podman saves it"
        ) from None
    except OSError as error:
        raise UnreadableSourceError(f"{str(archive)!r} cannot be read: {error.strerror or error}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{str(archive)!r} is no OCI archive: {type(error).__name__} {error}") from None


def _blob(digest: Any) -> str:
    algorithm, _, value = str(digest).partition(":")
    if not (algorithm.isalnum() and value.isalnum()):
        raise InputError(f"An image has the digest {str(digest)[:80]!r}", expected="one like sha256:1f…")
    return f"blobs/{algorithm}/{value}"


def _member(files: tarfile.TarFile, name: str) -> IO[bytes]:
    found = files.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _json(files: tarfile.TarFile, name: str) -> dict[str, Any]:
    document = json.loads(_member(files, name).read(_MAX_JSON_BYTES))
    if not isinstance(document, dict):
        raise TypeError(f"{name} is no object")
    return document
