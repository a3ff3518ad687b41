"""Tapis as a connector."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from presage.connectors._base import Connector, Discovers, JobStatus, KeepsMessages, Submission
from presage.connectors.tapis import discovery, events, jobs
from presage.connectors.tapis.applications import register
from presage.connectors.tapis.client import TIMEOUT_S, TapisClient
from presage.connectors.tapis.defaults import TapisDefaults
from presage.connectors.tapis.requests import job_request
from presage.errors import ClusterRefusedError, ClusterTimeoutError, ClusterUnreachableError
from presage.traces.schema import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import httpx

    from presage.clusters.systems import System
    from presage.connectors.tapis.applications import Application

_POLL_S = 0.5
_MOST_EVENTS = 500
"""Of a job's history, read at once for what it tells."""
_NOT_THERE = (400, 404, 409)
"""What Tapis says of a job that it does not know, or that has ended."""


class TapisConnector(Connector, Discovers, KeepsMessages):
    """One execution system of a Tapis tenant, asked in the name of one user.

    Who asks is said by a token, a function that gives one, or by username and password, with which tokens are got
    and renewed. What is not given comes from the environment and from the settings `[tapis]`. The script of a job
    runs inside the container of `application`, which is registered when the first job is submitted, if it is not
    there. The key of a submission is a tag of the job. Raises ConfigError if address, system or user are missing.

    Tapis can neither hold nor signal jobs, nor say when they will start. Jobs wait for others by means of the
    system's own scheduler, which must be Slurm: `submit` waits until those have reached it, up to `timeout_s`.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        system: str | None = None,
        token: str | Callable[[], str] | None = None,
        username: str | None = None,
        password: str | None = None,
        application: Application | None = None,
        profile: str | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        settings = TapisDefaults()
        if token is None and password is None:
            username = username or settings.find("username")
            password = settings.find("password") if username else None
            token = None if password else settings.token()
        self.system = system or settings.need("system")
        self.application = application or settings.application()
        self.profile = profile or settings.find("profile")
        self.client = TapisClient(
            base_url or settings.need("base_url"),
            token=token,
            username=username,
            password=password,
            timeout_s=timeout_s,
            transport=transport,
        )
        self._is_registered = False

    def submit(self, submission: Submission) -> str:
        return self._submit(submission, None)

    def submit_image(self, submission: Submission, variables: Mapping[str, str]) -> str:
        """Have the image of the application run as it is, and return the id of the job.

        Of the submission, what it asks for counts, and nothing of its script. What the image gets are `variables`,
        of letters, digits, dashes and underscores. Raises as `submit` does.
        """
        return self._submit(submission, variables)

    def _submit(self, submission: Submission, variables: Mapping[str, str] | None) -> str:
        request = job_request(
            submission,
            self.application,
            self.system,
            dependencies=self._dependencies(submission),
            profile=self.profile,
            variables=variables,
        )
        self.register()
        answer = self.client.ask("POST", "jobs", "submit", body=request, is_repeatable=False)
        job_id = answer.result.get("uuid") if isinstance(answer.result, dict) else None
        if not isinstance(job_id, str) or not jobs.is_job_id(job_id):
            raise ClusterUnreachableError(
                f"Tapis answered {str(answer.result)[:80]!r} where a job was expected",
                remedy="Look for the job by its key; it may be there",
            )
        return job_id

    def statuses(self, job_ids: Collection[str]) -> dict[str, JobStatus]:
        return jobs.statuses(self.client, job_ids)

    def cancel(self, job_ids: Collection[str]) -> None:
        refused = {}
        for job_id in filter(jobs.is_job_id, dict.fromkeys(job_ids)):
            answer = self.client.ask("POST", "jobs", job_id, "cancel", accepted=_NOT_THERE)
            if answer.status in _NOT_THERE:
                refused[job_id] = answer
        for job_id, status in self.statuses(refused).items():
            if not status.is_final:
                raise ClusterRefusedError(f"Tapis does not cancel the job {job_id}: {refused[job_id].message}")

    def find(self, key: str) -> str | None:
        return jobs.find(self.client, key)

    def discover(self, name: str | None = None) -> System:
        return discovery.discover(self.client, self.system, name)

    def register(self) -> None:
        """Create the application in Tapis if it is not there. Raises ConnectorError."""
        if not self._is_registered:
            register(self.client, self.application)
            self._is_registered = True

    def tell(self, job_id: str, data: Mapping[str, Any], detail: str = "progress") -> None:
        """Add a user event to a job that has not ended, of its progress for example. Raises ConnectorError."""
        events.send_event(self.client, job_id, data, detail)

    def told(self, job_id: str) -> list[events.HistoryEvent]:
        """Return the user events of a job, the oldest first. Raises ConnectorError."""
        return [event for event in events.history(self.client, job_id) if event.kind == events.KIND]

    def messages(self, job_id: str, after: int = 0) -> tuple[list[dict[str, Any]], int]:
        found = events.history(self.client, job_id, after=after, most=_MOST_EVENTS)
        told = (events.message_in(event) for event in found)
        return [message for message in told if message is not None], after + len(found)

    def _dependencies(self, submission: Submission) -> list[str]:
        """Return the scheduler's own ids of the jobs to wait for, which they get some time after Tapis's."""
        for job_id in submission.depends_on:
            if not jobs.is_job_id(job_id):
                raise ClusterRefusedError(f"There is no job {job_id[:40]!r} to wait for")
        deadline_s = time.monotonic() + self.client.timeout_s
        while True:
            found = {job["uuid"]: job for job in jobs.records(self.client, submission.depends_on)}
            missing = [job_id for job_id in submission.depends_on if job_id not in found]
            if missing:
                raise ClusterRefusedError(f"There is no job {missing[0]!r} to wait for")
            active = [job for job in found.values() if _must_be_awaited(job, submission.only_after_success)]
            if all(job.get("remoteJobId") for job in active):
                return [str(job["remoteJobId"]) for job in active]
            if time.monotonic() > deadline_s:
                raise ClusterTimeoutError(
                    "The jobs to wait for have not reached the scheduler of the system yet",
                    remedy="Submit this one again when they wait there",
                )
            time.sleep(_POLL_S)


def _must_be_awaited(job: Mapping[str, Any], only_after_success: bool) -> bool:
    """Return whether a job has yet to end. Raises ClusterRefusedError if what is waited for will never be."""
    status = jobs.parse_job(job)
    if only_after_success and status.is_final and status.state is not Outcome.COMPLETED:
        raise ClusterRefusedError(f"The job {status.job_id} to wait for did not complete: {status.state}")
    return not status.is_final
