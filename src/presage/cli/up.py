"""`presage up`: the service and the plane on this machine, with nothing to configure."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from presage.cli._output import Json, emit_json, tell
from presage.service.journal import LogFormat, set_up_journal


def up(
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0: any that is free.")] = 8377,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    slurm: Annotated[bool, typer.Option("--slurm", help="Also submit to the Slurm of this machine.")] = False,
    slurm_rest: Annotated[
        str | None,
        typer.Option(
            "--slurm-rest",
            metavar="ADDRESS",
            help="Also submit through this slurmrestd: http://HOST:PORT or unix:/PATH.",
        ),
    ] = None,
    tapis: Annotated[bool, typer.Option("--tapis", help="Also submit to the Tapis of the settings.")] = False,
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka", metavar="SERVERS", help="Also tell events to these Kafka brokers, and listen there."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME=PLACE",
            help="Also offer this learned order: a file or a store of `presage policy train`. Repeatable.",
        ),
    ] = None,
    reached_at: Annotated[
        str | None,
        typer.Option("--reached-at", metavar="URL", help="Where jobs find it to tell of themselves. [HOST:PORT]"),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="How it says on stderr what it does.")
    ] = LogFormat.TEXT,
    rate: Annotated[
        float, typer.Option("--rate", min=1, max=100_000, help="How fast the simulated cluster's clock runs.")
    ] = 60.0,
    json: Json = False,
) -> None:
    """Start the service and the plane, on the embedded database, with a local and a simulated cluster.

    All state is in the folder that PRESAGE_HOME names (or ~/.local/share/presage): stop it with Ctrl-C and start
    it again, and every job goes on. Your own commands on this machine find it by themselves. The token that is
    printed is for programs and other machines; it is new each time, and the one before it ends.

    `presage demo`, in another terminal, shows what it does.

    Example: presage up --port 0
    """
    from presage.config import load_settings
    from presage.database import state_home
    from presage.orchestrator.embedded import Clusters
    from presage.service.announcement import Announcement, announcing
    from presage.service.offered import parse_places
    from presage.service.running import run_service

    policies = load_settings().service.policies | parse_places(policy or [])
    # So that what stops services ends it as Ctrl-C does, and not before it has put things in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with announcing(state_home()) as commands:

        def announce(address: str, token: str) -> None:
            commands.tell(Announcement(address, token))
            _say(address, token, json=json)

        set_up_journal(log_format)
        clusters = Clusters(slurm=slurm, slurm_rest=slurm_rest, tapis=tapis, simulated_rate=rate)
        run_service(host, port, clusters, announce, kafka=kafka, reached_at=reached_at, policies=policies)
    if not json:
        tell("Stopped. Jobs that run here go on, and are looked after again with the next `presage up`.")


def first_command() -> str:
    """Return what to type into another terminal, whatever is on the path there."""
    command = f"{this_program()} demo"
    home = os.environ.get("PRESAGE_HOME")
    return f"PRESAGE_HOME={shlex.quote(str(Path(home).expanduser().absolute()))} {command}" if home else command


def _say(address: str, token: str, *, json: bool) -> None:
    if json:
        emit_json({"address": address, "token": token, "first_command": first_command()})
        return
    tell(f"Presage is at {address} (its reference: {address}/api/v1/docs). Ctrl-C stops it.")
    tell(f"Token, for programs and other machines: {token}")
    tell("Your own commands find it by themselves. In another terminal, train a small network past its limit:")
    tell(f"  {first_command()}")


def this_program(*, from_anywhere: bool = False) -> str:
    """Return what to type for the program that runs: its name if that is on the path, else where it is."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{_spelled(Path(sys.executable), from_anywhere)} -m presage"
    found = shutil.which("presage")
    if found is not None and program.exists() and Path(found).samefile(program):
        return "presage"
    return _spelled(program, from_anywhere)


def _spelled(program: Path, from_anywhere: bool) -> str:
    path, here = program.absolute(), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) and not from_anywhere else path))
