"""Forecasts, what-if questions and anomalies of a cluster whose log comes with the call. Nothing is kept."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from presage.service.answers import documented
from presage.service.callers import AnyUser, TheState, unrecorded
from presage.service.logs import Log, rejected
from presage.service.shipped import shipped_model

router = APIRouter(tags=["insights"], responses=documented(501), dependencies=[Depends(unrecorded)])

Words = Annotated[str, Field(max_length=500)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    log: Log


class ForecastRequest(_Request):
    """What to forecast."""

    ask: Annotated[list[Words], Field(max_length=100)] = Field(
        default=[], description="Jobs that might be submitted, like 'user=ann, cpus=64, limit=2h'."
    )
    job_ids: Annotated[list[Words], Field(max_length=1000)] = Field(
        default=[], description="Only these waiting or running jobs."
    )
    now: Words | None = Field(default=None, description="A date, or 2d after the first submit; null: the latest.")
    at_submit: int | None = Field(default=None, ge=1, le=1000, description="The last so many, as submitted.")


class WhatIfRequest(_Request):
    """What to change."""

    variants: Annotated[list[Words], Field(min_length=1, max_length=5)] = Field(
        description="Like 'nodes=+10%' or 'policy=sjf+easy,load=1.2', as `presage whatif --variant` takes them."
    )
    policy: Words = Field(default="fcfs+easy", description="Of the machine as it is.")
    seed: int = Field(default=0, ge=0, lt=2**31)


class AnomalyRequest(_Request):
    """What to look for."""

    kinds: Annotated[list[Words], Field(max_length=20)] = Field(default=[], description="Empty: all.")
    since: Words | None = Field(default=None, description="A date, or 2d after the first submit.")
    min_score: float = Field(default=1.5, ge=0, allow_inf_nan=False)
    max_per_day: int = Field(default=5, ge=1, le=1000)


@router.post("/forecasts")
def forecast(caller: AnyUser, state: TheState, request: ForecastRequest) -> dict[str, Any]:
    """Forecast when jobs will start, how long they will run and how they will end."""
    from presage.foundation.forecasting import forecast as forecast_trace
    from presage.simulator.present import parse_instant

    with state.computing.taken(caller.user):
        model = shipped_model()
        trace = request.log.read()
        result = forecast_trace(
            trace,
            model,
            now_ms=None if request.now is None else parse_instant(request.now, trace),
            new_jobs=request.ask,
            job_ids=request.job_ids,
            at_submit=request.at_submit,
        )
    return {
        "model": model.version,
        "now_ms": result.now_ms,
        "interval_coverage_80": result.coverage,
        "notes": list(result.notes),
        "jobs": [job.as_dict() for job in result.jobs],
        "log": rejected(trace),
    }


@router.post("/whatif")
def ask_what_if(caller: AnyUser, state: TheState, request: WhatIfRequest) -> dict[str, Any]:
    """Replay a log as it is and with changes, and compare the schedules."""
    from presage.policies import Policy
    from presage.simulator import Variant, what_if

    variants = [Variant.parse(text) for text in request.variants]
    policy = Policy.parse(request.policy)
    with state.computing.taken(caller.user):
        trace = request.log.read()
        answer = what_if(trace, variants, policy=policy, seed=request.seed, engine="serial")
    return {**answer.to_dict(), "log": rejected(trace)}


@router.post("/anomalies")
def find_anomalies(caller: AnyUser, state: TheState, request: AnomalyRequest) -> dict[str, Any]:
    """Find what is abnormal in a log: failures, stalled jobs, wasteful requests, scheduling that does not work."""
    from presage.foundation.anomalies import find_anomalies as find
    from presage.simulator.present import parse_instant

    with state.computing.taken(caller.user):
        trace = request.log.read()
        report = find(
            trace,
            kinds=request.kinds or None,
            since_ms=None if request.since is None else parse_instant(request.since, trace),
            min_score=request.min_score,
            max_per_day=request.max_per_day,
        )
    return {**report.to_dict(), "log": rejected(trace)}
