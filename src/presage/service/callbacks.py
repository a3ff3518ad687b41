"""What jobs tell of themselves over the network: a secret for each job, and every message taken once.

A message is kept until the plane reads it, beside the file of events in the job's folder, at its next look at the
job. So all the plane's bounds hold for it, and nothing but the plane changes a job.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from presage.client.callbacks import ADDRESS_VARIABLE, TOKEN_VARIABLE
from presage.errors import PresageError
from presage.orchestrator.jobs import FINAL
from presage.orchestrator.messages import MOST_UNREAD, add_message, unread
from presage.service.answers import ConflictError, TooManyCallsError
from presage.service.tables import CallbackRow

if TYPE_CHECKING:
    from presage.database import Database
    from presage.orchestrator.jobs import ManagedJob, Order

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

    def take(self, job: ManagedJob, sub_job: int, sequence: int, event: dict[str, Any]) -> None:
        """Take one message. Raises ConflictError for one that was taken before, or of a job that has ended.

        Raises TooManyCallsError while too much of what the job told was not read yet.
        """
        if job.phase in FINAL:
            raise ConflictError(f"The job is {job.phase.value}: it has nothing more to tell")
        read_to = job.progress.message if job.progress is not None else 0
        with self._database.writing(_LOCK) as session:
            row = session.get(CallbackRow, job.job_id)
            if row is None or (sub_job, sequence) <= (row.sub_job, row.sequence):
                raise ConflictError(
                    f"Message {sequence} of job {sub_job} was told before, or a later one was",
                    expected="numbers that grow",
                )
            numbered = {**event, "sub_job": sub_job, "sequence": sequence}
            add_message(session, job.job_id, numbered, read_to)
            if unread(session, job.job_id) > MOST_UNREAD:
                raise TooManyCallsError("Too much of what the job told was not read yet", remedy="Try again later")
            row.sub_job, row.sequence = sub_job, sequence


def without_secret(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a job, without what only the job itself should know."""
    order = document["order"]
    environment = {name: each for name, each in order["environment"].items() if name != TOKEN_VARIABLE}
    return {**document, "order": {**order, "environment": environment}}


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
