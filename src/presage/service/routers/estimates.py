"""Estimates: what a job will need, by the contract that plug-ins have too."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body

from presage.estimators.asking import ask
from presage.estimators.plugins.contract import read_request
from presage.service.callers import AnyUser

router = APIRouter(prefix="/estimates", tags=["estimates"])


@router.post("")
def estimate(caller: AnyUser, request: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    """Estimate memory, wall time, wait or cost; the request is that of the estimator contract, version 1.

    A training needs its profile: the service runs nobody's code.
    """
    return ask(read_request(json.dumps(request).encode())).as_dict()
