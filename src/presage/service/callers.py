"""Who calls, as a dependency of every endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from presage.errors import PresageError
from presage.service.state import State
from presage.service.tokens import Caller, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

_BEARER = HTTPBearer(auto_error=False, description="A token that `presage tokens create` printed.")


class UnauthenticatedError(PresageError):
    """Nobody, or nobody we know, calls."""

    code = "unauthenticated"


class ForbiddenError(PresageError):
    """The caller may not do this."""

    code = "forbidden"


def state_of(request: Request) -> State:
    """Return what the service works with."""
    state: State = request.app.state.presage
    return state


def _caller(
    request: Request,
    state: Annotated[State, Depends(state_of)],
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
) -> Caller:
    caller = state.tokens.check(given.credentials) if given is not None else None
    if caller is None:
        raise UnauthenticatedError("The call has no valid token", remedy="Send 'Authorization: Bearer TOKEN'")
    request.state.caller = caller  # for the record of calls
    return caller


def _with_scope(wanted: Scope) -> Callable[[Caller], Caller]:
    def check(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
        if not caller.scope.includes(wanted):
            raise ForbiddenError(f"This call needs a token of the scope {wanted.value!r}")
        return caller

    return check


def unrecorded(request: Request) -> None:
    """Leave a call that only computes something out of the record of what was changed."""
    request.state.is_unrecorded = True


AnyUser = Annotated[Caller, Depends(_with_scope(Scope.USER))]
Operator = Annotated[Caller, Depends(_with_scope(Scope.OPERATOR))]
Admin = Annotated[Caller, Depends(_with_scope(Scope.ADMIN))]
TheState = Annotated[State, Depends(state_of)]
