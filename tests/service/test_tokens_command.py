from __future__ import annotations

import pytest

from presage.database import Database
from presage.service.tokens import Scope, Tokens
from tests.cli.conftest import Presage, presage  # noqa: F401  (a fixture)


def test_tokens_are_made_listed_and_taken_back(presage: Presage) -> None:  # noqa: F811
    made = presage(
        "tokens", "create", "ann", "--scope", "operator", "--label", "lap[top]", "--days", "2", "--json"
    )
    secret = made.document["secret"]
    tokens = Tokens(Database())
    caller = tokens.check(secret)
    assert caller is not None
    assert (caller.user, caller.scope) == ("ann", Scope.OPERATOR)
    listed = presage("tokens", "list")
    assert "lap[top]" in listed.out
    assert made.document["token_id"] in listed.out
    assert secret not in listed.out + presage("tokens", "list", "--json").out
    assert presage("tokens", "revoke", made.document["token_id"]).exit_code == 0
    assert tokens.check(secret) is None


def test_the_secret_alone_is_on_standard_output(presage: Presage) -> None:  # noqa: F811
    made = presage("tokens", "create", "bob")
    caller = Tokens(Database()).check(made.out.strip())
    assert caller is not None
    assert caller.scope is Scope.USER


@pytest.mark.parametrize(
    "arguments",
    [("create", "a b"), ("create", "ann", "--scope", "king"), ("create", "ann", "--days", "0"), ("revoke", "x")],
)
def test_wrong_calls_are_refused(presage: Presage, arguments: tuple[str, ...]) -> None:  # noqa: F811
    assert presage("tokens", *arguments).exit_code == 2
