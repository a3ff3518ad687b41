"""What the plane looks after: a job that was handed over, and the jobs of clusters that it takes to do it."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError

from presage.connectors._base import JobStatus
from presage.errors import InputError
from presage.traces.schema import Outcome


class Phase(StrEnum):
    """How a managed job stands. The last three are final."""

    ACTIVE = "active"
    STOPPING = "stopping"
    """Its owner wants it to end."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})


class Ending(StrEnum):
    """How a job of the cluster ended, as rules speak of it."""

    COMPLETED = "completed"
    CONTINUED = "to-be-continued"
    """It was told to save, did, and ended before it was done."""
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    NODE_FAILURE = "node-failure"
    PREEMPTED = "preempted"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """By somebody else than the plane."""
    REFUSED = "refused"
    """The cluster did not take it."""
    LOST = "lost"
    """The cluster does not know it any more."""
    MOVED = "moved"
    """The plane ended it, to go on elsewhere."""


class Unit(StrEnum):
    """What an elastic job can have more or fewer of."""

    NODES = "nodes"
    CORES = "cores"
    """On each node."""
    GPUS = "gpus"
    """On each node."""


class OnOutOfMemory(StrEnum):
    """What the owner of a job wants when its memory does not suffice."""

    MORE_MEMORY = "more-memory"
    BIGGER_NODE = "bigger-node"
    """Another of the places that it may run at, with more memory."""
    HALF_BATCH = "half-batch"
    """Half the batch and twice the accumulation, told to the job by PRESAGE_BATCH_DIVISOR."""
    FAIL = "fail"


@dataclass(frozen=True)
class Place:
    """Where a job of the cluster runs and what it gets. Amounts are those of one node."""

    cluster: str
    partition: str | None = None
    nodes: int = 1
    cores: int | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    constraint: str | None = None
    """Features of its nodes, where the partition has several kinds."""
    memory_bytes: int | None = None
    walltime_s: float | None = None
    """What is asked for; no more than `limit_s`."""
    limit_s: float | None = None
    """What may be asked for there."""
    most_memory_bytes: int | None = None
    """What a node there has."""
    work_s: float | None = None
    """How long all of the job is expected to take there; None: as long as the order says."""

    @property
    def spot(self) -> tuple[str | None, ...]:
        """What tells a place from others, whatever is asked for there."""
        return self.cluster, self.partition, self.gpu_type, self.constraint

    @property
    def title(self) -> str:
        """`cluster/partition:gpu:features`, as far as it has them."""
        partition = "" if self.partition is None else f"/{self.partition}"
        return self.cluster + partition + "".join(f":{each}" for each in (self.gpu_type, self.constraint) if each)


@dataclass(frozen=True)
class Elastic:
    """How many workers a job may have; the next of its jobs gets as many as what was measured says is right."""

    least: int
    most: int
    unit: Unit = Unit.NODES
    efficiency: float = 0.6
    """More workers are kept only if the work goes at least this share of as many times faster."""


@dataclass(frozen=True)
class Order:
    """A job as it was handed over. `places` are those it may run at, the best first."""

    name: str
    script: str
    places: tuple[Place, ...]
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    run_folder: str | None = None
    """Where it saves itself and tells its progress; None: it cannot go on where it stopped."""
    account: str | None = None
    qos: str | None = None
    work_s: float | None = None
    """How long all of it is expected to take at the first place."""
    on_out_of_memory: OnOutOfMemory = OnOutOfMemory.MORE_MEMORY
    memory_ceiling_bytes: int | None = None
    elastic: Elastic | None = None
    """None: it always gets what its place says."""
    signal_before_s: float = 120.0
    most_sub_jobs: int = 50
    most_failures: int = 3
    """Endings in a row that are nobody's plan and brought no progress, before the job is given up."""
    predictions: tuple[dict[str, Any], ...] = ()
    """What was predicted of it, as `estimators.repository.carrying` writes it; settled when it has ended."""

    @property
    def is_resumable(self) -> bool:
        """Whether a job that was cut off can go on."""
        return self.run_folder is not None


@dataclass(frozen=True)
class SubJob:
    """One job of a cluster on behalf of a managed job."""

    number: int
    key: str
    place: Place
    batch_divisor: int = 1
    tries: int = 0
    """How often somebody began to submit it."""
    tried_at: datetime | None = None
    misses: int = 0
    """How often in a row the cluster did not know it."""
    cluster_job_id: str | None = None
    status: JobStatus | None = None
    """What the cluster said last; None before it has said anything."""
    ending: Ending | None = None
    reason: str = ""
    follows: str | None = None
    """The cluster's id of the job after which it may start."""
    done_before: float | None = None
    """Progress when it was submitted, and when it ended."""
    done_after: float | None = None
    is_cancelled_by_us: bool = False
    takes_over: int | None = None
    """The sub-job that is told to save and end when this one starts; this one holds itself until it has."""
    moves_to: Place | None = None
    """Where the work goes on when this one has ended, as it is told to."""
    moves_since: datetime | None = None

    @property
    def is_submitting(self) -> bool:
        """Whether it is not known yet that the cluster has it."""
        return self.cluster_job_id is None and self.ending is None

    @property
    def is_running(self) -> bool:
        """Whether it runs, as far as is known."""
        return self.ending is None and self.status is not None and self.status.state is Outcome.RUNNING


@dataclass(frozen=True)
class Progress:
    """How far a job is, in a unit of its own, and how fast it was lately."""

    done: float
    total: float
    at: datetime
    per_s: float | None = None
    offset: int = 0
    """Where in the file of its events it was read to."""
    told: float | None = None
    """What was done when its progress was last made an event."""
    message: int = 0
    """The number of the last message over the network that was read."""
    heard: tuple[tuple[int, int, int], ...] = ()
    """What was heard of it, by file or network: sub-job, first and last number; see `hearing`."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """What it told last of how good it is."""
    utilization: dict[str, Any] = field(default_factory=dict)
    """What it told last of what it uses."""

    @property
    def is_known(self) -> bool:
        """Whether it has told of any; without a total only the file of its events was begun to be read."""
        return self.total > 0

    @property
    def left_s(self) -> float | None:
        """How long the rest takes at that rate."""
        left_s = (self.total - self.done) / self.per_s if self.per_s else None
        return left_s if left_s is not None and math.isfinite(left_s) else None


@dataclass(frozen=True)
class ManagedJob:
    """A job that was handed over, with all that is known of it."""

    job_id: str
    owner: str
    order: Order
    phase: Phase
    created_at: datetime
    sub_jobs: tuple[SubJob, ...] = ()
    progress: Progress | None = None
    reason: str = ""

    @property
    def state(self) -> str:
        """How it stands, in a word: submitting, queued, running, stopping, or how it ended."""
        if self.phase is not Phase.ACTIVE:
            return self.phase.value
        live = [each for each in self.sub_jobs if each.ending is None]
        if any(each.is_running for each in live):
            return "running"
        return "queued" if any(each.cluster_job_id for each in live) else "submitting"

    def sub_job(self, number: int | None) -> SubJob:
        """Return the sub-job of a number. Raises KeyError."""
        found = next((each for each in self.sub_jobs if each.number == number), None)
        if found is None:
            raise KeyError(number)
        return found

    def with_sub_job(self, sub_job: SubJob) -> ManagedJob:
        """Return the job with one of its sub-jobs, by number, in another state."""
        others = [each for each in self.sub_jobs if each.number != sub_job.number]
        return replace(self, sub_jobs=tuple(sorted((*others, sub_job), key=lambda each: each.number)))


_ORDER: TypeAdapter[Order] = TypeAdapter(Order)
_MOST = 2**63
_MOST_PLACES = 100
_MOST_VARIABLES = 5000
_MOST_SUB_JOBS = 10_000


def order_document(order: Order) -> dict[str, Any]:
    """Return an order as JSON has it."""
    document: dict[str, Any] = _ORDER.dump_python(order, mode="json")
    return document


def stored_order(document: Any) -> Order:
    """Return an order that was taken before: what is asked of new ones may have become more."""
    return _ORDER.validate_python(document)


def parse_order(document: Any) -> Order:
    """Return the order in a document. Raises InputError saying what is wrong with it.

    What no cluster could take is refused here, where somebody still listens, and not when it is submitted.
    """
    from presage.orchestrator.submissions import problem_with

    try:
        order = _ORDER.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"The job cannot be taken: {place or 'it'}: {first['msg']}") from None
    problem = _unknown_field(document) or _problem_with_numbers(order) or _problem_with_predictions(order)
    problem = problem or problem_with(order)
    if problem:
        raise InputError(f"The job cannot be taken: {problem}")
    return order


def _unknown_field(document: Any) -> str:
    parts: list[tuple[Any, Any]] = [(document, Order), (document.get("elastic"), Elastic)]
    for part, kind in [*parts, *((each, Place) for each in document.get("places", ()))]:
        known = [each.name for each in fields(kind)]
        for name in part if isinstance(part, dict) else ():
            if name not in known:
                close = difflib.get_close_matches(str(name), known, 1)
                return f"it has no field {str(name)[:40]!r}" + (f"; did you mean {close[0]!r}?" if close else "")
    return ""


def _problem_with_predictions(order: Order) -> str:
    from presage.estimators.repository.carrying import read_predictions

    try:
        read_predictions(order.predictions)
    except InputError as error:
        return f"predictions: {error}"
    return ""


def _problem_with_numbers(order: Order) -> str:
    if not 1 <= len(order.places) <= _MOST_PLACES:
        return f"it has {len(order.places)} places to run at, and needs 1 to {_MOST_PLACES}"
    if len(order.environment) > _MOST_VARIABLES or len(order.arguments) > _MOST_VARIABLES:
        return f"it has more than {_MOST_VARIABLES} arguments or variables of the environment"
    elastic = order.elastic
    if elastic is not None and not (1 <= elastic.least <= elastic.most and 0 < elastic.efficiency <= 1):
        return "elastic must have 1 <= least <= most, and an efficiency above 0 and up to 1"
    amounts = {
        "work_s": order.work_s,
        "memory_ceiling_bytes": order.memory_ceiling_bytes,
        **{f"places.{index}.limit_s": each.limit_s for index, each in enumerate(order.places)},
        **{f"places.{index}.most_memory_bytes": each.most_memory_bytes for index, each in enumerate(order.places)},
        **{f"places.{index}.work_s": each.work_s for index, each in enumerate(order.places)},
    }
    for name, amount in amounts.items():
        if amount is not None and not 0 < amount < _MOST:
            return f"{name} is {amount}, and must be a number above 0"
    if not 1 <= order.most_sub_jobs <= _MOST_SUB_JOBS or not 1 <= order.most_failures <= _MOST_SUB_JOBS:
        return f"most_sub_jobs and most_failures must be from 1 to {_MOST_SUB_JOBS}"
    return ""
