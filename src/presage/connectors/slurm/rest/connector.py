"""slurmrestd as a connector."""

from __future__ import annotations

import json
import os
from datetime import UTC, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from presage.connectors._base import Connector, HoldsJobs, JobStatus, ReadsHistory, Submission
from presage.connectors.slurm.history import keeps_no_records, no_records, read_records
from presage.connectors.slurm.rest import jobs
from presage.connectors.slurm.rest.client import TIMEOUT_S, SlurmRestClient, errors_of, problem_of
from presage.connectors.slurm.rest.payload import body_of
from presage.connectors.slurm.words import POLICY
from presage.errors import ClusterBusyError, ClusterUnreachableError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime
    from typing import Any

    from presage.traces import Trace

VARIABLES = {
    "address": "PRESAGE_SLURM_REST_ADDRESS",
    "user": "PRESAGE_SLURM_REST_USER",
    "token_file": "PRESAGE_SLURM_REST_TOKEN_FILE",
}
"""Where a setting that is not given comes from. SLURM_JWT may have the token itself."""
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
_NOT_AN_ERROR = ("Invalid job id", "already completing or completed", "has already finished", "is not pending")
_ZONE_DAYS = 1


class SlurmRestConnector(Connector, ReadsHistory, HoldsJobs):
    """The Slurm cluster of a slurmrestd, asked in the name of `user`: who runs this without it.

    `address` is `http://127.0.0.1:6820`, `https://…` or `unix:/PATH`; `token` a text, a file or a function, see
    `SlurmRestClient`. What is not given comes from the environment (`VARIABLES`). Raises ConfigError if there is
    no address. `environment` is what every job has besides what its submission adds; nothing of this process's
    own gets there. The key of a submission stands in the job's comment, which the accounting keeps only with
    AccountingStoreFlags=job_comment.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        user: str | None = None,
        token: str | Path | Callable[[], str] | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        address = address or os.environ.get(VARIABLES["address"])
        if not address:
            raise ConfigError(
                "The address of slurmrestd is not given",
                remedy=f"Give it, or set the variable {VARIABLES['address']}: http://127.0.0.1:6820 for example",
            )
        user = user or os.environ.get(VARIABLES["user"])
        if token is None and (file := os.environ.get(VARIABLES["token_file"])):
            token = Path(file)
        self.client = SlurmRestClient(address, user=user, token=token, timeout_s=timeout_s)
        self.environment = dict(environment)

    def submit(self, submission: Submission) -> str:
        body = body_of(submission, self.environment)
        answer = self.client.ask("POST", "slurm", "job/submit", body=body)
        job_id = str(answer.get("job_id") or "")
        if jobs.is_single(job_id):
            return job_id  # with "errors" too: for a job that is held it says both
        words = errors_of(answer)
        if not words:
            raise ClusterUnreachableError(
                "slurmrestd answered without a job's id where one was expected",
                remedy="Look for the job by its key; it may be there",
            )
        if POLICY in words and self._has_jobs():
            raise ClusterBusyError(f"slurmrestd: {words}", remedy="Submit it again when fewer jobs wait")
        raise problem_of(f"slurmrestd said no: {words}")

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        return jobs.statuses(self.client, job_ids)

    def cancel(self, job_ids: Collection[str]) -> None:
        for job_id in _known(job_ids):
            self._tell(self.client.ask("DELETE", "slurm", f"job/{job_id}"))

    def find(self, key: str) -> str | None:
        return jobs.find(self.client, key)

    def hold(self, job_ids: Collection[str]) -> None:
        self._update(job_ids, {"hold": True})

    def release(self, job_ids: Collection[str]) -> None:
        self._update(job_ids, {"hold": False})

    def history(self, since: datetime, user: str | None = None) -> Trace:
        # slurmrestd reads times in its own zone, which nobody tells: ask for more, and leave that out again.
        start = (since.astimezone(UTC) - timedelta(days=_ZONE_DAYS)).strftime(jobs.TIME_FORMAT)
        kept = self.client.list_of("slurmdb", "jobs", {"start_time": start})
        if kept is None:
            raise keeps_no_records()
        chosen = [job for job in kept if _is_since(job, since) and user in (None, job.get("user"))]
        return read_records(json.dumps({"jobs": chosen}), "sacct-json") if chosen else no_records()

    def _has_jobs(self) -> bool:
        """Whether the user has jobs that wait or run.

        slurmrestd does not say which limit a job breaks. A limit on the number of jobs can only be reached by
        one who has some; a job that is too large is refused for good as soon as its owner has no other.
        """
        return any(not job.is_final for job in jobs.queue(self.client, self.client.user))

    def _update(self, job_ids: Collection[str], changes: Mapping[str, Any]) -> None:
        for job_id in _known(job_ids):
            self._tell(self.client.ask("POST", "slurm", f"job/{job_id}", body=changes))

    def _tell(self, answer: dict[str, Any]) -> None:
        """Raise what went wrong; that a job is unknown or has ended already is no error."""
        words = errors_of(answer)
        if words and not any(mark in words for mark in _NOT_AN_ERROR):
            raise problem_of(f"slurmrestd said no: {words}")


def _known(job_ids: Collection[str]) -> list[str]:
    return [job_id for job_id in dict.fromkeys(job_ids) if jobs.is_single(job_id)]


def _is_since(job: dict[str, Any], since: datetime) -> bool:
    times = job.get("time")
    end_s = times.get("end") if isinstance(times, dict) else None
    return not isinstance(end_s, int) or end_s == 0 or end_s >= since.timestamp()
