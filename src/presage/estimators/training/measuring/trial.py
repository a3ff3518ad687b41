"""A program on trial: run for some seconds on this machine, and asked how far it came.

Any program that loops over `presage.track` can be tried, whatever it computes with: the events it writes say how
far it is, and the end of the trial is the signal to save that every job gets before its limit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.client.events import EVENTS_FILE, Event, read_events
from presage.client.run import EXIT_TO_BE_CONTINUED, FOLDER_VARIABLE
from presage.connectors.local import processes
from presage.errors import InputError, UsageError
from presage.estimators._base import Basis, Estimate, Quantity
from presage.estimators.spread import Spread
from presage.estimators.training.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLL_S = 0.1
_STEPS = 3
"""Events of progress before which a trial is not over, unless it takes much longer than it should."""
_LATE = 10.0
"""How many times as long as it should a trial may take before it is given up."""
_LEAVE_S = 30.0
_UNKNOWN = 20.0
"""Factor within which the first guess lies: what is seen outweighs it at once."""
_MORE_MEMORY = (1.0, 1.05, 1.25)
"""What the whole run may hold, as shares of what the beginning held."""
_LAST_WORDS = 400


@dataclass(frozen=True)
class Trial:
    """What a program showed of itself."""

    walltime: Estimate
    memory: Estimate
    done: float
    total: float
    tried_s: float
    startup_s: float
    """From its start until its training began."""
    save_s: float | None
    """What the checkpoint at the end of the trial took; None if it wrote none."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "walltime": self.walltime.as_dict(), "memory": self.memory.as_dict(), "done": self.done,
            "total": self.total, "tried_s": self.tried_s, "startup_s": self.startup_s, "save_s": self.save_s,
        }  # fmt: skip


def try_program(command: Sequence[str], *, seconds: float = 10.0) -> Trial:
    """Run a program that uses `presage.track` for about so long, and return what all of it would take here.

    Its checkpoints and events go to a folder that is removed; what else it writes is its own affair. Raises
    UsageError if there is no such program, InputError if it fails or does not say how far it is.
    """
    with tempfile.TemporaryDirectory(prefix="presage-trial-", ignore_cleanup_errors=True) as folder:
        seen = _run(command, Path(folder), seconds)
    if not seen.is_fair:
        raise _unfair(command, seen, seconds)
    return _trial(seen)


@dataclass
class _Seen:
    tried_s: float = 0.0
    startup_s: float = 0.0
    peak_bytes: int = 0
    status: int = 0
    words: str = ""
    events: list[Event] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event.values for event in self.events if event.kind == kind]

    @property
    def is_fair(self) -> bool:
        return bool(self.of("progress")) and self.status in (0, EXIT_TO_BE_CONTINUED, -signal.SIGKILL)


def _run(command: Sequence[str], folder: Path, seconds: float) -> _Seen:
    seen, output = _Seen(), folder / "output.txt"
    environment = {**os.environ, FOLDER_VARIABLE: str(folder)}
    began_s, began_at = time.monotonic(), time.time()
    with output.open("wb") as words:
        try:
            process = subprocess.Popen(  # noqa: S603  (the user's own program)
                command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise UsageError(f"{command[0]!r} cannot be run: {error.strerror or error}") from None
    try:
        _watch(process, folder, seen, began_s, seconds)
    finally:
        processes.send(processes.members(process.pid), signal.SIGKILL)
        seen.status = process.wait()
    seen.tried_s = time.monotonic() - began_s
    seen.events = [event for event, _ in read_events(folder / EVENTS_FILE)]
    seen.startup_s = max(0.0, seen.events[0].time.timestamp() - began_at) if seen.events else 0.0
    seen.words = output.read_bytes()[-_LAST_WORDS:].decode(errors="replace")
    return seen


def _watch(process: subprocess.Popen[bytes], folder: Path, seen: _Seen, began_s: float, seconds: float) -> None:
    """Let it work for its time, then tell it to save and leave."""
    while process.poll() is None and not _is_over(folder, time.monotonic() - began_s, seconds):
        held_bytes = sum(each.rss_bytes for each in processes.members(process.pid))
        seen.peak_bytes = max(seen.peak_bytes, held_bytes)
        time.sleep(_POLL_S)
    if process.poll() is None and _kinds(folder):  # before it says anything, the signal would only kill it
        process.send_signal(signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LEAVE_S)


def _is_over(folder: Path, passed_s: float, seconds: float) -> bool:
    if passed_s < seconds:
        return False
    return passed_s >= _LATE * seconds or _kinds(folder).count("progress") >= _STEPS


def _kinds(folder: Path) -> list[str]:
    return [event.kind for event, _ in read_events(folder / EVENTS_FILE)]


def _trial(seen: _Seen) -> Trial:
    last = seen.of("progress")[-1]
    done, total = float(last["done"]), float(last["total"])
    saves = [float(each["took_s"]) for each in seen.of("checkpoint") if each.get("took_s") is not None]
    told_bytes = [float(each["max_rss_bytes"]) for each in seen.of("utilization")]
    peak_bytes = max([seen.peak_bytes, *told_bytes])
    words = f"It was tried for {seen.tried_s:.3g} s on this machine, as busy as that was"
    walltime = Estimate(
        Quantity.WALLTIME, _walltime(seen, total), Basis.MEASURED, "trial", "1",
        notes=(f"{words}, and did {done:.3g} of {total:g}",),
    )  # fmt: skip
    memory = Estimate(
        Quantity.MEMORY, Spread(*(peak_bytes * share for share in _MORE_MEMORY)), Basis.MEASURED, "trial", "1",
        notes=("What it holds only later was not seen",),
    )  # fmt: skip
    return Trial(walltime, memory, done, total, seen.tried_s, seen.startup_s, saves[-1] if saves else None)


def _walltime(seen: _Seen, total: float) -> Spread:
    """Return how long the whole of it takes: as measured if it came to its end, else by its pace."""
    if seen.of("finished"):
        return Spread.exactly(seen.tried_s)
    told = [(float(each["done"]), float(each["elapsed_s"])) for each in seen.of("progress")]
    done, elapsed_s = told[-1]
    pace = Progress(Spread.around(elapsed_s * total / max(done, 1e-9), _UNKNOWN), total)
    for each in told:
        pace.observe(*each)
    return pace.remaining().times(total / max(total - done, 1e-9)).plus(seen.startup_s)


def _unfair(command: Sequence[str], seen: _Seen, seconds: float) -> InputError:
    name = " ".join(command)
    if seen.status not in (0, EXIT_TO_BE_CONTINUED, -signal.SIGKILL):
        words = " ".join(seen.words.split())
        return InputError(
            f"{name!r} ended with status {seen.status}: {words}", remedy="See that it runs on this machine"
        )
    if seen.of("started"):
        return InputError(
            f"{name!r} was not through with an epoch or a batch after {seen.tried_s:.3g} s",
            remedy=f"Try it for longer than --seconds {seconds:g}, or loop over run.batches(loader) in it",
        )
    return InputError(
        f"{name!r} did not say how far it is",
        expected="a program that loops over presage.track(epochs)",
        remedy="State what it needs to `presage plan` instead: --memory and --walltime",
    )
