"""`presage tokens`: who may call the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from presage.choices import choice_of
from presage.cli._output import Json, emit_json, print_table, tell

if TYPE_CHECKING:
    from presage.service.tokens import Tokens

app = typer.Typer(
    help="Make, list and take back tokens of the service, in this machine's database.", no_args_is_help=True
)


@app.command()
def create(
    user: Annotated[str, typer.Argument(metavar="USER", help="Whose jobs it is good for.")],
    scope: Annotated[
        str, typer.Option("--scope", help="user: own jobs; operator: everybody's; admin: tokens, too.")
    ] = "user",
    label: Annotated[str, typer.Option("--label", help="What it is for, to know it by.")] = "",
    days: Annotated[
        float | None, typer.Option("--days", metavar="N", help="How long it lasts. [until it is taken back]")
    ] = None,
    json: Json = False,
) -> None:
    """Make a token and print its secret, which is kept nowhere: nobody can show it again.

    Example: presage tokens create ann --days 90 --label laptop
    """
    from presage.service.tokens import Scope

    secret = _tokens().create(user, choice_of(Scope, scope, "--scope"), label, days)
    if json:
        emit_json({"token_id": secret.split("_")[1], "secret": secret})
        return
    tell("Shown this once:")
    typer.echo(secret)


@app.command("list")
def list_tokens(json: Json = False) -> None:
    """List all tokens, without their secrets.

    Example: presage tokens list
    """
    found = _tokens().all()
    if json:
        emit_json({"tokens": found})
        return
    columns = ("token", "user", "scope", "label", "created", "ends", "taken back")
    names = ("token_id", "user", "scope", "label", "created_at", "expires_at", "revoked_at")
    print_table("", columns, [tuple(_cell(each[name]) for name in names) for each in found])


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, as list shows it.")], json: Json = False
) -> None:
    """Take a token back; calls with it are refused from now on.

    Example: presage tokens revoke 3d4745a4334a
    """
    _tokens().revoke(token_id)
    if json:
        emit_json({"token_id": token_id})
        return
    tell(f"{token_id} is good for nothing any more")


def _tokens() -> Tokens:
    from presage.database import Database
    from presage.service.tokens import Tokens

    return Tokens(Database())


def _cell(value: str | None) -> str:
    return (value or "").split(".")[0]
