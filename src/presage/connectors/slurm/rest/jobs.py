"""What became of jobs: one list of the controller's, and one of the accounting's for those that have ended.

Both are put into the words of `squeue` and `sacct` and judged as those are. Quirks of 22.05: the list of the
controller has everybody's jobs, as it takes no name of a user; the accounting says 0 whatever a failed job
returned; asked for a job's id that is no number, slurmrestd ends.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from presage.connectors.slurm import jobs
from presage.connectors.slurm.scripts import is_job_id, key_of
from presage.traces.readers.slurm.texts import INFINITE_32, NO_VALUE_32, STATES, parse_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from presage.connectors._base import JobStatus
    from presage.connectors.slurm.rest.client import Document, SlurmRestClient

IDS_PER_CALL = 2000
"""They stand in the address of the request: 5,000 of seven digits were answered, too."""
FIND_DAYS = 2
"""How far back the accounting is searched for a key. It takes no user's name: the answer has everybody's jobs."""
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"


def statuses(client: SlurmRestClient, job_ids: Collection[str]) -> dict[str, JobStatus]:
    """Return what Slurm says of these jobs by id; those it does not know are left out. Raises ConnectorError."""
    wanted = {job_id for job_id in job_ids if is_single(job_id)}
    if not wanted:
        return {}
    return jobs.joined(wanted, queue(client), lambda ids: records(client, ids))


def find(client: SlurmRestClient, key: str) -> str | None:
    """Return the newest job of the asking user with this key in its comment, None if there is none."""
    found = [job.job_id for job in queue(client, client.user) if job.key == key]
    if not found:
        since = (datetime.now(UTC) - timedelta(days=FIND_DAYS)).strftime(TIME_FORMAT)
        kept = client.list_of("slurmdb", "jobs", {"start_time": since, "skip_steps": "true"})
        own = (job for job in kept or () if job.get("user") in ("", client.user))
        found = [str(job.get("job_id")) for job in own if key_of(_text(_part(job, "comment").get("job"))) == key]
    return jobs.newest(filter(is_single, found))


def queue(client: SlurmRestClient, user: str | None = None) -> Iterator[JobStatus]:
    """Yield the jobs that the controller still knows, of one user or of all that may be seen."""
    for job in client.list_of("slurm", "jobs") or ():
        if user is None or job.get("user_name") in ("", user):  # v0.0.36 says no name
            state = parse_state(_text(job.get("job_state")))
            if state and is_single(_text(job.get("job_id"))):
                yield jobs.queued_job(_queue_cells(job), STATES[state].job)


def records(client: SlurmRestClient, ids: list[str]) -> Iterator[JobStatus]:
    """Yield what the accounting has on these jobs; nothing where there is no accounting."""
    for start in range(0, len(ids), IDS_PER_CALL):
        asked = {"step": ",".join(ids[start : start + IDS_PER_CALL])}
        for job in client.list_of("slurmdb", "jobs", asked) or ():
            state = parse_state(_text(_part(job, "state").get("current")))
            if state and is_single(_text(job.get("job_id"))):
                yield jobs.recorded_job(_record_cells(job, state), STATES[state].job, _peak_bytes(job))


def is_single(job_id: str) -> bool:
    """Return whether this can be the id of a job that is no part of another."""
    return is_job_id(job_id) and job_id.isdecimal()


def _queue_cells(job: Document) -> dict[str, str]:
    limit_min = job.get("time_limit")
    names = {
        "JobID": "job_id", "exit_code": "exit_code", "Partition": "partition", "NumNodes": "node_count",
        "SubmitTime": "submit_time", "StartTime": "start_time", "EndTime": "end_time",
        "tres-alloc": "tres_alloc_str", "Reason": "state_reason", "Comment": "comment",
    }  # fmt: skip
    cells = {name: _text(job.get(key)) for name, key in names.items()}
    return {**cells, "TimeLimit": f"{limit_min}:00" if _is_amount(limit_min) else ""}


def _record_cells(job: Document, state: str) -> dict[str, str]:
    times, code = _part(job, "time"), _part(job, "exit_code")
    given = {_text(each.get("type")): each.get("count") for each in _parts(_part(job, "tres").get("allocated"))}
    returned, limit_min = code.get("return_code"), times.get("limit")
    signal = _part(code, "signal").get("signal_id") or 0
    has_run = state != "CANCELLED" or times.get("start") != times.get("end")
    is_known = _is_amount(returned) and (returned or signal or state != "FAILED")
    return {
        "JobIDRaw": _text(job.get("job_id")),
        "ExitCode": f"{returned}:{signal}" if is_known else f":{signal}" if signal else "",
        "Submit": _text(times.get("submission")),
        "Start": _text(times.get("start")) if has_run else "",
        "End": _text(times.get("end")),
        "Partition": _text(job.get("partition")),
        "NNodes": _text(job.get("allocation_nodes")),
        "AllocCPUS": _text(given.get("cpu")),
        "ReqMem": f"{given['mem']}M" if _is_amount(given.get("mem")) else "",
        "TimelimitRaw": _text(limit_min) if limit_min and _is_amount(limit_min) else "",  # 0: not known yet
        "Comment": _text(_part(job, "comment").get("job")),
    }


def _peak_bytes(job: Document) -> int | None:
    """Return the largest memory that a task of any step had. Steps say it under `requested`, of all names."""
    peaks = [
        each["count"]
        for step in _parts(job.get("steps"))
        for each in _parts(_part(_part(step, "tres"), "requested").get("max"))
        if each.get("type") == "mem" and _is_amount(each.get("count"))
    ]
    return max(peaks, default=None)


def _part(value: Document, name: str) -> Document:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _parts(value: Any) -> list[Document]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list | bool) else str(value)


def _is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < min(NO_VALUE_32, INFINITE_32)
