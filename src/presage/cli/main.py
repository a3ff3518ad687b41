"""The `presage` command: its groups of commands, and what happens when something goes wrong.

Nothing heavy is imported here: `presage --help` must answer at once. Commands import what they need when they
run.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from presage import __version__
from presage.cli import (
    anomalies,
    config,
    demo,
    estimate,
    estimators,
    jobs,
    load_forecast,
    model,
    plan,
    policy,
    simulate,
    submit,
    sweep,
    synth,
    systems,
    tokens,
    trace,
    up,
    watch,
    whatif,
)
from presage.errors import OutputError, PresageError, UsageError

EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="presage",
    help="AI-driven scheduling for HPC and Kubernetes clusters.",
    epilog=(
        "Exit codes: 0 done, 1 internal error, 2 wrong call, 3 unusable input, 4 missing optional package, "
        "5 wrong configuration, 6 validate found problems, 7 output cannot be written, "
        "8 the cluster refuses or cannot be reached, 130 interrupted. "
        "Every command takes --json and then prints exactly one JSON document."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_JOBS = "Your jobs: know before you submit, and have them brought to their end"
_CLUSTER = "A cluster: what will happen, what if, what is wrong"
_RESEARCH = "Traces and policies"
_HOUSE = "Presage itself"

app.command(rich_help_panel=_JOBS)(estimate.estimate)
app.command(rich_help_panel=_JOBS)(plan.plan)
app.command(rich_help_panel=_JOBS)(sweep.sweep)
# What stands behind the script is the script's.
app.command(rich_help_panel=_JOBS, context_settings={"allow_interspersed_args": False})(submit.submit)
for each in (watch.watch, jobs.jobs, jobs.events, jobs.explain, jobs.cancel):
    app.command(rich_help_panel=_JOBS)(each)

app.add_typer(systems.app, name="systems", rich_help_panel=_CLUSTER)
app.add_typer(model.app, name="model", rich_help_panel=_CLUSTER)
app.command(rich_help_panel=_CLUSTER)(load_forecast.load_forecast)
app.command(rich_help_panel=_CLUSTER)(anomalies.anomalies)
app.command(rich_help_panel=_CLUSTER)(whatif.whatif)

app.add_typer(trace.app, name="trace", rich_help_panel=_RESEARCH)
app.add_typer(synth.app, name="synth", rich_help_panel=_RESEARCH)
app.command(rich_help_panel=_RESEARCH)(simulate.simulate)
app.add_typer(policy.app, name="policy", rich_help_panel=_RESEARCH)
app.add_typer(simulate.policies_app, name="policies", rich_help_panel=_RESEARCH)

app.command(rich_help_panel=_HOUSE)(up.up)
app.command(rich_help_panel=_HOUSE)(demo.demo)
app.add_typer(tokens.app, name="tokens", rich_help_panel=_HOUSE)
app.add_typer(estimators.app, name="estimators", rich_help_panel=_HOUSE)
app.add_typer(config.app, name="config", rich_help_panel=_HOUSE)


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
    if sys.stdout is None:  # closed by the caller, who wants no output
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  (open to the end of the process)
    try:
        _run_and_flush()
    except PresageError as error:
        _fail(wants_json, error)
    except BrokenPipeError:
        # The reader of our output went away, as `| head` does: that is no error, and nothing more can be said.
        _settle_stdout()
        sys.exit(0)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        problem = f"The system refuses to read or write: {error.strerror or error}{place}"
        _fail(wants_json, OutputError(problem, remedy="Check the space and the rights on the disk"))
    except SystemExit as stop:
        if stop.code == EXIT_INTERRUPTED:
            _fail(wants_json, _InterruptedError("Interrupted. Files that were there before are as they were"))
        if stop.code == UsageError.exit_code and wants_json:
            problem = "The call is wrong; the explanation is on standard error"
            typer.echo(json.dumps({"error": {"code": UsageError.code, "problem": problem}}))
        raise


class _InterruptedError(PresageError):
    """The person pressed Ctrl-C."""

    code = "interrupted"
    exit_code = EXIT_INTERRUPTED


def _run_and_flush() -> None:
    try:
        app()
    finally:
        sys.stdout.flush()  # so that a full disk is an error here and not a line that Python prints at its end


def _fail(wants_json: bool, error: PresageError) -> None:
    if wants_json:
        with contextlib.suppress(OSError):  # which may be what the error is about
            typer.echo(json.dumps({"error": error.as_dict()}))
    typer.echo(f"presage: {error}", err=True)
    _settle_stdout()
    sys.exit(error.exit_code)


def _settle_stdout() -> None:
    """Print what is still to be printed, or let it go nowhere if it cannot go where it should."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
