"""Standard Workload Format: 18 numbers per job, comments behind `;`, -1 for "not known".

Dialects that are read too: no header at all; tabs; headers indented behind the semicolon or without a blank;
a status column that holds raw exit codes; submit times that are absolute epochs; a 19th column (CQGym); the
21 columns of the Alea simulator (node ids, queue name, node specification; memory in bytes of the whole job).

Whole blocks are parsed at once. A block with anything unusual in it is parsed again line by line, which is
slower and knows the line and the reason of every reject.
"""

from __future__ import annotations

import re
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from presage.traces.manifest import Machine
from presage.traces.readers._base import LIKELY, NO, SURE, Reader
from presage.traces.readers._cells import MAX_EPOCH_S
from presage.traces.schema import OUTCOME, Outcome
from presage.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

COLUMNS = (
    "job", "submit", "wait", "run", "alloc", "cpu_time", "mem_used", "cpus_req", "limit", "mem_req", "status",
    "user", "group", "executable", "queue", "partition", "preceding", "think",
)  # fmt: skip
MIN_COLUMNS = len(COLUMNS)
ALEA_COLUMNS = 21
KIB = 1024
SYNTHETIC_NOTE = "synthetic"
"""A header comment `; Note: synthetic…`, which our writer makes, says that the jobs never ran."""
_FRACTIONAL = {"submit", "wait", "run", "cpu_time", "mem_used", "limit", "mem_req", "think"}
_WHOLE_SECONDS = {name: pl.Float64 if name == "cpu_time" else pl.Int64 for name in COLUMNS}
_FRACTIONS = {name: pl.Float64 if name in _FRACTIONAL else pl.Int64 for name in COLUMNS}
_EARLIEST_EPOCH_S = 500_000_000  # 1985: a first submit beyond it, without UnixStartTime, is an absolute time
_STATUS_CODES = range(-1, 6)
_PARTIAL = (2, 3, 4)  # rows that describe one stretch of a checkpointed job
_MAX_HEADER_LINES = 10_000
_WIDEST_INDENT = 200
_ROWS_LOOKED_AT = 20
_PARSERS = 2
_CACHED_BYTES = 128 * 1024  # temporaries of this size stay in the processor's cache
_FEW_LABELS = 10_000
_FIELD = re.compile(r"^\s*;\s*(\w+)\s*:\s*(.*?)\s*$")
_TRAILING_BLANKS = re.compile(rb"[ \t\r]+\n")
_COMMENT_LINE = re.compile(rb"^[ \t]*;[^\n]*\n", re.MULTILINE)


class SwfReader(Reader):
    """Standard Workload Format and its dialects."""

    format = "swf"

    def match(self, head: Head) -> int:
        if head.is_binary:
            return NO
        comments = [line for line in head.lines if line.lstrip().startswith(";")]
        rows = [line.split() for line in head.lines if not line.lstrip().startswith(";")][:_ROWS_LOOKED_AT]
        if comments and any((field := _FIELD.match(line)) and field[1] in _KNOWN_FIELDS for line in comments):
            return SURE
        good = sum(len(row) >= MIN_COLUMNS and _all_numbers(row[:MIN_COLUMNS]) for row in rows)
        return LIKELY if good and good >= len(rows) / 2 else NO

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        dialect: _Dialect | None = None
        header: list[str] = []
        notes = _Notes()
        rows = 0
        for block in _parsed_blocks(source, into):
            header.extend(block.comments)
            for line, reason, text in block.rejects:
                into.reject(source.name, line, reason, text)
            rows += len(block.raw) + len(block.rejects)
            if not len(block.raw):
                continue
            if dialect is None:
                dialect = _Dialect.of(header, block.raw)
                dialect.describe(header, into)
            _pour(block.raw, dialect, notes, into)
        notes.report(into)
        return rows


_KNOWN_FIELDS = {
    "Version", "Computer", "Installation", "Acknowledge", "Information", "Conversion", "MaxJobs", "MaxRecords",
    "UnixStartTime", "TimeZone", "TimeZoneString", "StartTime", "EndTime", "MaxNodes", "MaxProcs", "MaxRuntime",
    "MaxMemory", "AllowOveruse", "MaxQueues", "Queue", "Queues", "MaxPartitions", "Partition", "Partitions",
    "Note", "Preemption",
}  # fmt: skip


@dataclass(frozen=True)
class _Dialect:
    """What the header and the first rows decide for the whole file."""

    origin_s: int
    absolute_time: bool
    exit_codes: bool
    alea: bool

    @classmethod
    def of(cls, header: list[str], raw: pl.DataFrame) -> _Dialect:
        start = _number(_fields(header), "UnixStartTime")
        first_submit = raw["submit"].min()
        epoch_submits = not start and isinstance(first_submit, int | float) and first_submit > _EARLIEST_EPOCH_S
        return cls(
            origin_s=int(start or 0),
            absolute_time=bool(start) or epoch_submits,
            exit_codes=not raw["status"].is_in(list(_STATUS_CODES)).all(),
            alea="x_alea_nodes" in raw.columns,
        )

    def describe(self, header: list[str], into: TraceBuilder) -> None:
        fields = _fields(header)
        nodes = _number(fields, "MaxNodes")
        cpus = _number(fields, "MaxProcs")
        into.describe(
            machine=Machine(nodes=int(nodes) if nodes else None, cpus=cpus or nodes),
            origin_ms=self.origin_s * 1000,
            absolute_time=self.absolute_time,
            time_zone=fields.get("TimeZoneString", [None])[0],
            acknowledgement="; ".join(fields.get("Acknowledge", [])) or None,
            header=tuple(header[:_MAX_HEADER_LINES]),
            synthetic=any(note.startswith(SYNTHETIC_NOTE) for note in fields.get("Note", [])),
        )
        if not self.absolute_time:
            into.note("the log does not say when it began: times count from its own zero")
        if self.exit_codes:
            into.note("the status column holds exit codes: 0 is read as completed, others as failed")
        if self.alea:
            into.note("21 columns: the memory request is in bytes per job; columns 17 and 18 are not used")


class _Notes:
    """Values that cannot be true and were read as missing, counted over all blocks."""

    def __init__(self) -> None:
        self.impossible = dict.fromkeys(COLUMNS, 0)
        self.unknown_status = 0

    def report(self, into: TraceBuilder) -> None:
        for column, count in self.impossible.items():
            if count:
                into.note(f"{counted(count, 'negative value')} of the column {column!r} read as missing")
        if self.unknown_status:
            rows = counted(self.unknown_status, "row")
            into.note(f"{rows} with a status that SWF does not define: outcome unknown")


@dataclass(frozen=True)
class _Block:
    """A parsed block: the numbers as they stand, the comment lines, and what could not be read."""

    raw: pl.DataFrame
    comments: list[str]
    rejects: list[tuple[int, str, str]]


def _parsed_blocks(source: Source, into: TraceBuilder) -> Iterator[_Block]:
    """Yield the blocks in order, parsing some while the next are still being decompressed."""
    with ThreadPoolExecutor(_PARSERS) as pool:
        pending: deque[Future[_Block]] = deque()
        for first_line, block in source.blocks(into.rejecter(source.name)):
            pending.append(pool.submit(_parse, source.as_utf8(block), first_line))
            if len(pending) > _PARSERS:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _parse(block: bytes, first_line: int) -> _Block:
    comments, body = _leading_comments(block)
    raw = _parse_fast(body)
    if raw is None and b";" in body:
        comments += _COMMENT_LINE.findall(body)
        body = _COMMENT_LINE.sub(b"", body)
    if raw is None:
        raw = _parse_fast(_TRAILING_BLANKS.sub(b"\n", body.replace(b"\t", b" ")))
    rejects: list[tuple[int, str, str]] = []
    if raw is None:
        raw, rejects = _parse_lines(block, first_line)
    return _Block(raw, [line.decode().rstrip() for line in comments], rejects)


def _leading_comments(block: bytes) -> tuple[list[bytes], bytes]:
    """Split off the comment lines at the beginning, where nearly all logs have theirs."""
    comments = []
    start = 0
    while block[start : start + _WIDEST_INDENT].lstrip(b" \t").startswith(b";"):
        end = block.index(b"\n", start) + 1
        comments.append(block[start:end])
        start = end
    return comments, block[start:] if start else block


def _parse_fast(body: bytes) -> pl.DataFrame | None:
    """Return the table of a block of plain 18-column lines, or None if anything in it is unusual."""
    if not body.strip():
        return pl.DataFrame(schema=_WHOLE_SECONDS)
    marked = _mark_fields(body)
    for schema in (_WHOLE_SECONDS, _FRACTIONS):
        try:
            raw = pl.read_csv(marked, separator=",", has_header=False, quote_char=None, schema=schema)
        except pl.exceptions.PolarsError:
            continue
        # A short or blank line shows as nulls: the format itself has none.
        return raw if not any(raw.null_count().row(0)) and _in_range(raw) else None
    return None


def _mark_fields(body: bytes) -> bytes:
    """Return `body` with a comma for the first blank behind every number.

    The blanks that remain stand before a number, where the CSV parser skips them. Replacing one byte in
    place is several times faster than squeezing runs of blanks.
    """
    text = np.frombuffer(body, np.uint8)
    marked = np.empty(len(text), np.uint8)
    marked[0] = text[0]
    for first in range(1, len(text), _CACHED_BYTES):
        here = text[first : first + _CACHED_BYTES]
        before = text[first - 1 : first - 1 + len(here)]
        ends = (here == ord(" ")) & (before > ord(" "))
        np.add(here, ends.view(np.uint8) * (ord(",") - ord(" ")), out=marked[first : first + len(here)])
    return marked.tobytes()


def _in_range(raw: pl.DataFrame) -> bool:
    floats = [name for name, dtype in raw.schema.items() if dtype == pl.Float64]
    finite = raw.select(pl.all_horizontal(pl.col(floats).is_finite().all())).item()
    times = raw.select(pl.max_horizontal(pl.col("submit", "wait", "run", "limit").abs().max())).item()
    return bool(finite) and times <= MAX_EPOCH_S


def _parse_lines(block: bytes, first_line: int) -> tuple[pl.DataFrame, list[tuple[int, str, str]]]:
    """Return the table of a block that may hold anything, and the lines that are no jobs."""
    rows: list[list[Any]] = []
    tails: list[list[str]] = []
    rejects: list[tuple[int, str, str]] = []
    for number, line in enumerate(block.decode().split("\n"), start=first_line):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        problem = _problem(fields)
        if problem:
            rejects.append((number, problem, line))
            continue
        rows.append([_value(name, text) for name, text in zip(COLUMNS, fields, strict=False)])
        tails.append(fields[MIN_COLUMNS:])
    raw = pl.DataFrame(rows, schema=_FRACTIONS, orient="row")
    return _with_tails(raw, tails), rejects


def _problem(fields: list[str]) -> str | None:
    if len(fields) < MIN_COLUMNS:
        return f"{len(fields)} columns where {MIN_COLUMNS} were expected"
    for position, (name, text) in enumerate(zip(COLUMNS, fields, strict=False), start=1):
        value = _value(name, text)
        if value is None:
            return f"column {position} ({name}): {text[:40]!r} is not a number"
        if name in {"submit", "wait", "run", "limit"} and abs(value) > MAX_EPOCH_S:
            return f"column {position} ({name}): {text[:40]!r} is not a plausible number of seconds"
    return None


def _value(name: str, text: str) -> float | int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if not np.isfinite(value) or abs(value) >= 2.0**63:
        return None
    if name in _FRACTIONAL:
        return value
    whole = int(text) if text.lstrip("+-").isdecimal() else int(value)
    return whole if whole == value or abs(value) > 2.0**53 else None


def _with_tails(raw: pl.DataFrame, tails: list[list[str]]) -> pl.DataFrame:
    """Return the table with what stood behind the 18 columns."""
    if not any(tails):
        return raw
    widest = max(map(len, tails))
    if widest == ALEA_COLUMNS - MIN_COLUMNS:
        names = ["x_alea_nodes", "x_alea_queue", "x_alea_spec"]
    else:
        names = [f"x_swf_{MIN_COLUMNS + 1 + i}" for i in range(widest)]
    columns = [
        pl.Series(name, [tail[i] if i < len(tail) else None for tail in tails], dtype=pl.String)
        for i, name in enumerate(names)
    ]
    return raw.with_columns(columns)


def _pour(raw: pl.DataFrame, dialect: _Dialect, notes: _Notes, into: TraceBuilder) -> None:
    """Turn a raw table into jobs, attempts and edges."""
    _count_impossible(raw, dialect, notes)
    if not dialect.exit_codes and raw["status"].is_in(_PARTIAL).any():
        partial = pl.col("status").is_in(_PARTIAL)
        into.add_attempts(_attempts(raw.filter(partial), dialect))
        raw = raw.filter(~partial)
    jobs = _jobs(raw, dialect)
    into.add_jobs(jobs)
    if not dialect.alea and (raw["preceding"] > 0).any():
        into.add_edges(_edges(raw.filter(pl.col("preceding") > 0)))


def _jobs(raw: pl.DataFrame, dialect: _Dialect) -> pl.DataFrame:
    size = pl.max_horizontal("alloc", "cpus_req", pl.lit(1))
    submit_ms = ((pl.col("submit") + dialect.origin_s) * 1000).cast(pl.Int64)
    start_ms = submit_ms + (_known("wait") * 1000).cast(pl.Int64)
    columns = {
        "job_id": pl.col("job").cast(pl.String),
        "user": _labels(raw, "user"),
        "group": _labels(raw, "group"),
        "executable": _labels(raw, "executable"),
        "queue": _labels(raw, "queue"),
        "partition": _labels(raw, "partition"),
        "submit_ms": submit_ms,
        "start_ms": start_ms,
        "end_ms": start_ms + (_known("run") * 1000).cast(pl.Int64),
        "wait_s": _known("wait").cast(pl.Float64),
        "run_s": _known("run").cast(pl.Float64),
        "limit_s": _known("limit").cast(pl.Float64),
        "cpus_req": _known("cpus_req").cast(pl.Float64),
        "cpus_alloc": _known("alloc").cast(pl.Float64),
        "mem_req_bytes": _known("mem_req") if dialect.alea else (_known("mem_req") * KIB * size).round(),
        "cpu_used_s": _known("cpu_time") * size,
        "mem_used_bytes": (_known("mem_used") * KIB * size).round(),
        "status": _labels(raw, "status"),
        **_outcome(dialect),
    }
    # A column the log never fills costs nothing as a literal null, and as much as any other as data.
    unfilled = _unfilled(raw)
    filled = {name: expr for name, expr in columns.items() if _ORIGIN.get(name) not in unfilled}
    return raw.select(**{**filled, **_extras(raw, dialect)})


_ORIGIN = {
    "user": "user", "group": "group", "executable": "executable", "queue": "queue", "partition": "partition",
    "wait_s": "wait", "start_ms": "wait", "end_ms": "wait", "run_s": "run", "limit_s": "limit",
    "cpus_req": "cpus_req", "cpus_alloc": "alloc", "mem_req_bytes": "mem_req", "cpu_used_s": "cpu_time",
    "mem_used_bytes": "mem_used", "status": "status", "outcome": "status", "exit_code": "status",
}  # fmt: skip
"""Canonical column → the SWF column without which it is empty."""


def _unfilled(raw: pl.DataFrame) -> set[str]:
    unknown = raw.select((pl.col(COLUMNS) == -1).all()).row(0, named=True)
    return {name for name, all_unknown in unknown.items() if all_unknown}


def _known(column: str) -> pl.Expr:
    return pl.when(pl.col(column) >= 0).then(column)


def _labels(raw: pl.DataFrame, column: str) -> pl.Expr:
    """Return the numbers of a column as text, null for -1.

    Users, queues and the like have few different numbers, so each is turned into text once.
    """
    numbers = pl.when(pl.col(column) != -1).then(pl.col(column))
    low, high = raw.select(low=pl.col(column).min(), high=pl.col(column).max()).row(0)
    if low < -1 or high > _FEW_LABELS:
        return numbers.cast(pl.String)
    return pl.lit(pl.int_range(high + 1, eager=True).cast(pl.String)).gather(numbers)


def _outcome(dialect: _Dialect) -> dict[str, pl.Expr]:
    status = pl.col("status")
    if dialect.exit_codes:
        outcome = (
            pl.when(status == 0).then(pl.lit(Outcome.COMPLETED.value)).otherwise(pl.lit(Outcome.FAILED.value))
        )
        return {
            "outcome": pl.when(status != -1).then(outcome).cast(OUTCOME),
            "exit_code": pl.when(status != -1).then(status),
        }
    words = {
        0: Outcome.FAILED,
        1: Outcome.COMPLETED,
        3: Outcome.COMPLETED,
        4: Outcome.FAILED,
        5: Outcome.CANCELLED,
    }
    known = {code: outcome.value for code, outcome in words.items()}
    return {"outcome": status.replace_strict(known, default=None, return_dtype=OUTCOME)}


def _extras(raw: pl.DataFrame, dialect: _Dialect) -> dict[str, pl.Expr]:
    extras = {name: pl.col(name) for name in raw.columns if name.startswith("x_swf_")}
    if dialect.alea:
        extras["queue"] = pl.col("x_alea_queue")
        extras["constraint"] = pl.col("x_alea_spec")
        nodes = pl.col("x_alea_nodes").str.strip_chars("{}").str.split(",").list.unique(maintain_order=True)
        extras["node_list"] = nodes
        extras["nodes_alloc"] = nodes.list.len().cast(pl.Int64)
    elif (raw["think"] >= 0).any() and not (raw["preceding"] > 0).all():
        extras["x_think_s"] = pl.when(pl.col("preceding") <= 0).then(_known("think").cast(pl.Float64))
    return extras


def _attempts(raw: pl.DataFrame, dialect: _Dialect) -> pl.DataFrame:
    queued_ms = ((pl.col("submit") + dialect.origin_s) * 1000).cast(pl.Int64)
    start_ms = queued_ms + (_known("wait") * 1000).cast(pl.Int64)
    ended = {2: Outcome.SUSPENDED, 3: Outcome.COMPLETED, 4: Outcome.FAILED}
    return raw.select(
        job_id=pl.col("job").cast(pl.String),
        attempt=pl.int_range(pl.len()).over("job"),
        queued_ms=queued_ms,
        start_ms=start_ms,
        end_ms=start_ms + (_known("run") * 1000).cast(pl.Int64),
        outcome=pl.col("status").replace_strict({k: v.value for k, v in ended.items()}, return_dtype=OUTCOME),
        status=_labels(raw, "status"),
        cpus=_known("alloc").cast(pl.Float64),
    )


def _edges(raw: pl.DataFrame) -> pl.DataFrame:
    return raw.select(
        job_id=pl.col("job").cast(pl.String),
        depends_on=pl.col("preceding").cast(pl.String),
        kind=pl.lit("think"),
        delay_s=_known("think").cast(pl.Float64),
    )


def _count_impossible(raw: pl.DataFrame, dialect: _Dialect, notes: _Notes) -> None:
    amounts = ["wait", "run", "alloc", "cpu_time", "mem_used", "cpus_req", "limit", "mem_req", "think"]
    below = raw.select(((pl.col(amounts) < 0) & (pl.col(amounts) != -1)).sum()).row(0, named=True)
    for column, count in below.items():
        notes.impossible[column] += count
    if not dialect.exit_codes:
        notes.unknown_status += int((~raw["status"].is_in(list(_STATUS_CODES))).sum())


def _fields(header: list[str]) -> dict[str, list[str]]:
    """Return the header's `Name: value` comments; a name may stand several times."""
    fields: dict[str, list[str]] = {}
    for line in header:
        if (match := _FIELD.match(line)) and match[2]:
            fields.setdefault(match[1], []).append(match[2])
    return fields


def _number(fields: dict[str, list[str]], name: str) -> float | None:
    for text in fields.get(name, []):
        if match := re.match(r"\d+", text):
            return float(match[0])
    return None


def _all_numbers(fields: list[str]) -> bool:
    try:
        return all(np.isfinite(float(text)) for text in fields)
    except ValueError:
        return False
