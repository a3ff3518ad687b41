"""`presage watch`: what becomes of a job, until it ends."""

from __future__ import annotations

import json as json_text
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli._output import Json, duration, emit_json, tell
from presage.cli._requests import Days, HistoryFiles, On
from presage.errors import ClusterTimeoutError, ClusterUnreachableError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from presage.connectors._base import Connector, JobStatus
    from presage.estimators.spread import Spread
    from presage.traces import Trace

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0
_MANAGED_ID = re.compile(r"j[0-9a-f]{11}")


def watch(
    job: Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")],
    once: Annotated[bool, typer.Option("--once", help="Say how it stands now, and stop.")] = False,
    progress: Annotated[
        str | None,
        typer.Option("--progress", metavar="FILE", help="Where the job tells its events. [its default folder]"),
    ] = None,
    history: HistoryFiles = None,
    days: Days = 90,
    on: On = "slurm",
    json: Json = False,
) -> None:
    """Follow a job until it ends: its states, when it may start and end, and how far it says it has come.

    Asks the cluster rarely while nothing changes: after 2 s, then 4, then 8, and every minute from then on. A job
    tells its progress in a file of its own, where it uses `presage.client`.

    Example: presage watch 4711

    Example: presage watch 4711 --once --json

    The id of a job that was handed over (`presage submit --managed`) is followed through all its jobs on clusters.
    """
    if _MANAGED_ID.fullmatch(job):
        _watch_managed(job, once=once, json=json)
        return
    from presage.cli._requests import connect, read_history

    connector = connect(on)
    trace = read_history(connector, history, days, 0)[0]
    told: list[dict[str, Any]] = []
    for status in _changes(connector, job, once=once):
        view = _view(connector, status, trace, progress)
        told.append(view)
        if not json:
            typer.echo(_sentence(view))
    if json:
        emit_json({"job": told[-1], "changes": told})


def _watch_managed(job_id: str, *, once: bool, json: bool) -> None:
    from presage.cli._managed import follow_job
    from presage.helper.jobs import Job
    from presage.helper.places import jobs_place

    job = Job(job_id, jobs_place())
    if not once:
        follow_job(job, json=json)
    elif json:
        emit_json({"job": job.status()})
    else:
        typer.echo(repr(job))


def _changes(connector: Connector, job: str, *, once: bool) -> Iterator[JobStatus]:
    """Yield the job as it stands now, and then whenever its state changes, until it has ended."""
    pause_s, last = FIRST_PAUSE_S, None
    while True:
        status = _status(connector, job, again=last is not None)
        if status is not None and (last is None or status.state is not last.state):
            pause_s = FIRST_PAUSE_S
            last = status
            yield status
        if once or (last is not None and last.is_final):
            return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _status(connector: Connector, job: str, *, again: bool) -> JobStatus | None:
    """Return how the job stands; None if nobody answered this time, but did before.

    Raises InputError if there is no such job, ConnectorError if nobody has ever answered.
    """
    try:
        found = connector.statuses([job])
    except (ClusterTimeoutError, ClusterUnreachableError) as error:
        if not again:
            raise
        tell(f"{error.problem}; asking again")
        return None
    if job not in found:
        raise InputError(
            f"The cluster knows no job {job!r}",
            expected="the id of a job of yours",
            remedy="`presage jobs` has those that were handed over",
        )
    return found[job]


def _view(connector: Connector, status: JobStatus, trace: Trace | None, progress: str | None) -> dict[str, Any]:
    """Return what is known of a job, plain enough for JSON."""
    starts = {} if status.is_final or status.start_time else _expected_start(connector, status.job_id)
    ends = {} if status.is_final else _expected_end(status, trace)
    return {
        "job_id": status.job_id,
        "state": status.state.value,
        "reason": status.reason or None,
        "partition": status.partition,
        "submit_time": _iso(status.submit_time),
        "start_time": _iso(status.start_time),
        "end_time": _iso(status.end_time),
        "exit_code": status.exit_code,
        "max_rss_bytes": status.max_rss_bytes,
        "asked_at": _iso(datetime.now(UTC)),
        **starts,
        **ends,
        "progress": _progress(progress),
    }


def _expected_start(connector: Connector, job_id: str) -> dict[str, Any]:
    from presage.connectors._base import EstimatesStarts
    from presage.errors import ConnectorError

    if not isinstance(connector, EstimatesStarts):
        return {}
    try:
        expected = connector.expected_starts([job_id]).get(job_id)
    except ConnectorError:
        return {}
    return {} if expected is None else {"scheduler_expects_start": _iso(expected)}


def _expected_end(status: JobStatus, trace: Trace | None) -> dict[str, Any]:
    """Return when a running job ends at the latest, and when most of its earlier runs would have."""
    start = status.start_time
    if start is None:
        return {}
    found: dict[str, Any] = {}
    if status.walltime_s is not None:
        found["limit_ends"] = _iso(start + timedelta(seconds=status.walltime_s))
    spread = _earlier_runs(status, trace)
    if spread is not None:
        ran_s = (datetime.now(UTC) - start).total_seconds()
        quantiles = {"p10": spread.p10, "p50": spread.p50, "p90": spread.p90}
        # What has passed is no forecast any more.
        found["expected_end"] = {
            name: _iso(start + timedelta(seconds=max(seconds, ran_s))) for name, seconds in quantiles.items()
        }
    return found


def _earlier_runs(status: JobStatus, trace: Trace | None) -> Spread | None:
    """Return how long runs of the same script took, if the history has the job and runs like it."""
    import polars as pl

    from presage.estimators.history.matching import earlier_like
    from presage.estimators.history.walltime import HistoryWalltime

    if trace is None:
        return None
    row = trace.jobs.filter(pl.col("job_id") == status.job_id)
    return HistoryWalltime.spread_of(earlier_like(trace, row)) if len(row) else None


def _progress(path: str | None) -> dict[str, Any] | None:
    """Return the last progress that a job told in its file of events; None if there is none."""
    from presage.client.events import EVENTS_FILE, read_events
    from presage.client.run import DEFAULT_FOLDER

    place = Path(path) if path is not None else Path(DEFAULT_FOLDER, EVENTS_FILE)
    try:
        told = [event.values for event, _ in read_events(place) if event.kind == "progress"]
    except OSError:
        return None
    return told[-1] if told else None


def _sentence(view: dict[str, Any]) -> str:
    """Return one line about a job."""
    parts = [f"{view['asked_at']}  {view['state']}"]
    if view["reason"]:
        parts.append(f"({view['reason']})")
    if "scheduler_expects_start" in view:
        parts.append(f"the scheduler expects it to start by {view['scheduler_expects_start']}")
    if "expected_end" in view:
        ends = view["expected_end"]
        parts.append(f"ends {ends['p50']}, between {ends['p10']} and {ends['p90']} in 80 % of cases")
    if "limit_ends" in view:
        parts.append(f"at the latest {view['limit_ends']}")
    if view["start_time"] and view["end_time"]:
        start, end = (datetime.fromisoformat(view[name]) for name in ("start_time", "end_time"))
        parts.append(f"ran {duration((end - start).total_seconds())}")
    if view["progress"]:
        parts.append(f"progress {json_text.dumps(view['progress'], ensure_ascii=False)}")
    return "  ".join(parts)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
