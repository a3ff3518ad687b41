"""How the demonstration tells what happens, as it happens and afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from presage.cli._output import print_table
from presage.units import format_bytes, spell_seconds

if TYPE_CHECKING:
    from presage.cli._demo_chain import Chain
    from presage.client.rest import ServiceClient

_POLL_S = 0.5
_ENDED = ("completed", "failed", "cancelled")


def follow(service: ServiceClient, job_id: str, *, shows: bool) -> dict[str, Any]:
    """Tell what happens to a job until it has ended; returns it then."""
    after, metrics = 0, ""
    while True:
        job = service.job(job_id)
        for event in service.events(job_id, after):
            after = event["number"]
            if event["kind"] == "performance":
                metrics = _metrics(event["values"])
            elif shows and (words := sentence(event, metrics)):
                typer.echo(f"   {event['at'][11:19]}  {words}")
        if job["phase"] in _ENDED:
            return job
        time.sleep(_POLL_S)


def sentence(event: dict[str, Any], metrics: str = "") -> str:
    """Return one line about an event; empty for what is not worth one."""
    values = event["values"]
    match event["kind"]:
        case "decided":
            return f"decided ({values['rule']}): {values['reason']}"
        case "submitted":
            return f"job {values['sub_job']} is in the queue"
        case "started" if values.get("resumed_from"):
            return f"goes on from {Path(values['resumed_from']).name}, after {values['done']:.1f} epochs"
        case "started":
            return "begins to learn"
        case "progress":
            left = values.get("left_s")
            rest = f", about {spell_seconds(left)} left" if left else ""
            return f"{values['done']:.1f} of {values['total']:g} epochs{rest}{metrics}"
        case "ended":
            return f"job {values['sub_job']} ended ({values['ending']}): {values['words']}"
        case "finished" if "phase" in values:
            return f"{values['phase']}: {values['reason']}"
        case "cluster-silent" | "cluster-unknown" | "not-attended-to":
            return str(values.get("words", ""))
    return ""


def print_decisions(decisions: list[dict[str, Any]]) -> None:
    """Print what was decided, as `presage explain` does."""
    rows = [(each["at"][11:19], each["rule"], each["action"], each["reason"]) for each in decisions]
    print_table("", ("when", "rule", "action", "why"), rows)


def print_outcome(chain: Chain, estimate: dict[str, Any], plan: dict[str, Any]) -> None:
    """Print the jobs that it took, and what was predicted beside what happened."""
    rows = [
        (str(each.number), spell_seconds(each.walltime_s or 0), spell_seconds(each.ran_s),
         f"{each.done_before:.1f} to {each.done_after:.1f}", each.ending or "", each.words)
        for each in chain.links
    ]  # fmt: skip
    print_table("5. The jobs that it took", ("job", "limit", "ran", "epochs", "ending", "how"), rows)
    compared = [
        ("jobs", str(plan["jobs"]), str(len(chain.links))),
        ("time worked", _range(estimate["walltime"], spell_seconds), spell_seconds(chain.worked_s)),
        ("done after", _range(plan["completion"], spell_seconds), spell_seconds(chain.elapsed_s)),
        ("memory", _range(estimate["memory"], format_bytes), format_bytes(chain.max_rss_bytes)),
        ("saved epochs lost", "0", f"{chain.lost:g}"),
        ("epochs done twice", "", f"{chain.repeated:.2g}"),
    ]
    print_table("6. What was predicted, and what happened", ("", "predicted", "happened"), compared)


def _metrics(values: dict[str, Any]) -> str:
    told = values.get("metrics") or {}
    return "".join(f", {name} {value:.3g}" for name, value in told.items() if isinstance(value, int | float))


def _range(spread: dict[str, float], spell: Any) -> str:
    return f"{spell(spread['p50'])} ({spell(spread['p10'])} … {spell(spread['p90'])})"
