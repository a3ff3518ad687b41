"""What became of jobs: one search for all of them.

Tapis says how a job stands in `status`, and why it ended in `condition`. An ended job whose output is still being
copied (ARCHIVING) is not final yet, although it holds no node any more.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from presage.connectors._base import JobStatus
from presage.connectors.tapis.requests import KEY_MARK, MIB, MINUTE_S, key_of
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from presage.connectors.tapis.client import TapisClient

IDS_PER_CALL = 5000
"""A search of so many ids is 200 kB long."""
ATTRIBUTES = (
    "uuid", "tags", "status", "condition", "lastMessage", "created", "remoteStarted", "remoteEnded", "ended",
    "nodeCount", "execSystemLogicalQueue", "maxMinutes", "memoryMB", "remoteResultInfo", "remoteJobId",
)  # fmt: skip
_JOB_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d{1,4})?")
_KEY = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_RESULT = re.compile(r"\s*(\d{1,5})(?::(\d{1,3}))?\s*")
_SHELL_SIGNALS = 128
"""What a shell adds to the signal that ended a program."""
_MAX_SIGNAL = 64
_MAX_CODE = 255
_CONDITIONS = {
    "SCHEDULER_TIMEOUT": Outcome.TIMEOUT,
    "SCHEDULER_DEADLINE": Outcome.TIMEOUT,
    "JOB_EXECUTION_MONITORING_TIMEOUT": Outcome.TIMEOUT,
    "SCHEDULER_OUT_OF_MEMORY": Outcome.OUT_OF_MEMORY,
    "SCHEDULER_CANCELLED": Outcome.CANCELLED,
    "CANCELLED_BY_USER": Outcome.CANCELLED,
}
# Tapis has one condition for all that ended a job from outside; the words of the scheduler tell them apart.
_TERMINATED = "SCHEDULER_TERMINATED"
_WORDS = {
    re.compile(r"\b(?:NODE_FAIL|BOOT_FAIL|NF|BF)\b"): Outcome.NODE_FAILURE,
    re.compile(r"\b(?:PREEMPTED|PR)\b"): Outcome.PREEMPTED,
}


def is_job_id(text: str) -> bool:
    """Return whether Tapis could have given a job this id."""
    return _JOB_ID.fullmatch(text) is not None


def statuses(client: TapisClient, job_ids: Collection[str]) -> dict[str, JobStatus]:
    """Return what Tapis says of these jobs by id; those it does not know are left out. Raises ConnectorError."""
    return {job["uuid"]: parse_job(job) for job in records(client, job_ids)}


def records(client: TapisClient, job_ids: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield what Tapis has on these jobs, as it has it."""
    ids = [job_id for job_id in dict.fromkeys(job_ids) if is_job_id(job_id)]
    for start in range(0, len(ids), IDS_PER_CALL):
        chosen = ids[start : start + IDS_PER_CALL]
        wanted = set(chosen)
        for job in _search(client, "uuid", chosen, limit=len(chosen)):
            if isinstance(job.get("uuid"), str) and job["uuid"] in wanted:
                yield job


def find(client: TapisClient, key: str) -> str | None:
    """Return the newest job with this key among its tags."""
    if not _KEY.fullmatch(key):
        return None
    found = _search(client, "tags", [f"{KEY_MARK}{key}"], limit=100)
    own = [job for job in found if key_of(_tags(job)) == key and is_job_id(str(job.get("uuid")))]
    newest = max(own, key=lambda job: str(job.get("created")), default=None)
    return None if newest is None else str(newest["uuid"])


def parse_job(job: Mapping[str, Any]) -> JobStatus:
    """Return a job of Tapis's as ours; attributes that are missing or none of theirs are not known."""
    exit_code, signal = parse_result(job.get("remoteResultInfo"))
    state = parse_state(job, exit_code)
    is_final = state not in (Outcome.PENDING, Outcome.RUNNING)
    minutes, memory_mib = _whole(job.get("maxMinutes")), _whole(job.get("memoryMB"))
    condition = str(job.get("condition") or "")
    message = str(job.get("lastMessage") or "")
    return JobStatus(
        job_id=str(job.get("uuid")),
        state=state,
        key=key_of(_tags(job)),
        reason=(": ".join(part for part in (condition, message) if part) if is_final else message)[:600],
        submit_time=parse_time(job.get("created")),
        start_time=parse_time(job.get("remoteStarted")),
        end_time=parse_time(job.get("remoteEnded") or job.get("ended")) if is_final else None,
        exit_code=exit_code if is_final else None,
        signal=signal if is_final else None,
        nodes=_whole(job.get("nodeCount")),
        partition=str(job.get("execSystemLogicalQueue") or "") or None,
        walltime_s=float(minutes * MINUTE_S) if minutes else None,
        memory_bytes=memory_mib * MIB if memory_mib else None,
    )


def parse_state(job: Mapping[str, Any], exit_code: int | None) -> Outcome:
    """Return how a job stands; one whose status is not known stays as it was last seen, waiting or running."""
    status, condition = job.get("status"), str(job.get("condition") or "")
    if status == "FINISHED":
        return Outcome.FAILED if exit_code else Outcome.COMPLETED
    if status == "CANCELLED":
        return Outcome.CANCELLED
    if status != "FAILED":
        return Outcome.RUNNING if job.get("remoteStarted") else Outcome.PENDING
    if condition == _TERMINATED:
        message = str(job.get("lastMessage") or "")
        return next((state for words, state in _WORDS.items() if words.search(message)), Outcome.FAILED)
    return _CONDITIONS.get(condition, Outcome.FAILED)


def parse_time(text: object) -> datetime | None:
    """Return a time of Tapis's, which is UTC where it does not say; None for what is none."""
    try:
        time = datetime.fromisoformat(str(text))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_result(text: object) -> tuple[int | None, int | None]:
    """Return the exit code and the signal that ended a job: of `7`, `137`, `256`, or `0:9` as Slurm has it."""
    match = _RESULT.fullmatch(str(text or ""))
    if match is None:
        return None, None
    code, signal = int(match[1]), int(match[2] or 0)
    if match[2] is None and code > _MAX_CODE:  # as the kernel has it: the code above, the signal below
        code, signal = code >> 8, code & 0x7F
    if not signal and _SHELL_SIGNALS < code <= _SHELL_SIGNALS + _MAX_SIGNAL:
        signal = code - _SHELL_SIGNALS
    return code, signal or None


def _search(client: TapisClient, attribute: str, values: Collection[str], *, limit: int) -> list[dict[str, Any]]:
    listed = ", ".join(f"'{value}'" for value in values)  # checked: none has a quote
    answer = client.ask(
        "POST",
        "jobs",
        "search",
        body={"search": [f"{attribute} IN ({listed})"]},
        query={"limit": limit, "orderBy": "created(desc)", "select": ",".join(ATTRIBUTES)},
    )
    found = answer.result if isinstance(answer.result, list) else []
    return [job for job in found if isinstance(job, dict)]


def _tags(job: Mapping[str, Any]) -> list[object]:
    tags = job.get("tags")
    return tags if isinstance(tags, list) else []


def _whole(number: object) -> int | None:
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None
