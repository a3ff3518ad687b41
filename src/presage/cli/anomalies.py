"""`presage anomalies`: what is abnormal on a cluster, from its job log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli._output import Json, emit_json, names_in, print_table, progress, tell
from presage.cli.trace import Files, Format, TimeZone, read_files
from presage.errors import UsageError
from presage.wording import counted

if TYPE_CHECKING:
    from presage.foundation.anomalies import AnomalyReport
    from presage.traces import Trace


def anomalies(
    files: Files,
    kind: Annotated[
        str | None, typer.Option("--kind", help="Only these kinds of anomalies, comma-separated; see below.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only what ended since: a date, or 2d after the first submit."
        ),
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option("--min-score", help="How surprising it must be: at 3, by chance once in 1000 days. [1.5]"),
    ] = None,
    max_per_day: Annotated[
        int | None, typer.Option("--max-per-day", min=1, help="So many findings of a kind per day at most. [5]")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many findings in the table.")] = 30,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    json: Json = False,
) -> None:
    """Find what is abnormal: stalled jobs, wasteful requests, failures, and scheduling that does not work.

    Kinds: node-failures, failure-cascade, user-failures, unusable-partition, idle-processors, priority-inversion,
    stalled-run, stalled-queue, run-time, wasteful-request. What a trace has no columns for is told, and not
    looked for. The score is comparable between kinds: -log10 of how many findings as odd a day of ordinary work
    would give.

    Example: presage anomalies jobs.txt --since 2024-03-01 --json
    """
    from presage.foundation.anomalies import DETECTORS, MAX_PER_DAY, MIN_SCORE, find_anomalies
    from presage.simulator.present import parse_instant

    kinds = names_in(kind, "--kind")
    for name in kinds:
        DETECTORS.spec(name)
    if min_score is not None and not min_score >= 0:
        raise UsageError(f"No score is above {min_score}", expected="--min-score of 0 or more")
    trace = read_files(files, format, time_zone)
    since_ms = None if since is None else parse_instant(since, trace)
    with progress("Looking", len(kinds) or len(DETECTORS)) as advance:
        report = find_anomalies(
            trace,
            kinds=kinds or None,
            since_ms=since_ms,
            min_score=MIN_SCORE if min_score is None else min_score,
            max_per_day=MAX_PER_DAY if max_per_day is None else max_per_day,
            progress=lambda _: advance(1),
        )
    if json:
        emit_json(report.to_dict())
    else:
        _print(trace, report, limit)


def _print(trace: Trace, report: AnomalyReport, limit: int) -> None:
    number = len(report.findings)
    title = f"{trace.manifest.name}: {counted(number, 'finding')} in {counted(report.jobs, 'job')}"
    if number:
        rows = [(f"{each.score:.1f}", each.kind, each.reason) for each in report.findings[:limit]]
        print_table(title, ("score", "kind", "what and why"), rows)
    else:
        typer.echo(title)
    if number > limit:
        typer.echo(f"{number - limit:,} more: raise --limit or --min-score, or take --json.")
    if report.withheld:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in report.withheld.items())
        typer.echo(f"Left out, because their day had more surprising ones (--max-per-day): {kinds}.")
    for name, reason in report.skipped.items():
        tell(f"Not looked for: {name}, because {reason}.")
