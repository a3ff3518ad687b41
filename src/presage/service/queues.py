"""A queue and the machine that it waits for, as they come with a call, and the decisions that go back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_JOBS = 5000
MOST_NODES = 20_000
MOST_GPUS = 62
"""Of one node: as many as the engine can tell apart."""
_LATEST_S = 1e11
_MOST_BYTES = 1 << 50
Name = Annotated[str, Field(min_length=1, max_length=200)]
Instant = Annotated[float, Field(ge=0, lt=_LATEST_S, allow_inf_nan=False)]
Length = Annotated[float, Field(gt=0, le=1e8, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=5_000_000)]
Cores = Annotated[int, Field(ge=1, le=100_000)]
Gpus = Annotated[int, Field(ge=0, le=MOST_GPUS)]
Bytes = Annotated[int, Field(ge=0, le=_MOST_BYTES)]

POOL_EXAMPLE: dict[str, Any] = {
    "processors": 10,
    "now_s": 1000,
    "policy": "fcfs+easy",
    "running": [{"job_id": "r", "processors": 6, "started_s": 600, "limit_s": 500}],
    "waiting": [
        {"job_id": "wide", "processors": 8, "submitted_s": 900, "limit_s": 300},
        {"job_id": "short", "processors": 3, "submitted_s": 920, "limit_s": 100},
    ],
}
NODES_EXAMPLE: dict[str, Any] = {
    "nodes": [
        {"node_id": "n1", "cores": 64, "gpus": 4, "memory_bytes": 256 << 30},
        {"node_id": "n2", "cores": 64, "memory_bytes": 512 << 30},
    ],
    "now_s": 1000,
    "policy": "sjf+easy@best-fit",
    "running": [{"job_id": "r", "cores": 32, "started_s": 600, "limit_s": 500, "nodes": ["n2"]}],
    "waiting": [
        {"job_id": "train", "cores": 16, "gpus": 2, "memory_bytes": 64 << 30, "submitted_s": 900, "limit_s": 300},
        {"job_id": "flow", "tasks": 2, "cores": 40, "submitted_s": 920, "limit_s": 100},
    ],
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Node(_Part):
    """A node: what it has, those in use included."""

    node_id: Name
    cores: Cores
    gpus: Gpus = 0
    gpu_type: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    memory_bytes: Bytes | None = Field(default=None, description="Null: memory is not looked at on any node.")
    rack: Annotated[str, Field(max_length=100)] | None = None
    used_cores: int = Field(default=0, ge=0, le=100_000, description="Held for ever, by nobody among `running`.")
    used_gpus: Gpus = 0
    used_memory_bytes: Bytes = 0

    @model_validator(mode="after")
    def _holds_what_is_used(self) -> Node:
        over = self.used_cores > self.cores or self.used_gpus > self.gpus
        if over or self.used_memory_bytes > (self.memory_bytes or _MOST_BYTES):
            raise ValueError("more of the node is used than it has")
        return self


class _Job(_Part):
    job_id: Name
    processors: Count | None = Field(default=None, description="Of a pool; without a pool see `cores`.")
    tasks: int = Field(default=1, ge=1, le=100_000, description="Equal parts that start together, on nodes alone.")
    cores: Cores = Field(default=1, description="Of each task; one task is on one node.")
    gpus: Gpus = Field(default=0, description="Of each task.")
    memory_bytes: Bytes = Field(default=0, description="Of each task.")
    limit_s: Length = Field(description="How long it may run, or will by the best forecast.")


class WaitingJob(_Job):
    """A job that waits."""

    submitted_s: Instant = Field(description="When, on any clock; `now_s` is on the same.")
    expected_s: Length | None = Field(
        default=None, description="How long it will run by a forecast, for the order alone; null: its limit."
    )
    gpu_type: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="The only type that will do."
    )
    urgent: bool = Field(
        default=False, description="An operator wants it before all others, whatever the policy says."
    )


class RunningJob(_Job):
    """A job that holds processors."""

    started_s: Instant
    nodes: Annotated[list[Name], Field(max_length=MOST_NODES)] = Field(
        default=[], description="The node of each task; one that holds several is named as often."
    )


class ScheduleRequest(_Part):
    """A queue, and the machine that it waits for: a pool of `processors`, or `nodes`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [POOL_EXAMPLE, NODES_EXAMPLE]})

    processors: Count | None = Field(default=None, description="Of a pool, those in use included.")
    nodes: Annotated[list[Node], Field(min_length=1, max_length=MOST_NODES)] | None = None
    now_s: Instant
    waiting: Annotated[list[WaitingJob], Field(max_length=MOST_JOBS)]
    running: Annotated[list[RunningJob], Field(max_length=MOST_JOBS)] = []
    policy: str = Field(
        default="fcfs+easy",
        max_length=200,
        description="ORDER, ORDER+BACKFILLING or, on nodes, ORDER+BACKFILLING@PLACEMENT, as GET /policies lists "
        "them; an order may also be a learned one: `default`, `index` or another that the operator offers.",
    )

    @model_validator(mode="after")
    def _has_one_machine(self) -> ScheduleRequest:
        if (self.processors is None) == (self.nodes is None):
            raise ValueError("either processors or nodes must be given")
        return self


class Decision(BaseModel):
    """What to do with one job."""

    job_id: str
    action: Literal["start", "wait", "refuse"] = Field(
        description="start: now; wait: until start_s; refuse: it can never start on this machine."
    )
    processors: int
    nodes: list[str] | None = Field(
        default=None, description="Of a job that starts on nodes: where each of its tasks goes."
    )
    start_s: float | None = Field(description="If everybody runs to his limit and nobody else comes.")


class ScheduleAnswer(BaseModel):
    """Decisions, first things first: by start, and in the policy's order among those that start together."""

    policy: str
    decisions: list[Decision]
    free_processors: int = Field(description="After the jobs that start now have started.")
    decided_in_ms: float
