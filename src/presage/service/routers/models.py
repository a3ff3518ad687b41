"""Models and policies: what forecasts are made with, and which rules there are."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from presage.policies import BACKFILLINGS, CLUSTER_ORDERS, ORDERS, PLACED_BACKFILLINGS, PLACEMENTS
from presage.service.answers import documented
from presage.service.callers import AnyUser, TheState
from presage.service.shipped import shipped_model

router = APIRouter(tags=["models"])

_FAMILIES: dict[str, Any] = {
    "orders": ORDERS,
    "cluster_orders": CLUSTER_ORDERS,
    "backfillings": BACKFILLINGS,
    "placements": PLACEMENTS,
    "placed_backfillings": PLACED_BACKFILLINGS,
}


@router.get("/policies")
def list_policies(caller: AnyUser, state: TheState) -> dict[str, list[dict[str, str]]]:
    """List the ordering rules, learned orders, backfillings and placements by family."""
    families = {
        family: [{"name": spec.name, "summary": spec.summary} for spec in registry.specs()]
        for family, registry in _FAMILIES.items()
    }
    learned = [{"name": name, "summary": "a learned order"} for name in state.policies.names]
    return {**families, "learned": learned}


@router.get("/models", responses=documented(501))
def list_models(caller: AnyUser) -> dict[str, list[dict[str, Any]]]:
    """List the models that forecasts are made with."""
    model = shipped_model()
    return {"models": [{"version": model.version, "forecasts": [task.value for task in model.towers]}]}
