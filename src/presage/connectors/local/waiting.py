"""Whose turn it is: first come, first served, among those whose dependencies have ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from presage.connectors.local import processes
from presage.connectors.local.state import CANCELLED, COMPLETED, NODE_FAILURE, PENDING, RUNNING, State, read_json

if TYPE_CHECKING:
    from pathlib import Path

START_TIMEOUT_S = 60.0


def advance(state: State) -> None:
    """Bury jobs whose watcher is dead, and start the waiting ones that fit. The lock must be held."""
    for job_id in state.listed(RUNNING):
        _bury_if_lost(state, job_id)
    for job_id in state.listed(PENDING):  # in the order of submission: what it waits for is settled by then
        _settle(state, job_id)
    free = _free(state)
    for job_id in state.listed(PENDING):
        asked = state.asked(job_id)
        waits_for = [other for other in asked["depends_on"] if not state.is_final(other)]
        if (state.job(job_id) / "held").exists():
            reason = "Held"
        elif waits_for:
            reason = "Dependency"
        elif asked["cores"] > free["cores"] or asked["gpus"] > free["gpus"]:
            # Those behind it wait as well, so that small jobs cannot keep a large one waiting for ever.
            state.update(job_id, reason="Resources")
            return
        else:
            free = {what: free[what] - asked[what] for what in free}
            _start(state, job_id)
            continue
        if state.status(job_id).get("reason") != reason:
            state.update(job_id, reason=reason)


def end(state: State, job_id: str, outcome: str, reason: str, **more: object) -> None:
    """Note that a job has ended. The lock must be held."""
    state.update(job_id, state=outcome, reason=reason, end_s=time.time(), **more)
    state.move(job_id, None)


def _settle(state: State, job_id: str) -> None:
    """Cancel a waiting job that waits for another's success in vain."""
    asked = state.asked(job_id)
    if asked["only_after_success"]:
        ended = [other for other in asked["depends_on"] if state.is_final(other)]
        if any(state.status(other)["state"] != COMPLETED for other in ended):
            end(state, job_id, CANCELLED, "DependencyNeverSatisfied")


def _free(state: State) -> dict[str, int]:
    free = {what: int(count) for what, count in read_json(state.folder / "queue.json").items()}
    for job_id in state.listed(RUNNING):
        asked = state.asked(job_id)
        free = {what: count - asked[what] for what, count in free.items()}
    return free


def _start(state: State, job_id: str) -> None:
    """Start the process that runs and watches a job, and wait until it has its own life."""
    folder = state.job(job_id)
    state.update(job_id, state=RUNNING, reason="")
    state.move(job_id, RUNNING)
    command = [sys.executable, "-P", "-m", "presage.connectors.local.runner", str(folder)]
    with (folder / "runner.log").open("ab") as log:
        try:
            subprocess.run(  # noqa: S603  (our own program)
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
                check=True,
                timeout=START_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            end(state, job_id, NODE_FAILURE, f"cannot be started: {error}; see {folder / 'runner.log'}")


def _bury_if_lost(state: State, job_id: str) -> None:
    """End a job whose watcher was killed, with all that is left of it."""
    folder = state.job(job_id)
    runner = read_json(folder / "runner.json")
    if runner and processes.is_alive(runner["pid"], runner["started"]):
        return
    kill_session(folder)
    if state.is_final(job_id):
        state.move(job_id, None)
    elif not runner and state.status(job_id).get("start_s") is None:
        state.update(job_id, state=PENDING)  # whoever was starting it died before there was a watcher
        state.move(job_id, PENDING)
    else:
        end(state, job_id, NODE_FAILURE, "the process that watched it was killed")


def kill_session(folder: Path) -> None:
    """Kill what is left of a job that nobody watches."""
    leader = read_json(folder / "leader.json")
    if leader and (not (process := processes.look_at(leader["pid"])) or process.started == leader["started"]):
        processes.send(processes.members(leader["pid"]), signal.SIGKILL)
