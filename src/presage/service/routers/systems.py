"""Systems: what there is to run on."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path

from presage.clusters.documents import document_of
from presage.service.answers import documented
from presage.service.callers import AnyUser, TheState

router = APIRouter(prefix="/systems", tags=["systems"])


@router.get("")
def list_systems(caller: AnyUser, state: TheState) -> dict[str, list[dict[str, Any]]]:
    """List all systems of the catalogue."""
    return {"systems": [document_of(system) for system in state.catalogue.all().values()]}


@router.get("/{name}", responses=documented(404))
def show(caller: AnyUser, state: TheState, name: Annotated[str, Path(max_length=200)]) -> dict[str, Any]:
    """Show a system with its partitions, node types, limits and prices."""
    return document_of(state.catalogue.get(name))
