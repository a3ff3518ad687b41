"""Jobs as Slurm's commands print them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class SlurmJob:
    """What Slurm says of a job; times are whole seconds since 1970 on the cluster's clock, None where unknown."""

    number: int
    name: str
    state: str
    nodes: int
    limit: str
    submit: int | None
    start: int | None
    end: int | None
    backfilled: bool
    """Whether the backfill thread looked at it last; for a started job, whether that thread started it."""


def parse_job(line: str) -> SlurmJob:
    """Return the job of a line of `scontrol --oneliner show jobs`."""
    told = dict(entry.split("=", 1) for entry in line.split() if "=" in entry)
    return SlurmJob(
        number=int(told["JobId"]),
        name=told["JobName"],
        state=told["JobState"],
        nodes=int(told["NumNodes"].partition("-")[0]),
        limit=told["TimeLimit"],
        submit=_parse_time(told["SubmitTime"]),
        start=_parse_time(told["StartTime"]),
        end=_parse_time(told["EndTime"]),
        backfilled=told.get("Scheduler", "").startswith("Backfill"),
    )


def _parse_time(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None
