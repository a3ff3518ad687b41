"""The script of a job inside the container of a Tapis application: `python3 -m presage.connectors.tapis.inside`.

Needs nothing but Python. Ends as the script ends, with 128 and the number of the signal where one ended it, as
shells have it. Where the submission names a signal, the script gets it so long before the limit; Tapis itself
cannot tell a job anything.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from presage.connectors.tapis.payload import RATE_VARIABLE, VARIABLE, unpack

if TYPE_CHECKING:
    from types import FrameType

CANNOT_RUN = 126
"""What shells say of a program that is there and cannot be run."""
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
_ID_VARIABLE = "_tapisJobUUID"
_LIMIT_VARIABLE = "_tapisMaxMinutes"


def main() -> int:
    """Run the script that the environment holds and return the code to end with."""
    began_s = time.monotonic()
    try:
        job = unpack(os.environ.pop(VARIABLE, ""))
        with tempfile.TemporaryDirectory(prefix="presage-") as folder:
            script = Path(folder, "script")
            script.write_bytes(os.fsencode(job["script"]))
            script.chmod(0o700)
            return _run(job, script, began_s)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"The job cannot be run: {error}\n")
        return CANNOT_RUN


def _run(job: dict[str, Any], script: Path, began_s: float) -> int:
    rate = float(os.environ.pop(RATE_VARIABLE, "1"))
    folder = job["working_directory"] or str(Path.cwd())
    output = _open_output(job["output"], folder)
    child = subprocess.Popen(  # noqa: S603  (the job itself)
        [str(script), *job["arguments"]],
        cwd=folder,
        env={**os.environ, **job["environment"]},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
    )
    if output is not None:
        output.close()
    _forward_to(child)
    limit_s = 60.0 * float(os.environ.get(_LIMIT_VARIABLE) or "inf")
    if job["signal"] is not None and math.isfinite(limit_s):
        told_s = began_s + (limit_s - job["signal_before_s"]) / rate
        try:
            child.wait(max(0.0, told_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.Signals[f"SIG{job['signal']}"])
    code = child.wait()
    return code if code >= 0 else 128 - code


def _open_output(path: str | None, folder: str) -> IO[bytes] | None:
    if path is None:
        return None
    job_id = os.environ.get(_ID_VARIABLE, "")
    named = "%".join(part.replace("%j", job_id) for part in path.split("%%"))
    return Path(folder, named).open("wb")


def _forward_to(child: subprocess.Popen[bytes]) -> None:
    def forward(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in _FORWARDED:
        signal.signal(number, forward)


if __name__ == "__main__":
    sys.exit(main())
