"""Where managed jobs are: behind a service that is configured or runs here, else in this machine's database."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from presage.client.rest import ServiceClient
    from presage.orchestrator.store import Store


class JobsPlace(Protocol):
    """What commands do with jobs; documents as the service gives them."""

    is_remote: bool
    """Whether somebody else looks after them."""

    def hand_over(self, order: dict[str, Any]) -> dict[str, Any]:
        """Hand a job over."""

    def jobs(self, *, active_only: bool = False) -> list[dict[str, Any]]:
        """Return one's own jobs."""

    def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""

    def stop(self, job_id: str) -> dict[str, Any]:
        """Stop a job."""

    def decisions(self, job_id: str) -> list[dict[str, Any]]:
        """Return what was decided."""

    def events(self, job_id: str, after: int = 0) -> list[dict[str, Any]]:
        """Return what happened."""


def jobs_place() -> JobsPlace:
    """Return where jobs are: the service that is configured, that of `presage up` here, or the database.

    Raises ConfigError for settings that cannot be used.
    """
    return running_service() or _database()


def running_service() -> ServiceClient | None:
    """Return the service that is configured, else the one that this user runs on this machine, else None."""
    from presage.config import load_settings
    from presage.database import state_home
    from presage.service.announcement import announced

    settings = load_settings()
    configured = settings.service
    if configured.address is not None:
        from presage.client.rest import ServiceClient

        return ServiceClient(configured.address, configured.token.get_secret_value() if configured.token else "")
    if (found := announced(state_home(settings))) is None:
        return None
    import httpx

    from presage.client.rest import ServiceClient

    # A transport of its own: no proxy stands between two processes of one machine, or should see the token.
    return ServiceClient(found.address, found.token, transport=httpx.HTTPTransport())


def _database() -> JobsPlace:
    from presage.database import Database
    from presage.orchestrator.store import Store

    return _Here(Store(Database()))


class _Here:
    """The jobs of this machine's database, as its user."""

    is_remote = False

    def __init__(self, store: Store) -> None:
        self._store = store

    def hand_over(self, order: dict[str, Any]) -> dict[str, Any]:
        from presage.orchestrator.documents import job_document
        from presage.orchestrator.jobs import parse_order

        return job_document(self._store.add(getpass.getuser(), parse_order(order)))

    def jobs(self, *, active_only: bool = False) -> list[dict[str, Any]]:
        from presage.orchestrator.documents import job_document

        return [job_document(job) for job in self._store.jobs(active_only=active_only)]

    def job(self, job_id: str) -> dict[str, Any]:
        from presage.orchestrator.documents import job_document

        return job_document(self._store.get(job_id), with_order=True)

    def stop(self, job_id: str) -> dict[str, Any]:
        from presage.orchestrator.documents import job_document

        return job_document(self._store.stop(job_id))

    def decisions(self, job_id: str) -> list[dict[str, Any]]:
        self._store.get(job_id)
        return self._store.decisions(job_id)

    def events(self, job_id: str, after: int = 0) -> list[dict[str, Any]]:
        from presage.orchestrator.documents import event_document

        self._store.get(job_id)
        return [event_document(event) for event in self._store.events(after, job_id=job_id)]
