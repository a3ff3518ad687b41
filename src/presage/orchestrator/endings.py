"""How a job of a cluster ended, in all disguises."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from presage.client.events import open_regular
from presage.client.run import EXIT_TO_BE_CONTINUED
from presage.orchestrator.jobs import Ending
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from presage.connectors._base import JobStatus

_ENDINGS = {
    Outcome.COMPLETED: Ending.COMPLETED,
    Outcome.TIMEOUT: Ending.TIMEOUT,
    Outcome.OUT_OF_MEMORY: Ending.OUT_OF_MEMORY,
    Outcome.NODE_FAILURE: Ending.NODE_FAILURE,
    Outcome.PREEMPTED: Ending.PREEMPTED,
    Outcome.CANCELLED: Ending.CANCELLED,
}
_SHELL_SIGNALS = 128
"""What a shell adds to the signal that ended a program."""
_KILLED = 137
"""What a shell says of a program that was killed, as the system does when memory runs out."""
_SIGKILL = 9
_OUT_OF_MEMORY_WORDS = (
    b"out of memory",
    b"OutOfMemoryError",
    b"oom-kill",
    b"MemoryError",
    b"Cannot allocate memory",
)
_TAIL_BYTES = 64 * 1024


def ending_of(status: JobStatus, output: Path | None = None) -> tuple[Ending, str]:
    """Return how a job ended that has, and the words for it; `output` is the file of what it printed."""
    if status.exit_code == EXIT_TO_BE_CONTINUED:
        return Ending.CONTINUED, "it saved itself and ended before its limit"
    if signal.SIGUSR1 in (status.signal, (status.exit_code or 0) - _SHELL_SIGNALS):
        return Ending.CONTINUED, "it was told that its time is up before it could listen"
    ending = _ENDINGS.get(status.state, Ending.FAILED)
    if ending is Ending.FAILED:
        disguise = _out_of_memory_in_disguise(status, output)
        if disguise:
            return Ending.OUT_OF_MEMORY, disguise
    code = "" if not status.exit_code else f" with exit code {status.exit_code}"
    return ending, f"{status.state.value}{code}" + (f" ({status.reason})" if status.reason else "")


def _out_of_memory_in_disguise(status: JobStatus, output: Path | None) -> str:
    """Return by what it can be told that a failed job ran out of memory; empty if by nothing."""
    if status.max_rss_bytes and status.memory_bytes and status.max_rss_bytes > status.memory_bytes:
        return "it failed when it had more memory than it may have"
    if status.exit_code == _KILLED:
        return "it was killed (137), as jobs are whose memory runs out"
    if status.signal == _SIGKILL and not status.exit_code and status.max_rss_bytes is None:
        return "it was killed by the system"
    if output is not None and _says_out_of_memory(output):
        return "what it printed last says that memory ran out"
    return ""


def _says_out_of_memory(output: Path) -> bool:
    try:
        with open_regular(output) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    except OSError:
        return False
    return any(words in tail for words in _OUT_OF_MEMORY_WORDS)
