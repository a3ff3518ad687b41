"""The shapes in which sacct prints its table, turned into columns of text named in lower case.

Three shapes: delimited with a header (`--parsable`, `--parsable2`, any `--delimiter`), delimited without one
(`--noheader`), and aligned with blanks below a ruler of dashes, which is what sacct prints when nothing is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._cells import BATCH_ROWS, LINE, Cells, delimited
from presage.traces.readers.slurm.texts import JOB_ID, MISSING, parse_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

KNOWN_LAYOUTS = {
    "xdmod": """
        jobid jobidraw cluster partition qos account group gid user uid submit eligible start end elapsed exitcode
        state nnodes ncpus reqcpus reqmem reqtres alloctres timelimit nodelist jobname
    """,
    "hpc-cost-simulator": """
        state jobid reqcpus reqmem reqnodes constraints submit eligible start elapsed suspended end exitcode
        derivedexitcode allocnodes ncpus maxdiskread maxdiskwrite maxpages maxrss maxvmsize cputime usercpu
        systemcpu totalcpu partition
    """,
    "apel": """
        jobid jobname user group start end elapsed cputimeraw partition ncpus nnodes nodelist maxrss maxvmsize
        state
    """,
}
"""Field lists of tools that ask sacct for no header, by the tool's name. A row may lack the last field."""

_FIELD_NAMES = """
    account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq avediskread
    avediskwrite avepages averss avevmsize blockid cluster comment constraints consumedenergy consumedenergyraw
    container cputime cputimeraw dbindex dependency derivedexitcode elapsed elapsedraw eligible end exitcode
    extra failednode flags gid group jobid jobidraw jobname layout licenses maxdiskread maxdiskwrite maxpages
    maxrss maxvmsize mcslabel mincpu ncpus nnodes nodelist ntasks partition planned plannedcpu plannedcpuraw
    priority qos qosraw qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reqcpus reqgres
    reqmem reqnodes reqtres reservation reservationid reserved restarts resvcpu resvcpuraw segmentsize sluid
    start state stderr stdin stdout submit submitline suspended systemcomment systemcpu timelimit timelimitraw
    totalcpu tresusageinave tresusageinmax tresusageinmin tresusageintot tresusageoutave tresusageoutmax
    tresusageoutmin tresusageouttot uid user usercpu wckey wckeyid workdir
"""
FIELDS = frozenset(_FIELD_NAMES.split())
QUEUE_FIELDS = frozenset({"submit_time", "start_time", "end_time", "time_limit", "time_left", "nodelist(reason)"})
"""Names that squeue gives its columns, and sacct does not."""
_NODE_OR_TASK = re.compile(r"(max|min|tresusage\w+)\w*(node|task)$")
_FREE_TEXT = (
    "jobname", "constraints", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra",
    "stdin", "stdout", "stderr",
)  # fmt: skip
"""Fields in which people may write the delimiter."""
_HEADER_WITHIN_LINES = 10
TAIL = "__tail__"
"""The column of what stands behind the last delimiter of `--parsable`: nothing."""


@dataclass(frozen=True)
class Layout:
    """How a table is laid out: fields in order, and either a delimiter or the columns' positions."""

    fields: tuple[str, ...]
    delimiter: str = "|"
    spans: tuple[tuple[int, int | None], ...] = ()
    named: bool = True
    """The table itself names its fields."""


def layout_of(head: Head, fields: Sequence[str] = ()) -> Layout | None:
    """Return the layout that the beginning of a table shows; `fields` name the columns of one without a header."""
    lines = head.lines[:_HEADER_WITHIN_LINES]
    for line, below in pairwise([*lines, ""]):
        layout = _aligned_header(line, below) or _delimited_header(line)
        if layout:
            return layout
    if fields:
        first = lines[0] if lines else ""
        delimiter = next((mark for mark in "|,\t;" if mark in first), "|")
        return Layout(_distinct([name.strip().lower() for name in fields]), delimiter, named=False)
    return _known_layout(head.lines)


def resembles_rows(head: Head) -> bool:
    """True if the beginning has rows of a job id, a state and times, in whatever order."""
    rows = [line.split("|") for line in head.lines[:_HEADER_WITHIN_LINES]]
    return any(
        len(row) > 3
        and any(_is_job_id(cell) for cell in row)
        and any(cell and parse_state(cell) and not cell.isdecimal() for cell in row)
        and sum(bool(_TIME.fullmatch(cell)) for cell in row) > 1
        for row in rows
    )


def text_tables(source: Source, into: TraceBuilder, layout: Layout) -> Iterator[Cells]:
    """Yield the rows in batches as text; header and ruler lines, which dumps put together repeat, are left out."""
    key = "jobid" if "jobid" in layout.fields else "jobidraw"
    for cells in _sliced(source, into, layout) if layout.spans else _split(source, into, layout):
        if key in cells:
            decoration = pl.col(key).str.to_lowercase().eq(key) | pl.col(key).str.contains(r"^-+$")
            cells.table = cells.table.filter(decoration.not_().fill_null(True))
        yield cells


def _split(source: Source, into: TraceBuilder, layout: Layout) -> Iterator[Cells]:
    mended = _Mender(layout)
    yield from delimited(
        source,
        into,
        delimiter=layout.delimiter,
        columns=layout.fields,
        quoted=layout.delimiter == ",",
        optional_tail=1 if TAIL in layout.fields or not layout.named else 0,
        mend=mended,
    )
    if mended.count:
        into.count(rows_mended=mended.count)
        into.note("some rows had the delimiter within a text: put together again (counted as rows_mended)")


def _sliced(source: Source, into: TraceBuilder, layout: Layout) -> Iterator[Cells]:
    def table(lines: list[tuple[int, str]]) -> Cells:
        text = pl.col("text")
        cells = {
            name: text.str.slice(first, None if end is None else end - first)
            for name, (first, end) in zip(layout.fields, layout.spans, strict=True)
        }
        whole = pl.DataFrame(lines, schema={LINE: pl.Int64, "text": pl.String}, orient="row")
        return Cells(whole.select(LINE, **cells), source, into)

    lines: list[tuple[int, str]] = []
    for line in source.lines(into.rejecter(source.name)):
        lines.append(line)
        if len(lines) >= BATCH_ROWS:
            yield table(lines)
            lines = []
    if lines:
        yield table(lines)


def _aligned_header(line: str, below: str) -> Layout | None:
    if not re.fullmatch(r"\s*-+(\s+-+)*\s*", below):
        return None
    spans = [match.span() for match in re.finditer(r"-+", below)]
    names = [line[first:end].strip().lower() for first, end in spans]
    if not _are_fields(names):
        return None
    return Layout(_distinct(names), "", (*spans[:-1], (spans[-1][0], None)))


def _delimited_header(line: str) -> Layout | None:
    bare = line.replace('"', "")
    match = re.match(r"\W*(\w+)([^\w\s]+|\t)", bare)
    if not match or match[1].lower() not in FIELDS:
        return None
    names = [name.strip().lower() for name in bare.split(match[2])]
    return Layout(_distinct(names), match[2]) if _are_fields(names) else None


def _are_fields(names: Sequence[str]) -> bool:
    named = [name for name in names if name]
    known = [name for name in named if name in FIELDS or _NODE_OR_TASK.fullmatch(name)]
    if QUEUE_FIELDS & set(named):
        return False
    return bool({"jobid", "jobidraw"} & set(named)) and len(known) > 1 and len(known) >= 0.6 * len(named)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, fit for columns and each once; `--parsable` puts a delimiter behind the last."""
    result: list[str] = []
    for place, name in enumerate(names):
        plain = re.sub(r"\W+", "_", name)
        usable = plain and plain not in {*result, LINE, TAIL}
        result.append(plain if usable else f"column{place + 1}")
    if len(names) > 1 and not names[-1]:
        result[-1] = TAIL
    return tuple(result)


def _known_layout(lines: list[str]) -> Layout | None:
    rows = [line.split("|") for line in lines[:100]]
    for text in KNOWN_LAYOUTS.values():
        fields = tuple(text.split())
        fitting = [row for row in rows if len(row) >= len(fields) - 1 and _fits(fields, row)]
        if 2 * len(fitting) > len(rows):
            ends_in_mark = all(len(row) > len(fields) and not row[-1] for row in fitting)
            return Layout((*fields, TAIL) if ends_in_mark else fields, named=False)
    return None


_DURATION = r"(\d+-)?(\d+:)?\d+:\d+(\.\d+)?"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\d{9,10}")


def _is_job_id(text: str) -> bool:
    return bool(JOB_ID.fullmatch(text))


def _blank_or(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: not text or text in MISSING or bool(compiled.fullmatch(text))


_MUST_BE: dict[str, Callable[[str], bool]] = {
    TAIL: lambda text: not text,
    "jobid": _is_job_id,
    "jobidraw": _is_job_id,
    "state": lambda text: parse_state(text) is not None,
    **dict.fromkeys(("submit", "eligible", "start", "end"), _blank_or(_TIME.pattern)),
    **dict.fromkeys(("elapsed", "suspended", "totalcpu"), _blank_or(_DURATION)),
    **dict.fromkeys(("timelimit", "timelimitraw"), _blank_or(_DURATION + r"|UNLIMITED|\d+")),
    **dict.fromkeys(("exitcode", "derivedexitcode"), _blank_or(r"\d+:\d+")),
    **dict.fromkeys(
        ("ncpus", "alloccpus", "reqcpus", "nnodes", "allocnodes", "reqnodes", "ntasks", "uid", "gid", "priority"),
        _blank_or(r"[\d.]+[KM]?"),
    ),
    **dict.fromkeys(("elapsedraw", "cputimeraw", "restarts", "dbindex"), _blank_or(r"\d+")),
    "reqmem": _blank_or(r"[\d.]+[KMGTPE]?[cn]?"),
    **dict.fromkeys(("reqtres", "alloctres", "tresusageintot"), _blank_or(r"[\w/:]+=[^ ]*")),
}


def _fits(fields: Sequence[str], row: Sequence[str]) -> bool:
    """True if every cell whose kind is known looks like it."""
    return all(_MUST_BE[name](cell.strip()) for name, cell in zip(fields, row, strict=False) if name in _MUST_BE)


class _Mender:
    """Puts rows together again in which a text held the delimiter, if there is only one sensible way."""

    def __init__(self, layout: Layout) -> None:
        self.count = 0
        self._layout = layout
        self._places = [place for place, name in enumerate(layout.fields) if name in _FREE_TEXT]

    def __call__(self, row: list[str]) -> list[str] | None:
        fields = self._layout.fields
        surplus = len(row) - len(fields)
        if surplus == 1 and not row[-1] and TAIL not in fields and _fits(fields, row):
            return row[:-1]
        ways = []
        for place in self._places:
            whole = self._layout.delimiter.join(row[place : place + surplus + 1])
            way = [*row[:place], whole, *row[place + surplus + 1 :]]
            if _fits(fields, way):
                ways.append(way)
        if len(ways) != 1:
            return None
        self.count += 1
        return ways[0]
