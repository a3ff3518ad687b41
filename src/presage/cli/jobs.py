"""`presage jobs`, `cancel`, `events`, `explain`: the jobs that were handed over, and what is done with them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from presage.cli._output import Json, duration, emit_json, print_table, tell

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id that handing it over printed.")]


def jobs(
    active: Annotated[bool, typer.Option("--active", help="Only those that have not ended.")] = False,
    json: Json = False,
) -> None:
    """List the jobs that were handed over, the newest first.

    They are those of the service, if one is configured (service.address) or runs here, else those of the database.

    Example: presage jobs --active
    """
    from presage.helper.places import jobs_place

    found = jobs_place().jobs(active_only=active)
    if json:
        emit_json({"jobs": found})
        return
    if not found:
        tell(f"No job {'is under way' if active else 'was handed over yet'}: presage submit --managed FILE")
        return
    from presage.helper.jobs import lately

    rows = [
        (
            each["job_id"], each["name"], each["state"], _progress(each), lately(each), str(len(each["sub_jobs"])),
            each["reason"],
        )
        for each in found
    ]  # fmt: skip
    print_table("", ("job", "name", "state", "progress", "lately", "jobs on clusters", "why"), rows)


def cancel(job_id: JobId, json: Json = False) -> None:
    """Stop a job for good: what runs of it is cancelled, and nothing of it is submitted any more.

    Example: presage cancel j3f2a90cc1b7
    """
    from presage.helper.places import jobs_place

    job = jobs_place().stop(job_id)
    if json:
        emit_json(job)
        return
    tell(f"{job['job_id']} is {job['state']}")


def explain(job_id: JobId, json: Json = False) -> None:
    """Say what was decided about a job, when, by which rule, and why.

    Example: presage explain j3f2a90cc1b7
    """
    from presage.helper.places import jobs_place

    place = jobs_place()
    job, decisions = place.job(job_id), place.decisions(job_id)
    if json:
        emit_json({"job": job, "decisions": decisions})
        return
    rows = [(each["at"][:19], each["rule"], each["action"], each["reason"]) for each in decisions]
    print_table(f"{job['name']} is {job['state']}. {job['reason']}", ("when", "rule", "action", "why"), rows)


def events(
    job_id: JobId,
    after: Annotated[int, typer.Option("--after", min=0, help="Only events numbered higher than this.")] = 0,
    json: Json = False,
) -> None:
    """List what happened to a job: submissions, starts, progress, ends, decisions.

    Example: presage events j3f2a90cc1b7 --json
    """
    from presage.helper.places import jobs_place

    found = jobs_place().events(job_id, after)
    if json:
        emit_json({"events": found})
        return
    rows = [(str(each["number"]), each["at"][:19], each["kind"], _values(each["values"])) for each in found]
    print_table("", ("", "when", "what", ""), rows)


def _progress(job: dict[str, Any]) -> str:
    progress = job["progress"]
    if progress is None or not progress["total"]:
        return ""
    share = f"{progress['done'] / progress['total']:.0%}"
    if progress["left_s"] is None or job["state"] != "running":
        return share
    return f"{share}, {duration(progress['left_s'])} left"


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)[:150]
