"""Where the service of this machine is, told to the commands of the user who started it, and to nobody else.

While `presage up` runs, a file in the folder of Presage's state has its address and token. Only its owner can read
it. It is locked for as long as the service lives, however that ends: what a service that was killed left behind
is never believed, because by then its address may be somebody else's.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import stat
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from presage.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

_OWN = 0o600
_OTHERS = 0o077
_MOST_BYTES = 4096
_TRIES = 20
_PAUSE_S = 0.05


@dataclass(frozen=True)
class Announcement:
    """A service, and what lets one speak to it."""

    address: str
    token: str


class Announcer:
    """Holds the file; what it says appears with `tell`."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def tell(self, found: Announcement) -> None:
        """Tell commands from now on."""
        content = json.dumps(asdict(found)).encode()
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, content, 0)


@contextmanager
def announcing(home: Path) -> Iterator[Announcer]:
    """Give what tells the commands of this user and machine about a service; they forget it at the end.

    Raises UsageError if there is a service with this state here already, OutputError if nothing can be written.
    """
    path = _file(home)
    handle = _open(path)
    try:
        _lock(handle, home)
        try:
            yield Announcer(handle)
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def announced(home: Path) -> Announcement | None:
    """Return the service that this user runs on this machine with its state there; None if there is none."""
    try:
        handle = os.open(_file(home), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & _OTHERS:
            log.warning("%s is not this user's alone, and not believed", _file(home))
            return None
        return _read(handle) if _is_locked(handle) else None
    finally:
        os.close(handle)


def _file(home: Path) -> Path:
    # One for each machine: a home on a network drive is seen by several, and each has an address 127.0.0.1.
    return home / f"service-{socket.gethostname()}.json"


def _open(path: Path) -> int:
    """Return a file for its owner alone; one that another user put there is not written to."""
    remedy = "Name a folder of your own with PRESAGE_HOME"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, _OWN)
    except OSError as error:
        raise OutputError(f"{str(path)!r} cannot be written: {error.strerror or error}", remedy=remedy) from None
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        os.close(handle)
        raise OutputError(f"{str(path)!r} belongs to somebody else, or is no file", remedy=remedy)
    os.fchmod(handle, _OWN)
    return handle


def _lock(handle: int, home: Path) -> None:
    for _ in range(_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)  # somebody may just be looking whether it is locked
        except OSError as error:
            log.warning("Commands will not find the service by themselves: no locks in %s (%s)", home, error)
            return
        else:
            return
    other = _read(handle)
    where = f" at {other.address}" if other is not None else ""
    raise UsageError(
        f"A service with its state in {str(home)!r} runs already{where}",
        remedy="Use that one, stop it, or name another folder with PRESAGE_HOME",
    )


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _read(handle: int) -> Announcement | None:
    try:
        document = json.loads(os.pread(handle, _MOST_BYTES, 0))
        return Announcement(str(document["address"]), str(document["token"]))
    except (ValueError, KeyError, TypeError):
        return None
