"""A program in a container that reads one document and writes another, as a job of Tapis: an estimator, say.

Tapis gives a program no standard input and mixes its output with what others print. So the document travels with
the job, and the answer comes back packed in a line of its own.
"""

from __future__ import annotations

import base64
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from presage.connectors._base import Submission
from presage.errors import ClusterRefusedError, ClusterTimeoutError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from presage.connectors._base import JobStatus
    from presage.connectors.tapis.connector import TapisConnector

OUTPUT = "tapisjob.out"
"""Where Tapis keeps what a job prints."""
_MARK = "presage-answer:"
_ANSWER = re.compile(rf"^{_MARK}([A-Za-z0-9+/=]*)$".encode(), re.MULTILINE)
_SCRIPT = f"""#!/usr/bin/env python3
import base64, subprocess, sys
done = subprocess.run(sys.argv[2:], input=base64.b64decode(sys.argv[1]), stdout=subprocess.PIPE)
print("\\n{_MARK}" + base64.b64encode(done.stdout).decode(), flush=True)
sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
"""
_NO_SCRIPT = "#!/bin/true\n"
_SHELLS_OWN = 126
"""Exit codes from here on say that a program was not run, or was killed."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Between polls, the last one from then on."""


@dataclass(frozen=True)
class ProgramResult:
    """What a program wrote to its standard output, and the code it ended with."""

    exit_code: int
    output: bytes


def run_program(
    connector: TapisConnector,
    key: str,
    command: Sequence[str],
    document: bytes,
    *,
    walltime_s: float = 600.0,
    timeout_s: float = 3600.0,
) -> ProgramResult:
    """Return what a program in the application's container answers to a document.

    A job with this key that is there already is not submitted again, unless something kept it from answering.
    Raises ClusterTimeoutError, and cancels the job, if there is no answer within `timeout_s`, waiting in the queue
    included; ClusterRefusedError if the job ended without one.
    """
    request = base64.b64encode(document).decode()
    arguments = (request, *command)
    job = Submission(key, key, _SCRIPT, arguments=arguments, nodes=1, walltime_s=walltime_s)
    job_id, exit_code, printed = _run(connector, key, lambda: connector.submit(job), timeout_s)
    answers = _ANSWER.findall(printed)
    if not answers:
        words = " ".join(printed[-300:].decode(errors="replace").split())
        raise ClusterRefusedError(f"The job {job_id} gave no answer; it printed {words!r}")
    return ProgramResult(exit_code, base64.b64decode(answers[-1]))


def run_image(
    connector: TapisConnector,
    key: str,
    variables: Mapping[str, str],
    *,
    memory_bytes: int | None = None,
    walltime_s: float = 600.0,
    timeout_s: float = 3600.0,
) -> ProgramResult:
    """Return all that the application's image prints when it is run as it is, with these variables.

    Its log is among it. Otherwise as `run_program`.
    """
    job = Submission(key, key, _NO_SCRIPT, nodes=1, memory_bytes=memory_bytes, walltime_s=walltime_s)
    _, code, printed = _run(connector, key, lambda: connector.submit_image(job, variables), timeout_s)
    return ProgramResult(code, printed)


def _run(
    connector: TapisConnector, key: str, submit: Callable[[], str], timeout_s: float
) -> tuple[str, int, bytes]:
    """Return the id of a job of this key, the code it ended with, and what it printed."""
    job_id = connector.find(key)
    if job_id is None or not _may_have_answered(connector.statuses([job_id]).get(job_id)):
        job_id = submit()
    status = _wait(connector, job_id, timeout_s)
    if status.state not in (Outcome.COMPLETED, Outcome.FAILED):
        raise ClusterRefusedError(f"The job {job_id} ended without an answer: {status.state}")
    return job_id, status.exit_code or 0, connector.client.download("jobs", job_id, "output", "download", OUTPUT)


def _may_have_answered(status: JobStatus | None) -> bool:
    """Return whether an earlier job is as good as a new one: it goes on, or its program ended by itself."""
    if status is None or not status.is_final:
        return status is not None
    return status.state is Outcome.COMPLETED or (status.exit_code is not None and status.exit_code < _SHELLS_OWN)


def _wait(connector: TapisConnector, job_id: str, timeout_s: float) -> JobStatus:
    deadline_s, polls = time.monotonic() + timeout_s, 0
    while time.monotonic() < deadline_s:
        status = connector.statuses([job_id]).get(job_id)
        if status is not None and status.is_final:
            return status
        time.sleep(_PAUSES_S[min(polls, len(_PAUSES_S) - 1)])
        polls += 1
    connector.cancel([job_id])
    raise ClusterTimeoutError(f"The job {job_id} did not answer within {timeout_s:g} s, and is cancelled")
