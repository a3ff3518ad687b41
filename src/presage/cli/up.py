"""`presage up`: the service and the plane on this machine, with nothing to configure."""

from __future__ import annotations

from typing import Annotated

import typer

from presage.cli._output import Json, emit_json, tell


def up(
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="0: any that is free.")] = 8377,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    slurm: Annotated[bool, typer.Option("--slurm", help="Also submit to the Slurm of this machine.")] = False,
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka", metavar="SERVERS", help="Also tell events to these Kafka brokers, and listen there."
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", min=1, max=100_000, help="How fast the simulated cluster's clock runs.")
    ] = 60.0,
    json: Json = False,
) -> None:
    """Start the service and the plane, on the embedded database, with a local and a simulated cluster.

    All state is in the folder that PRESAGE_HOME names (or ~/.local/share/presage): stop it with Ctrl-C and start
    it again, and every job goes on. The token that is printed is new each time; the one before it ends.

    Example: presage up --port 0
    """
    from presage.orchestrator.embedded import Clusters
    from presage.service.running import run_service

    def announce(address: str, token: str) -> None:
        if json:
            emit_json({"address": address, "token": token})
            return
        tell(f"Presage is at {address}, its reference at {address}/api/v1/docs")
        tell("In another terminal, to speak to it:")
        tell(f"  export PRESAGE_SERVICE__ADDRESS={address} PRESAGE_SERVICE__TOKEN={token}")
        tell("  presage jobs")

    run_service(host, port, Clusters(slurm=slurm, simulated_rate=rate), announce, kafka=kafka)
