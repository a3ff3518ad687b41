"""`presage trace`: read, check, clean, convert, describe and draw job logs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from presage.cli import workloads
from presage.cli._output import (
    Json,
    duration,
    emit_json,
    names_in,
    print_table,
    progress,
    tell,
    writer_for,
)
from presage.cli._reading import Files, Format, IntoFile, Reading, TimeZone, with_reading
from presage.errors import UnknownNameError, UsageError
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from presage.traces import Manifest, ReadOptions, Trace, TraceBuilder
    from presage.traces.writers import Writer

__all__ = ["Files", "Format", "TimeZone", "app", "check_output", "read_files"]

app = typer.Typer(
    help=(
        "Read any scheduler's job log: statistics, checks, cleaning, conversion, pictures, generated workloads. "
        "FILE may be compressed (.gz, .zst, .bz2, .xz), and '-' is standard input; the format is recognised. "
        "Several files that belong together, such as pods and nodes, are read as one trace."
    ),
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
app.command()(workloads.generate)
app.command()(workloads.models)

EXIT_FINDINGS = 6
TELLING_COLUMNS = (
    "job_id", "user", "queue", "partition", "submit_ms", "wait_s", "run_s", "limit_s", "cpus_req", "cpus_alloc",
    "gpus_req", "outcome",
)  # fmt: skip
REJECTS_SHOWN = 3

File = Annotated[str, typer.Argument(metavar="FILE", help="A log; '-' is stdin.")]
Out = Annotated[str, typer.Argument(metavar="OUT", help="The file to write; '-' is stdout.")]
Processors = Annotated[
    int | None,
    typer.Option("--processors", min=1, max=10**9, help="Size of the machine, where the log does not say it."),
]


@app.command()
def formats(json: Json = False) -> None:
    """List the formats that can be read and written."""
    from presage.traces.readers import READERS
    from presage.traces.writers import WRITERS

    readable = [{"name": spec.name, "summary": spec.summary} for spec in READERS.specs()]
    writable = [{"name": spec.name, "summary": spec.summary} for spec in WRITERS.specs()]
    if json:
        emit_json({"read": readable, "write": writable})
        return
    for title, specs in (("Reads", readable), ("Writes", writable)):
        print_table(title, ("format", "what it is"), [(spec["name"], spec["summary"]) for spec in specs])


@app.command()
@with_reading
def stats(
    files: Files,
    processors: Processors = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Print what a trace is like: jobs, span, load, waits, run times, users, outcomes.

    Example: presage trace stats KTH-SP2-1996-2.1-cln.swf.gz --json
    """
    from presage.traces.statistics import summarise

    trace = _read(files, reading, processors)
    summary = summarise(trace).to_dict()
    if json:
        emit_json(summary)
        return
    del summary["notes"]  # they have been told already
    rows = [(key.replace("_", " ").removesuffix(" s"), _readable(key, value)) for key, value in summary.items()]
    print_table(trace.manifest.name, ("", ""), [row for row in rows if row[1]])


@app.command()
@with_reading
def validate(
    files: Files,
    processors: Processors = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Check a trace: impossible times, sizes beyond the machine, rejected rows, what is missing.

    Exit code 6 if there are errors, or with --strict also warnings.
    """
    from presage.traces.validation import Severity
    from presage.traces.validation import validate as find_problems

    trace = _read(files, replace(reading, strict=False), processors)
    findings = find_problems(trace)
    bad = {Severity.ERROR, Severity.WARNING} if reading.strict else {Severity.ERROR}
    valid = not any(finding.severity in bad for finding in findings)
    if json:
        emit_json({"valid": valid, "jobs": len(trace), "findings": [finding.to_dict() for finding in findings]})
    elif findings:
        rows = [(f.severity.value, f.check, f.message, "; ".join(f.examples)) for f in findings]
        print_table(trace.manifest.name, ("severity", "check", "finding", "for example"), rows)
    else:
        typer.echo(f"{trace.manifest.name}: {counted(len(trace), 'job')}, nothing to remark.")
    if not valid:
        raise typer.Exit(EXIT_FINDINGS)


@app.command(cls=IntoFile)
@with_reading
def convert(
    files: Files,
    out: Out,
    to: Annotated[
        str | None, typer.Option("--to", help="Output format, if the ending of OUT does not say it.")
    ] = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Convert a log to Parquet (nothing lost), SWF, JSON lines or CSV, by the ending of OUT.

    Parquet output is streamed: logs larger than the memory can be converted. Rows that cannot be read are kept
    with file, line and reason in OUT.rejects.parquet.

    Example: presage trace convert log.swf.gz log.parquet
    """
    check_output(files, out)
    writer = writer_for(out, to, wants_json=json)
    manifest = _convert(files, Path(out), writer, reading)
    _tell_reading(manifest, _rejects_file(Path(out), writer))
    jobs, rejected = manifest.counts["jobs"], manifest.counts["rejected"]
    if json:
        emit_json({"output": out, "jobs": jobs, "rejected": rejected, "manifest": manifest.to_dict()})
    elif out != "-":
        typer.echo(f"{out}: {counted(jobs, 'job')}, {counted(rejected, 'row')} rejected")


@app.command(cls=IntoFile)
@with_reading
def clean(
    files: Files,
    out: Out,
    rules: Annotated[
        str, typer.Option("--rules", "-r", help="Rules and rule sets in the order to apply, comma-separated.")
    ] = "archive",
    to: Annotated[
        str | None, typer.Option("--to", help="Output format, if the ending of OUT does not say it.")
    ] = None,
    processors: Processors = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Apply named cleaning rules and write the result; the manifest records what each rule did.

    The default set `archive` is what published comparisons use; `learning` lets no run time leak into a
    request. `presage trace rules` lists them all.

    Example: presage trace clean log.swf.gz clean.parquet --rules archive,anonymise
    """
    from presage.traces.cleaning import clean as apply_rules
    from presage.traces.cleaning import expand_rules

    check_output(files, out)
    writer = writer_for(out, to, wants_json=json)
    names = names_in(rules, "--rules")
    expand_rules(names)  # a misspelt rule is told before a large log is read
    cleaned = apply_rules(_read(files, reading, processors), names)
    writer.write(cleaned, Path(out))
    steps = cleaned.manifest.cleaning[-len(expand_rules(names)) :]
    if json:
        entries = [{"rule": step.rule, "dropped": step.dropped, "changed": step.changed} for step in steps]
        emit_json({"output": out, "jobs": len(cleaned), "steps": entries})
    elif out != "-":
        rows = [(step.rule, f"{step.dropped:,}", f"{step.changed:,}") for step in steps]
        print_table(f"{out}: {counted(len(cleaned), 'job')}", ("rule", "dropped", "changed"), rows)


@app.command()
def rules(json: Json = False) -> None:
    """List the cleaning rules and rule sets."""
    from presage.traces.cleaning import RULE_SETS, RULES

    specs = RULES.specs()
    if json:
        emit_json({"rules": {spec.name: spec.summary for spec in specs}, "sets": RULE_SETS})
        return
    print_table("Rules", ("rule", "what it does"), [(spec.name, spec.summary) for spec in specs])
    print_table("Rule sets", ("set", "rules"), [(name, ", ".join(members)) for name, members in RULE_SETS.items()])


@app.command()
@with_reading
def head(
    file: File,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many jobs.")] = 10,
    columns: Annotated[str | None, typer.Option("--columns", help="Columns to show, comma-separated.")] = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Show the first jobs: the most telling columns as text, with --json every column that the log fills."""
    trace = _read([file], reading)
    filled = _filled_columns(trace)
    default = filled if json else [name for name in TELLING_COLUMNS if name in filled]
    first = trace.jobs.head(min(rows, len(trace))).select(_selected_columns(trace, columns) or default)
    if json:
        emit_json(first.to_dicts())
        return
    _print_frame(trace.manifest.name, first, trace.manifest)


@app.command(cls=IntoFile)
@with_reading
def plot(
    files: Files,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The picture: .png, .svg, .pdf or .html.")],
    figures: Annotated[
        str | None, typer.Option("--figures", help="Which figures, comma-separated; all that apply if not given.")
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="The heading; the trace's name if not given.")
    ] = None,
    processors: Processors = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Draw utilisation, arrivals, sizes, run times, waits, users and more.

    Figures: utilisation, queue, arrivals, sizes, runtimes, requests, waits, users, outcomes, gpus, gantt.

    Example: presage trace plot log.swf.gz log.html --figures waits,users
    """
    from presage.traces.files import check_place
    from presage.traces.plots import FIGURES, draw

    chosen = names_in(figures, "--figures")
    for name in chosen:
        if name not in FIGURES:
            raise UnknownNameError("figure", name, FIGURES)
    check_output(files, out)
    check_place(Path(out))
    trace = _read(files, reading, processors)
    drawn = draw(trace, out, figures=chosen or None, title=title)
    if json:
        emit_json({"output": out, "jobs": len(trace), "figures": drawn})
    else:
        typer.echo(f"{out}: {counted(len(trace), 'job')}")


@app.command()
@with_reading
def events(
    file: File,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many events.")] = 20,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Show the first events of the stream: submit, eligible, start, evict, requeue, fail, finish and others."""
    trace = _read([file], reading)
    stream = trace.events()
    first = stream.head(min(rows, len(stream)))
    if json:
        counts = dict(sorted(stream["event"].value_counts().iter_rows()))
        emit_json({"events": len(stream), "counts": counts, "first": first.to_dicts()})
        return
    _print_frame(f"{trace.manifest.name}: {counted(len(stream), 'event')}", first, trace.manifest)


def read_files(files: Sequence[str], format_name: str | None, time_zone: str | None) -> Trace:
    """Read the files of a command and tell what a person should know of them."""
    return _read(files, Reading(format_name, time_zone))


def _read(files: Sequence[str], reading: Reading, processors: int | None = None) -> Trace:
    trace = _pour(files, reading.format, _options(reading), spill=None).build()
    _tell_reading(trace.manifest, rejects=trace.rejects)
    return trace if processors is None else trace.with_processors(processors)


def _pour(files: Sequence[str], format_name: str | None, options: ReadOptions, spill: Path | None) -> TraceBuilder:
    from presage.config import load_settings
    from presage.traces import Source, TraceBuilder
    from presage.traces.readers import read_sources

    limit = load_settings().traces.max_line_bytes
    sizes = [Source(file).size_bytes() for file in files]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    into = TraceBuilder(options, spill=spill)
    with progress("Reading", total) as advance:
        sources = [Source(file, max_line_bytes=limit, on_bytes=advance) for file in files]
        read_sources(sources, into, format_name)
    return into


def _options(reading: Reading) -> ReadOptions:
    from presage.config import load_settings
    from presage.traces import ReadOptions

    settings = load_settings().traces
    named = names_in(reading.fields, "--fields")
    # An empty name stands for a column too, so that the others keep their places.
    fields = (reading.fields or "").split(",") if named else []
    return ReadOptions(
        time_zone=reading.time_zone or settings.time_zone,
        fields=tuple(name.strip() for name in fields),
        strict=reading.strict or settings.strict,
    )


def _convert(inputs: Sequence[str], out: Path, writer: Writer, reading: Reading) -> Manifest:
    import tempfile

    from presage.traces.files import writing

    options = _options(reading)
    if _rejects_file(out, writer) is None:
        trace = _pour(inputs, reading.format, options, spill=None).build()
        writer.write(trace, out)
        return trace.manifest
    with writing(out):
        # Beside the output, because a temporary folder is often in memory and this may be larger than that.
        spill = tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.")
    with spill as folder:
        return _pour(inputs, reading.format, options, Path(folder)).build_file(out)


def _rejects_file(out: Path, writer: Writer) -> Path | None:
    """Return where the rejects of a trace written to `out` are kept, None if they are not."""
    from presage.traces.trace import side_path
    from presage.traces.writers.parquet import ParquetWriter

    return side_path(out, "rejects") if isinstance(writer, ParquetWriter) and str(out) != "-" else None


def check_output(files: Sequence[str], out: str) -> None:
    """Raise UsageError if `out` is one of the files that are read."""
    place = Path(out)
    inputs = [Path(file) for file in files if file != "-"]
    if out != "-" and place.exists() and any(path.exists() and path.samefile(place) for path in inputs):
        raise UsageError(f"{out!r} would be read and written at once", remedy="Write to another file")


def _filled_columns(trace: Trace) -> list[str]:
    from presage.traces.writers.jsonl import filled_columns

    return filled_columns(trace.jobs).columns


def _selected_columns(trace: Trace, columns: str | None) -> list[str]:
    names = names_in(columns, "--columns")
    for name in names:
        if name not in trace.jobs.columns:
            raise UnknownNameError("job column", name, trace.jobs.columns)
    return names


def _print_frame(title: str, frame: pl.DataFrame, manifest: Manifest) -> None:
    """Print a frame with times as dates, or as seconds from the log's zero where nobody knows its date."""
    instant = _date if manifest.absolute_time else partial(_seconds_from, manifest.origin_ms)
    unit = "" if manifest.absolute_time else "_s"
    times = {name for name in frame.columns if name.endswith("_ms")}
    rows = [
        [_cell(value, instant if name in times else None) for name, value in zip(frame.columns, row, strict=True)]
        for row in frame.iter_rows()
    ]
    print_table(
        title, [name.removesuffix("_ms") + unit if name in times else name for name in frame.columns], rows
    )


def _cell(value: object, instant: Callable[[int], str] | None) -> str:
    if value is None:
        return ""
    if instant and isinstance(value, int):
        return instant(value)
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _date(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # beyond the years that have dates
        return f"{time_ms} ms"


def _seconds_from(origin_ms: int, time_ms: int) -> str:
    return f"{(time_ms - origin_ms) / 1000:.15g}"


def _tell_reading(
    manifest: Manifest, rejects_file: Path | None = None, *, rejects: pl.DataFrame | None = None
) -> None:
    from presage.traces.trace import place_of

    rejected = manifest.counts.get("rejected", 0)
    if rejected:
        kept = (
            f"see {rejects_file}"
            if rejects_file
            else "`presage trace convert FILE OUT.parquet` keeps such rows in OUT.rejects.parquet"
        )
        tell(f"{counted(rejected, 'row')} could not be read; {kept}")
    if rejects is not None:
        for row in rejects.head(REJECTS_SHOWN).iter_rows(named=True):
            tell(f"  rejected: {place_of(row)}: {row['reason']}")
    for note in manifest.notes:
        tell(f"note: {note}")


def _readable(key: str, value: object) -> str:
    """Return a statistic as a person reads it; empty for what is not known."""
    if value is None or value in ([], {}, ()):
        return ""
    if isinstance(value, dict) and all(isinstance(item, bool) for item in value.values()):
        return ", ".join(name.replace("_", " ") for name, present in value.items() if present)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_readable(name, item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(str(item) for item in value)
    if isinstance(value, bool | str):
        return str(value)
    if key.endswith("_s") and isinstance(value, int | float):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
