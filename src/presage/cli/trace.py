"""`presage trace`: read, check, clean, convert, describe and draw job logs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from presage.cli import workloads
from presage.cli._output import Json, duration, emit_json, print_table, progress, tell
from presage.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from presage.traces import Manifest, ReadOptions, Trace, TraceBuilder

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

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Logs that make one trace; '-' is stdin.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="A log; '-' is stdin.")]
Out = Annotated[str, typer.Argument(metavar="OUT", help="The file to write; '-' is stdout.")]
Format = Annotated[
    str | None, typer.Option("--format", "-f", help="The log's format, if it is not recognised; see `formats`.")
]
TimeZone = Annotated[
    str | None, typer.Option("--time-zone", help="Zone of local times in the log, like Europe/Berlin.")
]
Fields = Annotated[
    str | None, typer.Option("--fields", help="Names of the columns of a log without header, comma-separated.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail if any row cannot be read.")]


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
def stats(
    files: Files,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    fields: Fields = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Print what a trace is like: jobs, span, load, waits, run times, users, outcomes.

    Example: presage trace stats KTH-SP2-1996-2.1-cln.swf.gz --json
    """
    from presage.traces.statistics import summarise

    trace = _read(files, format, time_zone, fields, strict)
    summary = summarise(trace).to_dict()
    if json:
        emit_json(summary)
        return
    rows = [(key.replace("_", " ").removesuffix(" s"), _readable(key, value)) for key, value in summary.items()]
    print_table(trace.manifest.name, ("", ""), [row for row in rows if row[1]])


@app.command()
def validate(
    files: Files,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    fields: Fields = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Check a trace: impossible times, sizes beyond the machine, rejected rows, what is missing.

    Exit code 6 if there are errors, or with --strict also warnings.
    """
    from presage.traces.validation import Severity
    from presage.traces.validation import validate as find_problems

    trace = _read(files, format, time_zone, fields, strict=False)
    findings = find_problems(trace)
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    valid = not any(finding.severity in bad for finding in findings)
    if json:
        emit_json({"valid": valid, "jobs": len(trace), "findings": [finding.to_dict() for finding in findings]})
    elif findings:
        rows = [(f.severity.value, f.check, f.message, ", ".join(f.examples)) for f in findings]
        print_table(trace.manifest.name, ("severity", "check", "finding", "for example"), rows)
    else:
        typer.echo(f"{trace.manifest.name}: {len(trace):,} jobs, nothing to remark.")
    if not valid:
        raise typer.Exit(EXIT_FINDINGS)


@app.command()
def convert(
    files: Files,
    out: Out,
    to: Annotated[
        str | None, typer.Option("--to", help="Output format, if the ending of OUT does not say it.")
    ] = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    fields: Fields = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Convert a log to Parquet (nothing lost), SWF, JSON lines or CSV, by the ending of OUT.

    Parquet output is streamed: logs larger than the memory can be converted. Rows that cannot be read are kept
    with file, line and reason in OUT.rejects.parquet.

    Example: presage trace convert log.swf.gz log.parquet
    """
    _check_output(files, out)
    manifest = _convert(files, Path(out), to, format, _options(time_zone, fields, strict), wants_json=json)
    _tell_reading(manifest)
    jobs, rejected = manifest.counts["jobs"], manifest.counts["rejected"]
    if json:
        emit_json({"output": out, "jobs": jobs, "rejected": rejected, "manifest": manifest.to_dict()})
    elif out != "-":
        typer.echo(f"{out}: {jobs:,} jobs, {rejected:,} rows rejected")


@app.command()
def clean(
    files: Files,
    out: Out,
    rules: Annotated[
        str, typer.Option("--rules", "-r", help="Rules and rule sets in the order to apply, comma-separated.")
    ] = "archive",
    to: Annotated[
        str | None, typer.Option("--to", help="Output format, if the ending of OUT does not say it.")
    ] = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    fields: Fields = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Apply named cleaning rules and write the result; the manifest records what each rule did.

    The default set `archive` is what published comparisons use; `learning` does not let run times leak into
    requests. `presage trace rules` lists them all.

    Example: presage trace clean log.swf.gz clean.parquet --rules archive,anonymise
    """
    from presage.traces.cleaning import clean as apply_rules
    from presage.traces.cleaning import expand_rules

    _check_output(files, out)
    writer = _writer(out, to, wants_json=json)
    names = [name.strip() for name in rules.split(",") if name.strip()]
    expand_rules(names)  # a misspelt rule is told before a large log is read
    cleaned = apply_rules(_read(files, format, time_zone, fields, strict), names)
    writer.write(cleaned, Path(out))
    steps = cleaned.manifest.cleaning[-len(expand_rules(names)) :]
    if json:
        entries = [{"rule": step.rule, "dropped": step.dropped, "changed": step.changed} for step in steps]
        emit_json({"output": out, "jobs": len(cleaned), "steps": entries})
    elif out != "-":
        rows = [(step.rule, f"{step.dropped:,}", f"{step.changed:,}") for step in steps]
        print_table(f"{out}: {len(cleaned):,} jobs", ("rule", "dropped", "changed"), rows)


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
def head(
    file: File,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many jobs.")] = 10,
    columns: Annotated[str | None, typer.Option("--columns", help="Columns to show, comma-separated.")] = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    fields: Fields = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Show the first jobs: the most telling columns as text, with --json every column that the log fills."""
    trace = _read([file], format, time_zone, fields, strict)
    filled = _filled_columns(trace)
    default = filled if json else [name for name in TELLING_COLUMNS if name in filled]
    first = trace.jobs.head(rows).select(_selected_columns(trace, columns) or default)
    if json:
        emit_json(first.to_dicts())
        return
    _print_frame(trace.manifest.name, first)


@app.command()
def plot(
    files: Files,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The picture: .png, .svg, .pdf or .html.")],
    figures: Annotated[
        str | None, typer.Option("--figures", help="Which figures, comma-separated; all that apply if not given.")
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="The heading; the trace's name if not given.")
    ] = None,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    fields: Fields = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Draw utilisation, arrivals, sizes, run times, waits, users and more.

    Figures: utilisation, queue, arrivals, sizes, runtimes, requests, waits, users, outcomes, gpus.

    Example: presage trace plot log.swf.gz log.html --figures waits,users
    """
    from presage.traces.plots import FIGURES, draw

    chosen = [name.strip() for name in (figures or "").split(",") if name.strip()]
    for name in chosen:
        if name not in FIGURES:
            raise UnknownNameError("figure", name, FIGURES)
    _check_output(files, out)
    trace = _read(files, format, time_zone, fields, strict)
    draw(trace, out, figures=chosen or None, title=title)
    if json:
        emit_json({"output": out, "jobs": len(trace), "figures": chosen or list(FIGURES)})
    else:
        typer.echo(f"{out}: {len(trace):,} jobs")


@app.command()
def events(
    file: File,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="How many events.")] = 20,
    format: Format = None,  # noqa: A002
    time_zone: TimeZone = None,
    fields: Fields = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Show the first events of the stream: submit, eligible, start, evict, requeue, fail, finish and others."""
    trace = _read([file], format, time_zone, fields, strict)
    stream = trace.events()
    first = stream.head(rows)
    if json:
        counts = dict(sorted(stream["event"].value_counts().iter_rows()))
        emit_json({"events": len(stream), "counts": counts, "first": first.to_dicts()})
        return
    _print_frame(f"{trace.manifest.name}: {len(stream):,} events", first)


def read_files(files: Sequence[str], format_name: str | None, time_zone: str | None) -> Trace:
    """Read the files of a command and tell what a person should know of them."""
    return _read(files, format_name, time_zone, fields=None, strict=False)


def _read(
    files: Sequence[str], format_name: str | None, time_zone: str | None, fields: str | None, strict: bool
) -> Trace:
    into = _pour(files, format_name, _options(time_zone, fields, strict), spill=None)
    trace = into.build()
    _tell_reading(trace.manifest)
    for row in trace.rejects.head(REJECTS_SHOWN).iter_rows(named=True):
        tell(f"  rejected: {row['file']}, line {row['line']}: {row['reason']}")
    return trace


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


def _options(time_zone: str | None, fields: str | None, strict: bool) -> ReadOptions:
    from presage.config import load_settings
    from presage.traces import ReadOptions

    overrides = {"time_zone": time_zone} if time_zone else {}
    settings = load_settings(**({"traces": overrides} if overrides else {})).traces
    names = tuple(name.strip() for name in fields.split(",")) if fields else ()
    return ReadOptions(time_zone=settings.time_zone, fields=names, strict=strict or settings.strict)


def _convert(
    inputs: Sequence[str],
    out: Path,
    to: str | None,
    format_name: str | None,
    options: ReadOptions,
    *,
    wants_json: bool,
) -> Manifest:
    import tempfile

    from presage.traces.writers.parquet import ParquetWriter

    writer = _writer(str(out), to, wants_json=wants_json)
    if not isinstance(writer, ParquetWriter) or str(out) == "-":
        trace = _pour(inputs, format_name, options, spill=None).build()
        writer.write(trace, out)
        return trace.manifest
    # Beside the output, because a temporary folder is often in memory and this may be larger than that.
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as spill:
        return _pour(inputs, format_name, options, Path(spill)).build_file(out)


def _writer(out: str, to: str | None, *, wants_json: bool) -> Any:
    from presage.traces.writers import STDOUT, choose_writer

    if out == STDOUT and wants_json:
        raise UsageError("Standard output cannot carry both the trace and --json", remedy="Name an output file")
    if out != STDOUT and not Path(out).absolute().parent.is_dir():
        raise UsageError(f"There is no folder {str(Path(out).parent)!r} to write to", remedy="Make it first")
    return choose_writer(out, to)


def _check_output(files: Sequence[str], out: str) -> None:
    if any(Path(path).resolve() == Path(out).resolve() for path in files if path != "-"):
        raise UsageError(f"{out!r} would be read and written at once", remedy="Write to another file")


def _filled_columns(trace: Trace) -> list[str]:
    from presage.traces.writers.jsonl import filled_columns

    return filled_columns(trace.jobs).columns


def _selected_columns(trace: Trace, columns: str | None) -> list[str]:
    names = [name.strip() for name in (columns or "").split(",") if name.strip()]
    for name in names:
        if name not in trace.jobs.columns:
            raise UnknownNameError("job column", name, trace.jobs.columns)
    return names


def _print_frame(title: str, frame: pl.DataFrame) -> None:
    """Print a frame with times as dates and durations as numbers with a unit."""
    rows = [
        ["" if value is None else _cell(name, value) for name, value in zip(frame.columns, row, strict=True)]
        for row in frame.iter_rows()
    ]
    print_table(title, [name.removesuffix("_ms") for name in frame.columns], rows)


def _cell(name: str, value: object) -> str:
    if name.endswith("_ms") and isinstance(value, int):
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{value:g}" if isinstance(value, float) else str(value)


def _tell_reading(manifest: Manifest) -> None:
    rejected = manifest.counts.get("rejected", 0)
    if rejected:
        tell(f"{rejected:,} rows could not be read; they are in the rejects table")
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
