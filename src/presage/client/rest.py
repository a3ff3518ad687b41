"""The service from a program: hand jobs over, look after them. Only httpx is needed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import httpx

from presage.errors import ClusterUnreachableError, PresageError, unknown_job

if TYPE_CHECKING:
    from collections.abc import Iterator

API = "/api/v1"
TIMEOUT_S = 30.0
_JOB_ID = re.compile(r"j[0-9a-f]{11}")


class ServiceError(PresageError):
    """The service said no."""

    code = "service"
    exit_code = 8


class ServiceClient:
    """A service by its address and a token. Raises ServiceError with its words, ClusterUnreachableError."""

    is_remote = True

    def __init__(self, address: str, token: str, *, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=TIMEOUT_S, transport=transport)

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def hand_over(self, order: dict[str, Any]) -> dict[str, Any]:
        """Hand a job over; returns it with its id."""
        return self._call("POST", "/jobs", json=order)

    def jobs(self, *, active_only: bool = False) -> list[dict[str, Any]]:
        """Return one's own jobs, the newest first."""
        jobs: list[dict[str, Any]] = self._call("GET", "/jobs", params={"active": active_only})["jobs"]
        return jobs

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""
        return self._call("GET", _path(job_id))

    def stop(self, job_id: str) -> dict[str, Any]:
        """Stop a job for good."""
        return self._call("POST", _path(job_id, "/stop"))

    def decisions(self, job_id: str) -> list[dict[str, Any]]:
        """Return what was decided about a job, and why."""
        decisions: list[dict[str, Any]] = self._call("GET", _path(job_id, "/decisions"))["decisions"]
        return decisions

    def events(self, job_id: str, after: int = 0) -> list[dict[str, Any]]:
        """Return what happened to a job since then."""
        path = _path(job_id, "/events")
        events: list[dict[str, Any]] = self._call("GET", path, params={"after": after})["events"]
        return events

    def follow(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """Give what happens to one's own jobs as it happens."""
        try:
            with self._http.stream("GET", f"{API}/jobs/events", params={"after": after}, timeout=None) as answer:
                for line in answer.iter_lines():
                    if line.startswith("data: "):
                        yield json.loads(line.removeprefix("data: "))
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _call(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, f"{API}{path}", **how)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        try:
            document: dict[str, Any] = answer.json()
        except ValueError:
            document = {}
        if answer.is_error:
            said = document.get("error", {})
            problem = said.get("problem") or f"The service answered {answer.status_code}"
            raise ServiceError(problem, expected=said.get("expected", ""), remedy=said.get("remedy", ""))
        return document

    def _unreachable(self, error: httpx.HTTPError) -> ClusterUnreachableError:
        return ClusterUnreachableError(
            f"The service at {self._http.base_url} does not answer: {type(error).__name__}",
            remedy="Start one with `presage up`, or correct the setting service.address",
        )


def _path(job_id: str, rest: str = "") -> str:
    """Return where the service has a job. Raises UnknownNameError for what is no id of one."""
    if _JOB_ID.fullmatch(job_id) is None:
        raise unknown_job(job_id)
    return f"/jobs/{job_id}{rest}"
