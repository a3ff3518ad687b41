"""Plans: where a job could run, when it would be done, what it would cost."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, model_validator

from presage.errors import InputError
from presage.estimators.spread import Spread
from presage.estimators.training.profile import StepProfile
from presage.estimators.workloads import ScriptWorkload, TrainingWorkload
from presage.planner import (
    AskedEstimates,
    Assumptions,
    Budget,
    Constraints,
    Counts,
    Stated,
    StatedEstimates,
    Variant,
    make_plans,
)
from presage.service.answers import documented
from presage.service.callers import AnyUser, TheState, unrecorded
from presage.service.profiles import check_profile

router = APIRouter(prefix="/plans", tags=["plans"], dependencies=[Depends(unrecorded)])

_MOST_S = 1e9
_MOST_BYTES = 1 << 60
Pattern = Annotated[str, Field(min_length=1, max_length=200)]
Seconds = Annotated[float, Field(ge=0, le=_MOST_S, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Quantiles(_Part):
    """An amount that is not known exactly, in rising order."""

    p10: Seconds
    p50: Seconds
    p90: Seconds

    @model_validator(mode="after")
    def _rise(self) -> Quantiles:
        if not self.p10 <= self.p50 <= self.p90:
            raise ValueError("p10, p50 and p90 must rise")
        return self

    def spread(self) -> Spread:
        """Return it as the rooms have it."""
        return Spread(self.p10, self.p50, self.p90)


Time = Seconds | Quantiles
Times = Annotated[dict[Pattern, Time], Field(max_length=100)]


class Training(_Part):
    """A training and what one of its steps takes; the service builds no networks."""

    workload: TrainingWorkload
    profile: StepProfile


class PlanRequest(_Part):
    """A job, the systems it may go to, and what must hold."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = "job"
    systems: Annotated[list[Pattern], Field(min_length=1, max_length=20)] = Field(
        description="Names, as GET /systems lists them."
    )
    training: Training | None = None
    memory_bytes: int | None = Field(default=None, ge=1, le=_MOST_BYTES, description="At the peak, where known.")
    walltimes_s: Times = Field(
        default={}, description="By place: 'pitzer', 'pitzer/gpu*', '*'; seconds or quantiles."
    )
    waits_s: Times = Field(default={}, description="By place, as walltimes_s.")
    nodes: Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(max_length=20)] = []
    gpus: Annotated[list[Annotated[int, Field(ge=0, le=1000)]], Field(max_length=20)] = []
    cores: int | None = Field(default=None, ge=1, le=100_000)
    deadline_s: float | None = Field(default=None, gt=0, le=_MOST_S, description="From now.")
    budget: float | None = Field(default=None, ge=0, le=1e15)
    currency: Annotated[str, Field(max_length=20)] | None = None
    only: Annotated[list[Pattern], Field(max_length=100)] = []
    cascades: bool = Field(default=True, description="Whether a run may be cut into several jobs.")


@router.post("", responses=documented(501))
def plan(caller: AnyUser, state: TheState, request: PlanRequest) -> dict[str, Any]:
    """Cross a job with systems, partitions and node types; every option fits, or says why not.

    A job is a training with its profile, or any whose times are stated. A profile is that of one device: name
    `gpus` it was not made for, and the answer is about the step as profiled.
    """
    systems = [state.catalogue.get(name) for name in dict.fromkeys(request.systems)]
    with state.computing.taken(caller.user):
        return make_plans(
            [_variant(request)],
            systems,
            _estimates(request),
            name=request.name,
            counts=Counts(tuple(request.nodes), tuple(request.gpus), request.cores),
            constraints=_constraints(request),
            assumptions=Assumptions(cascades=request.cascades),
        ).as_dict()


def _variant(request: PlanRequest) -> Variant:
    if request.training is None:
        if not request.walltimes_s:
            raise InputError("Nobody says how long the job runs", expected="walltimes_s, or a training")
        return Variant(ScriptWorkload(request.name, name=request.name))
    workload = request.training.workload
    check_profile(workload, request.training.profile)
    return Variant(workload, f"batch {workload.options.batch}")


def _estimates(request: PlanRequest) -> StatedEstimates:
    stated = Stated(
        None if request.memory_bytes is None else Spread.exactly(float(request.memory_bytes)),
        {place: _spread(each) for place, each in request.walltimes_s.items()},
        {place: _spread(each) for place, each in request.waits_s.items()},
    )
    training = request.training
    profiling = None if training is None else lambda _workload, _device: training.profile
    return StatedEstimates(stated, AskedEstimates(profiling=profiling))


def _spread(time: Time) -> Spread:
    return time.spread() if isinstance(time, Quantiles) else Spread.exactly(time)


def _constraints(request: PlanRequest) -> Constraints:
    budget = None if request.budget is None else Budget(request.budget, request.currency)
    return Constraints(request.deadline_s, budget, tuple(request.only))
