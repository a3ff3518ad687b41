"""Jobs of the past, from Slurm's accounting."""

from __future__ import annotations

import tempfile
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from presage.connectors.slurm.jobs import is_without_accounting
from presage.errors import ClusterRefusedError
from presage.traces import Trace, schema
from presage.traces.builder import ReadOptions, TraceBuilder
from presage.traces.manifest import Manifest
from presage.traces.readers import read_sources
from presage.traces.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from presage.connectors.slurm.commands import SlurmCommands

FIELDS = (
    "JobID", "JobName", "User", "Group", "Account", "Cluster", "Partition", "QOS", "Priority", "Submit",
    "Eligible", "Start", "End", "Elapsed", "Suspended", "Timelimit", "ReqCPUS", "AllocCPUS", "ReqNodes", "NNodes",
    "NTasks", "ReqMem", "ReqTRES", "AllocTRES", "MaxRSS", "TotalCPU", "NodeList", "State", "ExitCode", "WorkDir",
    "Comment",
)  # fmt: skip
_DELIMITER = "\x1f"


def history(commands: SlurmCommands, since: datetime, user: str | None = None) -> Trace:
    """Return the jobs since then, of one user or of all that may be seen.

    Raises ClusterRefusedError where this Slurm keeps no records, and other ConnectorErrors.
    """
    whose = f"--user={user}" if user else "--allusers"
    start = f"--starttime={since.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
    try:
        text = _records(commands, whose, start)
    except ClusterRefusedError as error:
        if not is_without_accounting(error):
            raise
        raise keeps_no_records() from None
    return read_records(text, "sacct") if len(text.splitlines()) > 1 else no_records()


def keeps_no_records() -> ClusterRefusedError:
    """Return the error of a Slurm without accounting."""
    return ClusterRefusedError(
        "This Slurm keeps no records of ended jobs",
        expected="accounting with slurmdbd",
        remedy="Ask its administrator, or give a log of jobs as a file",
    )


def _records(commands: SlurmCommands, *chosen: str) -> str:
    try:
        # Where comments are not kept, this line is where the stamp of a job is found again.
        return _asked(commands, (*FIELDS, "SubmitLine"), *chosen)
    except ClusterRefusedError as error:
        if "SubmitLine" not in str(error):  # which came with 21.08
            raise
        return _asked(commands, FIELDS, *chosen)


def _asked(commands: SlurmCommands, fields: Sequence[str], *chosen: str) -> str:
    options = ("--parsable2", f"--delimiter={_DELIMITER}", f"--format={','.join(fields)}")
    return on_lines(commands.run("sacct", *options, *chosen), len(fields))


def on_lines(text: str, fields: int) -> str:
    """Return records of so many fields on one line each, with bars between fields and none within.

    Names and the lines of submissions may have both line ends and bars in them.
    """
    records: list[str] = []
    for line in text.replace("|", "¦").splitlines():
        if records and (_DELIMITER not in line or records[-1].count(_DELIMITER) < fields - 1):
            records[-1] += f" {line}"
        else:
            records.append(line)
    return "".join(f"{record}\n" for record in records).replace(_DELIMITER, "|")


def read_records(text: str, format_name: str) -> Trace:
    """Return the jobs of what Slurm's accounting said, in a format of the readers."""
    into = TraceBuilder(ReadOptions(time_zone="UTC"))
    with tempfile.TemporaryDirectory(prefix="presage-") as folder:
        path = Path(folder, format_name)
        path.write_text(text, encoding="utf-8")
        read_sources([Source(path)], into, format_name)
        return into.build()


def no_records() -> Trace:
    """Return a trace of no job."""
    return Trace.create(schema.empty("jobs"), Manifest(scheduler="slurm"))
