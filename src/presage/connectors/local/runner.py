"""The process that runs one job, watches it, and notes what became of it.

    python -m presage.connectors.local.runner FOLDER

It goes into the background by itself; the call returns once it has noted who it is. All that the job starts stays
below it, however often it forks, and is gone when the job has ended.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.connectors.local import processes
from presage.connectors.local.state import CANCELLED, COMPLETED, SIGNAL_PREFIX, State, read_json, write_json
from presage.connectors.local.waiting import advance, end

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = "failed"
TIMEOUT = "timeout"
OUT_OF_MEMORY = "out_of_memory"
POLL_S = 0.05
SAMPLE_S = 0.25
"""How often memory is looked at: a scan of /proc takes some milliseconds."""


@dataclass
class Watch:
    """What is known of a running job."""

    leader: subprocess.Popen[bytes]
    folder: Path
    asked: dict[str, Any]
    began_s: float
    max_rss_bytes: int = 0
    warned: bool = False

    def sample(self) -> int:
        """Return how much memory the job holds now, and remember the largest."""
        rss_bytes = sum(process.rss_bytes for process in processes.descendants(os.getpid()))
        self.max_rss_bytes = max(self.max_rss_bytes, rss_bytes)
        return rss_bytes

    def age_s(self) -> float:
        """Return for how long it has run."""
        return time.monotonic() - self.began_s


def main(folder: Path) -> None:
    """Run the job in `folder` to its end."""
    state, job_id = State(folder.parent.parent), folder.name
    processes.adopt_orphans()
    asked = read_json(folder / "job.json")
    start_s = time.time()
    try:
        watch = _launch(folder, asked)
    except (OSError, subprocess.SubprocessError) as error:
        processes.send(processes.descendants(os.getpid()), signal.SIGKILL)
        ending: dict[str, Any] = {"outcome": FAILED, "reason": f"cannot be run: {error}", "exit_code": 127}
    else:
        state.update(job_id, start_s=start_s)
        forced = _watch(watch)
        _end_all(watch, asked["grace_s"] if forced else 0.0)
        outcome, reason = forced or (FAILED if watch.leader.returncode else COMPLETED, "")
        ending = {"outcome": outcome, "reason": reason, **_ending(watch)}
    if not (folder / "job.json").exists():
        return  # whoever deleted the queue wants no word of it
    with state.locked():
        end(state, job_id, start_s=start_s, **ending)
        advance(state)


def _launch(folder: Path, asked: dict[str, Any]) -> Watch:
    script = folder / "script"
    # What the kernel would do with the first line; the folder need not allow programs.
    interpreter = os.fsdecode(script.read_bytes().split(b"\n", 1)[0])[2:].split(maxsplit=1)
    with Path(asked["output"]).open("ab") as output:
        leader = subprocess.Popen(  # noqa: S603  (the user's own job)
            [*(part.strip() for part in interpreter), str(script), *asked["arguments"]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=asked["working_directory"],
            env=asked["environment"],
            start_new_session=True,
            preexec_fn=partial(_prepare, folder),  # noqa: PLW1509  (there is no other thread here)
        )
    return Watch(leader, folder, asked, time.monotonic())


def _prepare(folder: Path) -> None:
    """Note who the script is before it can do anything, so that whoever finds its watcher dead finds it too."""
    processes.die_with_parent()
    _note_self(folder / "leader.json")


def _note_self(path: Path) -> None:
    own = processes.look_at(os.getpid())
    write_json(path, {"pid": os.getpid(), "started": own.started if own else 0})


def _watch(watch: Watch) -> tuple[str, str] | None:
    """Wait until the script has ended or must be; return why it must, None if it ended by itself."""
    asked, next_sample_s = watch.asked, 0.0
    limit_s, memory_bytes = asked["walltime_s"], asked["memory_bytes"]
    while not _has_ended(watch):
        if (watch.folder / "cancel").exists() or not (watch.folder / "job.json").exists():
            return CANCELLED, "cancelled by its owner"
        _pass_signals_on(watch)
        if watch.age_s() >= next_sample_s:
            next_sample_s = watch.age_s() + SAMPLE_S
            if watch.sample() > (memory_bytes or sys.maxsize):
                processes.send(processes.descendants(os.getpid()), signal.SIGKILL)
                return OUT_OF_MEMORY, f"{watch.max_rss_bytes} bytes, over its {memory_bytes}"
        if limit_s is not None:
            _warn_ahead(watch, limit_s)
            if watch.age_s() >= limit_s:
                return TIMEOUT, f"over its limit of {limit_s:g} s"
        time.sleep(POLL_S)
    return None


def _pass_signals_on(watch: Watch) -> None:
    for request in watch.folder.glob(f"{SIGNAL_PREFIX}*"):
        request.unlink(missing_ok=True)
        watch.leader.send_signal(signal.Signals[f"SIG{request.name.removeprefix(SIGNAL_PREFIX)}"])


def _warn_ahead(watch: Watch, limit_s: float) -> None:
    name, before_s = watch.asked["signal"], watch.asked["signal_before_s"]
    if name and not watch.warned and watch.age_s() >= limit_s - before_s:
        watch.warned = True
        watch.leader.send_signal(signal.Signals[f"SIG{name}"])


def _has_ended(watch: Watch) -> bool:
    """Return whether the script has ended, and take leave of orphans that have."""
    ended = watch.leader.poll() is not None
    if ended:
        _reap()
    return ended


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end_all(watch: Watch, grace_s: float) -> None:
    """End all that the job has started: kindly for so long, then not."""
    deadline = time.monotonic() + grace_s
    if grace_s:
        processes.send(processes.descendants(os.getpid()), signal.SIGTERM)
        while time.monotonic() < deadline and processes.descendants(os.getpid()):
            _has_ended(watch)
            time.sleep(POLL_S)
    while left := processes.descendants(os.getpid()):
        processes.send(left, signal.SIGKILL)
        _has_ended(watch)
        time.sleep(POLL_S)
    watch.leader.wait()
    _reap()


def _ending(watch: Watch) -> dict[str, Any]:
    code = watch.leader.returncode
    largest_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "exit_code": max(code, 0),
        "signal": -code if code < 0 else None,
        "max_rss_bytes": max(watch.max_rss_bytes, largest_bytes),
    }


def start(arguments: Sequence[str]) -> None:
    """Go into the background and run the job in the folder named."""
    folder = Path(arguments[0])
    gate, ready = os.pipe()
    if os.fork():
        os.close(ready)
        os.read(gate, 1)
        os._exit(0)
    os.close(gate)
    _note_self(folder / "runner.json")
    os.close(ready)
    main(folder)


if __name__ == "__main__":
    start(sys.argv[1:])
