"""Tokens: who may call."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from presage.service.answers import documented
from presage.service.callers import Admin, TheState
from presage.service.tokens import USER_PATTERN, Scope

router = APIRouter(prefix="/tokens", tags=["tokens"])


class NewToken(BaseModel):
    """A token to make."""

    model_config = ConfigDict(extra="forbid")

    user: str = Field(pattern=USER_PATTERN)
    scope: Scope = Scope.USER
    label: str = Field(default="", max_length=100)
    days: float | None = Field(default=None, gt=0, lt=36_500, description="How long it lasts; null: for ever.")


@router.post("", status_code=201)
def create(caller: Admin, state: TheState, wanted: NewToken) -> dict[str, str]:
    """Make a token; its secret is shown this once."""
    return {"secret": state.tokens.create(wanted.user, wanted.scope, wanted.label, wanted.days)}


@router.get("")
def list_tokens(caller: Admin, state: TheState) -> dict[str, list[dict[str, Any]]]:
    """List all tokens, without their secrets."""
    return {"tokens": state.tokens.all()}


@router.delete("/{token_id}", status_code=204, responses=documented(404))
def revoke(caller: Admin, state: TheState, token_id: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]) -> None:
    """Take a token back, at once."""
    state.tokens.revoke(token_id)
