"""Estimates: what a job will need, by the contract that plug-ins have too."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends

from presage.errors import InputError
from presage.estimators.asking import ask
from presage.estimators.plugins.contract import read_request
from presage.estimators.workloads import TrainingWorkload
from presage.service.answers import documented
from presage.service.callers import AnyUser, TheState, unrecorded
from presage.service.profiles import check_profile

router = APIRouter(prefix="/estimates", tags=["estimates"], dependencies=[Depends(unrecorded)])


@router.post("", responses=documented(501))
def estimate(caller: AnyUser, state: TheState, request: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    """Estimate memory, wall time, wait or cost; the request is that of the estimator contract, version 1.

    A training needs its profile, made with the same batch: the service runs no code and reads no files of callers.
    """
    try:
        document = json.dumps(request).encode()
    except RecursionError:
        raise InputError("The request is nested too deeply") from None
    asked = read_request(document)
    if isinstance(asked.workload, TrainingWorkload):
        check_profile(asked.workload, asked.profile)
    with state.computing.taken(caller.user):
        return ask(asked).as_dict()
