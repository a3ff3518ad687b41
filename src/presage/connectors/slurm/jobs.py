"""What became of jobs: one `squeue` for all of a user's, and one `sacct` for those that are not in it any more.

The controller forgets ended jobs after some minutes (MinJobAge) and never knows how much memory one used; the
accounting remembers, but may be seconds late or absent. So an ended job is what the accounting says once that too
knows of the end, and what the controller says until then.

Slurm does not always see that memory ran out. A job also counts as out of memory if it was killed (signal 9)
with a peak over its limit, and if it exited with 137, as a shell does whose program was killed. The accounting
says 9 of an exit with 137, so that too counts with a peak over the limit.
"""

from __future__ import annotations

import logging
import math
import os
import re
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from presage.connectors._base import JobStatus
from presage.connectors.slurm.scripts import is_job_id, key_of
from presage.errors import ClusterRefusedError, CommandMissingError
from presage.traces.readers.slurm.texts import (
    MISSING,
    STATES,
    parse_bytes,
    parse_duration_s,
    parse_exit_code,
    parse_memory,
    parse_state,
    parse_tres,
)
from presage.traces.schema import Outcome
from presage.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from presage.connectors.slurm.commands import SlurmCommands

log = logging.getLogger(__name__)

# Widths beyond which squeue cuts off; only comments are ever longer.
QUEUE_FIELDS = {
    "JobID": 24, "State": 24, "exit_code": 12, "Partition": 128, "NumNodes": 12, "TimeLimit": 24, "SubmitTime": 16,
    "StartTime": 16, "EndTime": 16, "tres-alloc": 160, "Reason": 128, "Comment": 512,
}  # fmt: skip
RECORD_FIELDS = (
    "JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "Partition", "NNodes", "AllocCPUS", "ReqMem",
    "MaxRSS", "TimelimitRaw", "Comment",
)  # fmt: skip
IDS_PER_CALL = 5000
"""The kernel hands a program no argument longer than 128 KiB."""
SIGKILL = 9
EXIT_KILLED = 137
_NO_ACCOUNTING = ("accounting storage is disabled", "not running with slurmdbd", "only supported with slurmdbd")


def statuses(commands: SlurmCommands, job_ids: Collection[str]) -> dict[str, JobStatus]:
    """Return what Slurm says of these jobs by id; those it does not know are left out. Raises ConnectorError."""
    wanted = {job_id for job_id in job_ids if is_job_id(job_id)}
    if not wanted:
        return {}
    return joined(wanted, queue(commands), partial(records, commands))


def joined(
    wanted: Collection[str],
    queued: Iterable[JobStatus],
    recorded: Callable[[list[str]], Iterable[JobStatus]],
) -> dict[str, JobStatus]:
    """Return the wanted jobs by id, from what the controller says and what the accounting has of ended ones."""
    found = {job.job_id: job for job in queued if job.job_id in wanted}
    gone = sorted(job_id for job_id in wanted if job_id not in found or found[job_id].is_final)
    for record in recorded(gone) if gone else ():
        if record.job_id not in found or record.is_final:
            found[record.job_id] = _joined(record, found.get(record.job_id))
    return {job_id: _with_memory_judged(status) for job_id, status in found.items()}


def queue(commands: SlurmCommands) -> list[JobStatus]:
    """Return the asking user's jobs that the controller still knows."""
    fields = ",".join(f"{name}:{width}" for name, width in QUEUE_FIELDS.items())
    user = f"--user={os.geteuid()}"  # one user's jobs only: the controller then need not list everybody's
    text = commands.run("squeue", "--noheader", "--states=all", user, f"--Format={fields}")
    return list(parse_queue(text))


def records(commands: SlurmCommands, ids: list[str]) -> Iterator[JobStatus]:
    """Yield what the accounting has on these jobs; nothing where there is no accounting."""
    for start in range(0, len(ids), IDS_PER_CALL):
        listed = f"--jobs={','.join(ids[start : start + IDS_PER_CALL])}"
        try:
            text = commands.run(
                "sacct", "--parsable2", "--noheader", listed, f"--format={','.join(RECORD_FIELDS)}"
            )
        except (ClusterRefusedError, CommandMissingError) as error:
            if not is_without_accounting(error):
                raise
            return
        yield from parse_records(text)


def is_without_accounting(error: Exception) -> bool:
    """Return whether an error says that this Slurm keeps no records of ended jobs."""
    return isinstance(error, CommandMissingError) or any(mark in str(error) for mark in _NO_ACCOUNTING)


def find(commands: SlurmCommands, key: str) -> str | None:
    """Return the newest job with this key in its comment or, once forgotten, in the line that submitted it."""
    found = [job.job_id for job in queue(commands) if job.key == key]
    if not found:
        found = list(_recorded_ids(commands, key))
    return newest(found)


def newest(job_ids: Iterable[str]) -> str | None:
    """Return the id that was given last, None if there is none."""
    return max(job_ids, key=lambda job_id: [int(part) for part in re.split("[_+]", job_id)], default=None)


def parse_queue(text: str) -> Iterator[JobStatus]:
    """Yield the jobs of what squeue prints in the columns of QUEUE_FIELDS; lines that are no job are left out."""
    for line in text.splitlines():
        cells, start = dict[str, str](), 0
        for name, width in QUEUE_FIELDS.items():
            cells[name] = line[start : start + width].strip()
            start += width
        state = parse_state(cells["State"])
        if is_job_id(cells["JobID"]) and state:
            yield queued_job(cells, STATES[state].job)


def parse_records(text: str) -> Iterator[JobStatus]:
    """Yield the jobs of what sacct prints in RECORD_FIELDS, with the largest memory of their steps.

    Of a job that was requeued the last record counts.
    """
    jobs: dict[str, dict[str, str]] = {}
    peaks: dict[str, int] = {}
    for line in text.splitlines():
        cells = dict(zip(RECORD_FIELDS, line.split("|", len(RECORD_FIELDS) - 1), strict=False))
        job_id, _, step = cells.get("JobIDRaw", "").partition(".")
        if len(cells) < len(RECORD_FIELDS) or not is_job_id(job_id):
            continue
        if not step:
            jobs[job_id] = cells
            peaks.pop(job_id, None)
        peak = parse_bytes(cells["MaxRSS"]) if cells["MaxRSS"] else None
        if peak is not None:
            peaks[job_id] = max(peak, peaks.get(job_id, 0))
    for job_id, cells in jobs.items():
        if state := parse_state(cells["State"]):
            yield recorded_job(cells, STATES[state].job, peaks.get(job_id))


def queued_job(cells: Mapping[str, str], state: Outcome) -> JobStatus:
    """Return a job of the controller from the texts of QUEUE_FIELDS, with times in seconds since 1970."""
    start, end = (time_of(cells[name]) for name in ("StartTime", "EndTime"))
    is_final = state not in {Outcome.PENDING, Outcome.RUNNING}
    if state is Outcome.PENDING or (state is Outcome.CANCELLED and start == end):
        start = None  # an expectation, or the end of one that never ran
    status = int(cells["exit_code"]) if cells["exit_code"].isdecimal() else None
    tres = parse_tres(cells["tres-alloc"]) if cells["tres-alloc"] else None
    nodes = _whole(cells["NumNodes"])
    return JobStatus(
        job_id=cells["JobID"],
        state=state,
        key=key_of(cells["Comment"]),
        reason=_said(cells["Reason"]),
        submit_time=time_of(cells["SubmitTime"]),
        start_time=start,
        end_time=end if is_final else None,
        exit_code=status >> 8 if is_final and status is not None else None,
        signal=(status & 0x7F or None) if is_final and status is not None else None,
        nodes=nodes,
        partition=cells["Partition"] or None,
        walltime_s=_limit_s(cells["TimeLimit"]),
        memory_bytes=tres.mem_bytes // max(nodes or 1, 1) if tres and tres.mem_bytes else None,
    )


def recorded_job(cells: Mapping[str, str], state: Outcome, peak_bytes: int | None) -> JobStatus:
    """Return a job of the accounting from the texts of RECORD_FIELDS and the largest memory of its steps."""
    is_final = state not in {Outcome.PENDING, Outcome.RUNNING}
    code, signal = parse_exit_code(cells["ExitCode"]) or (None, None)
    nodes = _whole(cells["NNodes"]) or None  # 0: the accounting has not heard of its start yet
    return JobStatus(
        job_id=cells["JobIDRaw"],
        state=state,
        key=key_of(cells["Comment"]),
        submit_time=time_of(cells["Submit"]),
        start_time=time_of(cells["Start"]),
        end_time=time_of(cells["End"]) if is_final else None,
        exit_code=code if is_final else None,
        signal=signal if is_final else None,
        nodes=nodes,
        partition=cells["Partition"] or None,
        walltime_s=_minutes_s(cells["TimelimitRaw"]),
        max_rss_bytes=peak_bytes,
        memory_bytes=_memory_per_node(cells["ReqMem"], nodes or 1, _whole(cells["AllocCPUS"]) or 1),
    )


def _joined(record: JobStatus, queued: JobStatus | None) -> JobStatus:
    """Return a job's record with what the controller knows better, or already while the accounting is late."""
    if queued is None:
        return record
    known = {entry.name: value for entry in fields(record) if (value := getattr(record, entry.name)) is not None}
    # The accounting drops a bit: it says 9:0 of an exit with 137.
    exact = {"reason": queued.reason, "exit_code": queued.exit_code, "signal": queued.signal}
    return replace(queued, **{**known, **exact})


def _with_memory_judged(status: JobStatus) -> JobStatus:
    if status.state is not Outcome.FAILED:
        return status
    limit, peak = status.memory_bytes, status.max_rss_bytes
    if SIGKILL in (status.signal, status.exit_code) and limit and peak and peak > limit:
        reason = f"killed with a peak of {format_bytes(peak)}, over its {format_bytes(limit)}"
    elif status.exit_code == EXIT_KILLED:
        reason = f"exit code {EXIT_KILLED}: a program of it was killed"
    else:
        return status
    return replace(status, state=Outcome.OUT_OF_MEMORY, reason=reason)


def _recorded_ids(commands: SlurmCommands, key: str) -> Iterator[str]:
    """Yield jobs of the last weeks whose comment or line of submission has the key."""
    for field in ("Comment,SubmitLine", "Comment"):
        try:
            text = commands.run(
                "sacct", "--parsable2", "--noheader", "--allocations", f"--user={os.geteuid()}",
                "--starttime=now-28days", f"--format=JobIDRaw,{field}",
            )  # fmt: skip
        except (ClusterRefusedError, CommandMissingError) as error:
            if is_without_accounting(error):
                return
            log.info("Asking the accounting for %s failed: %s", field, error)  # before 21.08 it has no SubmitLine
            continue
        for line in text.splitlines():
            job_id, _, told = line.partition("|")
            if is_job_id(job_id) and key_of(told) == key:
                yield job_id
        return


def time_of(text: str) -> datetime | None:
    """Return the time that a text of seconds since 1970 says; None if it says none."""
    return datetime.fromtimestamp(int(text), UTC) if text.isdecimal() and 0 < int(text) < 2**36 else None


def _limit_s(text: str) -> float | None:
    seconds = parse_duration_s(text)
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _minutes_s(text: str) -> float | None:
    return float(text) * 60 if text.isdecimal() else None


def _memory_per_node(text: str, nodes: int, cpus: int) -> int | None:
    memory = parse_memory(text) if text else None
    if memory is None or memory.size_bytes is None:
        return None
    return round(memory.size_bytes * {"job": 1 / nodes, "node": 1, "cpu": cpus / nodes}[memory.per])


def _said(text: str) -> str:
    return "" if text in MISSING else text


def _whole(text: str) -> int | None:
    digits = text.partition("-")[0]
    return int(digits) if digits.isdecimal() else None
