"""What jobs tell of themselves over the network: a secret for each job, and every message taken once.

A message is put where the plane reads what jobs tell anyway, the file of events in the job's folder. So all the
plane's bounds hold for it, and nothing but the plane changes a job.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from presage.client.events import EVENTS_FILE, EventFile
from presage.errors import PresageError
from presage.orchestrator.jobs import FINAL
from presage.orchestrator.submissions import make_run_folder
from presage.service.answers import ConflictError
from presage.service.tables import CallbackRow

if TYPE_CHECKING:
    from presage.database import Database
    from presage.orchestrator.jobs import ManagedJob, Order

TOKEN_VARIABLE = "PRESAGE_CALLBACK_TOKEN"  # noqa: S105  (the name of a variable, not a secret)
ADDRESS_VARIABLE = "PRESAGE_CALLBACK_ADDRESS"
_LOCK = "callbacks"
_SECRET_BYTES = 32


class WrongSecretError(PresageError):
    """Whoever calls is not the job."""

    code = "unauthenticated"


class Callbacks:
    """The secrets of jobs in a database. `address` is where jobs find the service; empty: they are not told."""

    def __init__(self, database: Database, address: str = "") -> None:
        self._database = database
        self.address = address

    def prepare(self, order: Order) -> tuple[Order, str]:
        """Return an order whose jobs get a new secret with their environment, and the secret."""
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        added = {TOKEN_VARIABLE: secret} | ({ADDRESS_VARIABLE: self.address} if self.address else {})
        return replace(order, environment={**order.environment, **added}), secret

    def allow(self, job_id: str, secret: str) -> None:
        """Let a job that was taken over use its secret from now on."""
        with self._database.writing(_LOCK) as session:
            session.add(CallbackRow(job_id=job_id, digest=_digest(secret), sub_job=0, sequence=0))

    def authenticate(self, job_id: str, secret: str) -> None:
        """Raise WrongSecretError unless the secret is that of the job."""
        with self._database.reading() as session:
            row = session.get(CallbackRow, job_id)
        if row is None or not hmac.compare_digest(row.digest, _digest(secret)):
            raise WrongSecretError(
                "The call has no valid token of this job", remedy=f"Send what {TOKEN_VARIABLE} has"
            )

    def take(self, job: ManagedJob, sub_job: int, sequence: int, kind: str, values: dict[str, Any]) -> None:
        """Take one message. Raises ConflictError for one that was taken before, or of a job that has ended."""
        if job.phase in FINAL:
            raise ConflictError(f"The job is {job.phase.value}: it has nothing more to tell")
        folder = _folder(job)
        with self._database.writing(_LOCK) as session:
            row = session.get(CallbackRow, job.job_id)
            if row is None or (sub_job, sequence) <= (row.sub_job, row.sequence):
                raise ConflictError(
                    f"Message {sequence} of job {sub_job} was told before, or a later one was",
                    expected="numbers that grow",
                )
            row.sub_job, row.sequence = sub_job, sequence
        EventFile(folder / EVENTS_FILE).tell(kind, **values)


def without_secret(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a job, without what only the job itself should know."""
    order = document["order"]
    environment = {name: each for name, each in order["environment"].items() if name != TOKEN_VARIABLE}
    return {**document, "order": {**order, "environment": environment}}


def _folder(job: ManagedJob) -> Path:
    """Return where a job tells of itself. Raises ConflictError if there is no such place."""
    if job.order.run_folder is None:
        raise ConflictError("The job has no run folder in which it could be remembered what it tells")
    make_run_folder(job)
    folder = Path(job.order.run_folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConflictError("The plane cannot write to the job's run folder")
    return folder


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
