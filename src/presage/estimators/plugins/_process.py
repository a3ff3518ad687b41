"""A command of a stranger, run with limits: time, memory, output, and no environment but what it is given."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.estimators.plugins.contract import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MAX_LOG_BYTES = 64 * 1024
_CHUNK = 64 * 1024
_POLL_S = 0.05
# Set by a shell and not between fork and exec, where Python code is not safe when there are threads. A limit that
# cannot be set is one that is lower already.
_SET_LIMITS = """
(ulimit -t "$1") 2>&- && ulimit -t "$1"
(ulimit -v "$2") 2>&- && ulimit -v "$2"
ulimit -c 0
shift 2
exec "$@"
"""
_LIMITED = ("/bin/sh", "-c", _SET_LIMITS, "sh")
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")


class ProcessFailedError(Exception):
    """A command could not be started or was stopped; the message says why, in words for a person."""


@dataclass(frozen=True)
class Finished:
    """What a command did. A negative exit code is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    """Its first part, if it is long."""


def small_environment(*more: str) -> dict[str, str]:
    """Return the few variables that a plug-in inherits, and those named here where they are set."""
    return {name: os.environ[name] for name in (*_PASSED_ON, *more) if name in os.environ}


def run_limited(
    command: Sequence[str],
    given: bytes,
    *,
    timeout_s: float,
    environment: Mapping[str, str],
    folder: Path | None = None,
    memory_bytes: int | None = None,
) -> Finished:
    """Return what a command did with `given` on its standard input.

    It and its children are killed at the timeout, and when it writes more than MAX_DOCUMENT_BYTES. With
    `memory_bytes`, that is all the address space it can have, and the timeout is also its limit of CPU time.
    Raises ProcessFailedError.
    """
    whole = list(command)
    if memory_bytes is not None:
        whole = [*_LIMITED, str(int(timeout_s) + 1), str(max(1, memory_bytes // 1024)), *command]
    with tempfile.TemporaryFile() as question:  # and no pipe, which the two sides could wait on for ever
        question.write(given)
        question.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603  (a plug-in that the user added; words, no shell of ours)
                whole, stdin=question, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
                env=dict(environment), start_new_session=True, close_fds=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise ProcessFailedError(f"{command[0]!r} cannot be started: {error}") from None
    try:
        stdout, stderr = _collect(process, timeout_s)
    finally:
        # Before the process is waited for, so that its number cannot be another's by now.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait()
    return Finished(process.returncode, stdout, stderr)


def _collect(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[bytes, bytes]:
    """Return what is written until the process has ended, to the end of what is in the pipes by then."""
    deadline = time.monotonic() + timeout_s
    stdout, stderr = bytearray(), bytearray()
    with selectors.DefaultSelector() as waiting:
        for pipe, kept in ((process.stdout, stdout), (process.stderr, stderr)):
            if pipe is not None:
                waiting.register(pipe, selectors.EVENT_READ, kept)
        ended = False
        while waiting.get_map() or not ended:
            if time.monotonic() > deadline:
                raise ProcessFailedError(f"it took longer than {timeout_s:g} s and was stopped")
            ready = waiting.select(0 if ended else _POLL_S) if waiting.get_map() else []
            for key, _ in ready:
                if not _take(key.fd, key.data, MAX_LOG_BYTES if key.data is stderr else None):
                    waiting.unregister(key.fileobj)
            if ended and not ready:
                break  # a child that lives on may hold the pipes open
            if not waiting.get_map() and not ended:
                time.sleep(0.001)
            ended = _has_ended(process)
    return bytes(stdout), bytes(stderr)


def _take(descriptor: int, kept: bytearray, most: int | None) -> bool:
    """Keep what can be read, up to `most` bytes in all; return False at the end of the file."""
    chunk = os.read(descriptor, _CHUNK)
    kept.extend(chunk if most is None else chunk[: most - len(kept)])
    if len(kept) > MAX_DOCUMENT_BYTES:
        raise ProcessFailedError(f"it wrote more than {MAX_DOCUMENT_BYTES:,} bytes and was stopped")
    return bool(chunk)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process has ended, without taking its number away from it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
