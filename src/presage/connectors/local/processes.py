"""Processes as /proc shows them: who lives, who descends from whom, how much memory they hold."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    """A process; its id alone may be another's tomorrow, with the time of its start it cannot."""

    pid: int
    parent: int
    session: int
    started: int
    rss_bytes: int
    is_zombie: bool


def look_at(pid: int) -> Process | None:
    """Return a process, None if there is none of this id."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may have any character in it.
    rest = text.rpartition(")")[2].split()
    if len(rest) < 22:
        return None
    state, parent, session, started, pages = rest[0], rest[1], rest[3], rest[19], rest[21]
    return Process(pid, int(parent), int(session), int(started), int(pages) * _PAGE_BYTES, state in "ZX")


def is_alive(pid: int, started: int) -> bool:
    """Return whether the process that had this id and start is still there."""
    process = look_at(pid)
    return process is not None and process.started == started and not process.is_zombie


def descendants(pid: int) -> list[Process]:
    """Return all processes below this one, zombies left out."""
    everyone = _everyone()
    children: dict[int, list[Process]] = {}
    for process in everyone:
        children.setdefault(process.parent, []).append(process)
    found, frontier = [], [pid]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += [process.pid for process in below]
    return [process for process in found if not process.is_zombie]


def members(session: int) -> list[Process]:
    """Return all processes of a session, zombies left out."""
    return [process for process in _everyone() if process.session == session and not process.is_zombie]


def send(processes: list[Process], number: int) -> None:
    """Send a signal to processes; those that have gone meanwhile are no error."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def adopt_orphans() -> None:
    """Have descendants whose parent ends become children of this process, so that none gets away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have this process killed when the one that started it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    # A system without it only loses what this is for.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _everyone() -> list[Process]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208  (looked at very often)
    return [process for pid in pids if (process := look_at(pid))]
