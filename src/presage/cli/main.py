"""The `presage` command: its groups of commands, and what happens when something goes wrong.

Nothing heavy is imported here: `presage --help` must answer at once. Commands import what they need when they
run.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from presage import __version__
from presage.cli import config, simulate, trace
from presage.errors import PresageError, UsageError

EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="presage",
    help="AI-driven scheduling for HPC and Kubernetes clusters.",
    epilog=(
        "Exit codes: 0 done, 1 internal error, 2 wrong call, 3 unusable input, 4 missing optional package, "
        "5 wrong configuration, 6 validate found problems, 130 interrupted. "
        "Every command takes --json and then prints exactly one JSON document."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(trace.app, name="trace")
app.command()(simulate.simulate)
app.add_typer(simulate.policies_app, name="policies")
app.add_typer(config.app, name="config")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"presage {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """AI-driven scheduling for HPC and Kubernetes clusters."""


def run() -> None:
    """Run the command line; errors become one line on stderr (and one document with --json) and an exit code."""
    wants_json = "--json" in sys.argv
    try:
        app()
    except PresageError as error:
        _fail(wants_json, error.as_dict(), str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does: that is no error, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except SystemExit as stop:
        if stop.code == EXIT_INTERRUPTED:
            message = "Interrupted. Files that were there before are as they were"
            _fail(wants_json, {"code": "interrupted", "problem": message}, f"{message}.", EXIT_INTERRUPTED)
        if stop.code == UsageError.exit_code and wants_json:
            problem = "The call is wrong; the explanation is on standard error"
            typer.echo(json.dumps({"error": {"code": UsageError.code, "problem": problem}}))
        raise


def _fail(wants_json: bool, document: dict[str, str], message: str, exit_code: int) -> None:
    if wants_json:
        typer.echo(json.dumps({"error": document}))
    typer.echo(f"presage: {message}", err=True)
    sys.exit(exit_code)
