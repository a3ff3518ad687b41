"""Callbacks: what a running job tells of itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from presage.client.events import event_document
from presage.orchestrator.jobs import ManagedJob
from presage.orchestrator.store import utc_now
from presage.service.answers import documented
from presage.service.callbacks import WrongSecretError
from presage.service.callers import TheState
from presage.service.routers.jobs import JobId
from presage.service.tokens import Caller, Scope

router = APIRouter(prefix="/jobs", tags=["callbacks"])

_JOB_TOKEN = HTTPBearer(
    auto_error=False, scheme_name="job", description="What a job has in PRESAGE_CALLBACK_TOKEN; of that job alone."
)
_MOST_VALUES = 100
_LONGEST_TEXT = 1000

Name = Annotated[str, Field(min_length=1, max_length=100)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=_LONGEST_TEXT)]
Value = Number | bool | Text | None


class Kind(StrEnum):
    """What a message is about."""

    PROGRESS = "progress"
    PERFORMANCE = "performance"
    UTILIZATION = "utilization"


class Message(BaseModel):
    """One thing that a job tells."""

    model_config = ConfigDict(extra="forbid")

    sub_job: int = Field(ge=1, lt=2**31, description="What the job has in PRESAGE_SUB_JOB.")
    sequence: int = Field(
        ge=1, lt=2**63, description="Higher than that of every message before, within a sub-job."
    )
    kind: Kind
    time: AwareDatetime | None = Field(default=None, description="When it was so, by the job's clock; null: now.")
    done: Number | None = Field(default=None, ge=0, description="Of progress: how much is done.")
    total: Number | None = Field(default=None, gt=0, description="Of progress: how much there is to do.")
    unit: Annotated[str, Field(max_length=40)] = "steps"
    elapsed_s: Number | None = Field(default=None, ge=0, description="Of progress: how long that took.")
    metrics: dict[Name, Value] = Field(
        default={}, max_length=_MOST_VALUES, description="Of performance (accuracy, loss…) and of utilization."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Message:
        if self.kind is Kind.PROGRESS and (self.done is None or self.total is None):
            raise ValueError("progress needs done and total")
        if self.kind is not Kind.PROGRESS and not self.metrics:
            raise ValueError(f"{self.kind.value} needs metrics")
        return self

    def event(self) -> dict[str, Any]:
        """Return it as a line of the file of events."""
        return event_document(self.kind.value, self.time or utc_now(), self._values())

    def _values(self) -> dict[str, Any]:
        if self.kind is Kind.PROGRESS:
            return {"done": self.done, "total": self.total, "unit": self.unit, "elapsed_s": self.elapsed_s}
        return {"metrics": self.metrics} if self.kind is Kind.PERFORMANCE else dict(self.metrics)


def _job_itself(
    request: Request,
    state: TheState,
    job_id: JobId,
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_JOB_TOKEN)],
) -> ManagedJob:
    """Return the job whose token was sent. Of jobs that do not exist it is not told that they do not."""
    if given is None:
        raise WrongSecretError("The call has no token", remedy="Send 'Authorization: Bearer TOKEN'")
    state.callbacks.authenticate(job_id, given.credentials)
    job = state.store.get(job_id)
    request.state.caller = Caller(job.owner, Scope.USER, f"job {job_id}")  # for the record of calls
    request.state.is_unrecorded = True  # it is in the events of the job
    return job


@router.post("/{job_id}/callbacks", status_code=202, responses=documented(409))
def tell(state: TheState, job: Annotated[ManagedJob, Depends(_job_itself)], message: Message) -> dict[str, int]:
    """Take what a job tells of itself; each message once, until the job ends."""
    state.callbacks.take(job, message.sub_job, message.sequence, message.event())
    return {"sequence": message.sequence}
