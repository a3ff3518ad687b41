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
    from collections.abc import Sequence

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

    A job with this key that is there already is not submitted again. Raises ClusterTimeoutError, and cancels the
    job, if there is no answer within `timeout_s`, waiting in the queue included; ClusterRefusedError if the job
    ended without one.
    """
    job_id = connector.find(key)
    if job_id is None:
        request = base64.b64encode(document).decode()
        arguments = (request, *command)
        job = Submission(key, key, _SCRIPT, arguments=arguments, nodes=1, walltime_s=walltime_s)
        job_id = connector.submit(job)
    status = _wait(connector, job_id, timeout_s)
    if status not in (Outcome.COMPLETED, Outcome.FAILED):
        raise ClusterRefusedError(f"The job {job_id} ended without an answer: {status}")
    printed = connector.client.download("jobs", job_id, "output", "download", OUTPUT)
    answers = _ANSWER.findall(printed)
    if not answers:
        words = " ".join(printed[-300:].decode(errors="replace").split())
        raise ClusterRefusedError(f"The job {job_id} gave no answer; it printed {words!r}")
    code = connector.statuses([job_id])[job_id].exit_code
    return ProgramResult(code or 0, base64.b64decode(answers[-1]))


def _wait(connector: TapisConnector, job_id: str, timeout_s: float) -> Outcome:
    deadline_s, polls = time.monotonic() + timeout_s, 0
    while time.monotonic() < deadline_s:
        status = connector.statuses([job_id]).get(job_id)
        if status is not None and status.is_final:
            return status.state
        time.sleep(_PAUSES_S[min(polls, len(_PAUSES_S) - 1)])
        polls += 1
    connector.cancel([job_id])
    raise ClusterTimeoutError(f"The job {job_id} did not answer within {timeout_s:g} s, and is cancelled")
