"""Folders, ports and processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from presage.errors import PresageError

# The kernel takes 107 characters for a socket; Slurm adds up to 40 below the folder.
_LONGEST_FOLDER = 60
_PORTS = range(10_000, 32_000)
_LOG_LINES = 15


def make_folder() -> Path:
    """Return a new folder whose path is short enough for the sockets below it. Raises PresageError."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-")).resolve()
    if len(str(folder)) > _LONGEST_FOLDER:
        folder.rmdir()
        raise PresageError(
            f"The temporary folder {str(folder)!r} is too long for Unix sockets",
            expected=f"at most {_LONGEST_FOLDER} characters",
            remedy="Set TMPDIR to a shorter one",
        )
    folder.chmod(0o755)
    return folder


def free_ports(count: int) -> range:
    """Return `count` ports in a row that nobody uses now; below the range the kernel hands out by itself."""
    for _ in range(200):
        first = random.randrange(_PORTS.start, _PORTS.stop - count)  # noqa: S311  (no secret)
        ports = range(first, first + count)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in ports:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports
    raise PresageError(f"There are no {count} free ports in a row on 127.0.0.1")


def is_listening(port: int) -> bool:
    """Return whether somebody answers at a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def stop(daemon: subprocess.Popen[bytes], wanted: signal.Signals | None) -> None:
    """End a child: close its input or send it a signal, then kill it if it does not go."""
    if daemon.stdin:
        daemon.stdin.close()
    if wanted is not None and daemon.poll() is None:
        daemon.send_signal(wanted)
    try:
        daemon.wait(timeout=10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    if daemon.stdout:
        daemon.stdout.close()


def read_line(descriptor: int) -> str:
    """Return what comes through a pipe until a line ends or the pipe does."""
    told = b""
    while not told.endswith(b"\n") and (more := os.read(descriptor, 65536)):
        told += more
    return told.decode(errors="replace")


def tail(path: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def processes_with(entry: str) -> list[int]:
    """Return the ids of all processes but this one that have `NAME=VALUE` in the environment they started with."""
    numbers = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in numbers if pid != os.getpid() and entry.encode() in _environment_of(pid)]


def _environment_of(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []
