"""From text cells to typed columns, with every unreadable cell accounted for.

A reader loads its rows as text (`delimited`, `json_lines`, or its own parsing), asks `Cells` for typed
expressions, and gets back a frame without the rows that had a bad cell; those are rejects by then.

    for cells in delimited(source, into, delimiter=","):
        into.add_jobs(cells.frame(job_id=cells.text("id"), run_s=cells.seconds("duration")))
"""

from __future__ import annotations

import codecs
import csv
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from presage.errors import UnreadableSourceError
from presage.traces.schema import OUTCOME, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

LINE = "__line__"
BATCH_ROWS = 200_000
MAX_EPOCH_S = 100_000_000_000  # the year 5138; beyond it a unit was mistaken, and milliseconds must fit int64
_SHOWN_CELLS = 6

csv.field_size_limit(2**31 - 1)  # lines are bounded by Source already


class Cells:
    """A table of text cells with typed views.

    `table` has String columns and the column `__line__`. A column that the table lacks reads as all missing,
    so readers may ask for every field their format can have. `missing` are the texts that mean "not known",
    besides the empty one; in the attribute `table` they are null, and no text has blanks around it. A reader may
    add columns of any type to `table`, to make views of; rejects show those that it began with.
    """

    def __init__(
        self, table: pl.DataFrame, source: Source, into: TraceBuilder, *, missing: Sequence[str] = ()
    ) -> None:
        # Cleaned once, because every typed view and every check of it starts from here.
        text = pl.exclude(LINE).str.strip_chars()
        known = pl.when(text.is_in(["", *missing]).not_()).then(text).name.keep()
        self.table = table.lazy().with_columns(known).collect()
        self._texts = [name for name in table.columns if name != LINE]
        self._source = source
        self._into = into
        self._checks: list[tuple[str, str, pl.Expr, pl.Expr]] = []

    def __contains__(self, column: str) -> bool:
        return column in self.table.columns

    def text(self, column: str) -> pl.Expr:
        """The cell's text without surrounding blanks, null where missing."""
        return pl.col(column) if column in self.table.columns else pl.lit(None, pl.String)

    def required(self, column: str) -> pl.Expr:
        """The cell's text; a row without one is rejected."""
        text = self.text(column)
        self._checks.append((column, "missing", text.fill_null(""), text))
        return text

    def number(self, column: str, *, scale: float = 1.0) -> pl.Expr:
        """A finite number, times `scale`."""
        value = self.text(column).cast(pl.Float64, strict=False)
        value = pl.when(value.is_finite()).then(value)
        return self.checked(column, value * scale if scale != 1.0 else value, "not a number")

    def integer(self, column: str) -> pl.Expr:
        """A whole number; `12.0` is one too, because spreadsheets and pandas write it."""
        text = self.text(column)
        as_float = text.cast(pl.Float64, strict=False)
        whole = as_float.is_finite() & (as_float == as_float.round()) & (as_float.abs() < 2.0**63)
        from_float = pl.when(whole).then(as_float).cast(pl.Int64, strict=False)
        return self.checked(
            column, pl.coalesce(text.cast(pl.Int64, strict=False), from_float), "not a whole number"
        )

    def count(self, column: str) -> pl.Expr:
        """A number that is not negative."""
        value = self.number(column)
        return self.checked(column, pl.when(value >= 0).then(value), "negative")

    def seconds(self, column: str, *, scale: float = 1.0) -> pl.Expr:
        """A duration that is not negative, in seconds after `scale`."""
        return self.count(column) * scale

    def bytes(self, column: str, *, unit: int = 1) -> pl.Expr:
        """A size that is not negative, `unit` bytes each, as whole bytes."""
        value = (self.number(column) * unit).round().cast(pl.Int64, strict=False)
        return self.checked(column, pl.when(value >= 0).then(value), "not a size in memory")

    def epoch_ms(self, column: str, *, per_second: float = 1.0) -> pl.Expr:
        """A time given as a number since 1970, `per_second` of them in a second, as milliseconds."""
        seconds = self.number(column) / per_second
        plausible = pl.when(seconds.abs() <= MAX_EPOCH_S).then(seconds)
        return self.checked(
            column, (plausible * 1000).round().cast(pl.Int64, strict=False), "not a plausible time"
        )

    def local_ms(self, column: str, time_zone: str | None = None) -> pl.Expr:
        """A time like `2021-01-05 01:06:17`, `2021-01-05T01:06:17.5` or with an offset (`+08:00`, `Z`).

        Without an offset it is taken in `time_zone`, or else in the zone of the read options. Times that a
        change to winter makes ambiguous are the earlier ones; times that do not exist are rejected.
        """
        return self.checked(column, self._local_ms(column, time_zone), "not a time")

    def time_ms(self, column: str, time_zone: str | None = None) -> pl.Expr:
        """A time as `local_ms` takes it, or as a number since 1970.

        Numbers are seconds; milliseconds, microseconds and nanoseconds are told by their size.
        """
        number = self.text(column).cast(pl.Float64, strict=False)
        seconds = number
        for per_second in (1e3, 1e6, 1e9):
            finer = number.abs() > MAX_EPOCH_S * per_second / 1e3
            seconds = pl.when(finer).then(number / per_second).otherwise(seconds)
        seconds = pl.when(seconds.abs() <= MAX_EPOCH_S).then(seconds)
        from_number = (seconds * 1000).round().cast(pl.Int64, strict=False)
        value = pl.when(number.is_not_null()).then(from_number).otherwise(self._local_ms(column, time_zone))
        return self.checked(column, value, "not a time")

    def _local_ms(self, column: str, time_zone: str | None) -> pl.Expr:
        text = self.text(column).str.replace("T", " ", literal=True)
        zone = time_zone or self._into.options.time_zone_or_utc
        has_offset = text.str.contains(r"(Z|[+-]\d\d:?\d\d)$") & text.str.contains(":")
        naive = (
            text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="ms")
            .dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
            .dt.convert_time_zone("UTC")
        )
        normal = text.str.replace(r"Z$", "+00:00").str.replace(r"([+-]\d\d):?(\d\d)$", "$1:$2")
        offset = normal.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%:z", strict=False, time_unit="ms", time_zone="UTC")
        moment = pl.when(has_offset).then(offset).otherwise(naive)
        return moment.dt.epoch("ms")

    def outcome(self, column: str, words: Mapping[str, Outcome | None]) -> pl.Expr:
        """The outcome that `words` gives for the cell; a word mapped to None, or not in `words`, is unknown."""
        known = {word: outcome.value for word, outcome in words.items() if outcome is not None}
        return self.text(column).replace_strict(known, default=None, return_dtype=pl.String).cast(OUTCOME)

    def checked(self, column: str, value: pl.Expr, problem: str) -> pl.Expr:
        """Return `value`, and reject rows where `column` has a text but `value` is null."""
        if column in self.table.columns:
            self._checks.append((column, problem, self.text(column), value))
        return value

    def frame(self, **columns: pl.Expr) -> pl.DataFrame:
        """Return these columns of the rows whose cells can all be read; the other rows become rejects."""
        if not len(self.table):
            return self.table.select(**columns)
        wrong = [text.is_not_null() & value.is_null() for _, _, text, value in self._checks]
        # The line column makes literals (absent columns) as long as the rows, also when every column is one.
        result = (
            self.table.lazy()  # which, unlike an eager select, works out shared parts of the expressions once
            .select(pl.col(LINE), pl.any_horizontal(pl.lit(False), *wrong).alias("__wrong__"), **columns)
            .collect()
        )
        bad = result["__wrong__"]
        if bad.any():
            self._reject(self.table.filter(bad), wrong)
            result = result.filter(~bad)
        return result.drop(LINE, "__wrong__")

    def _reject(self, rows: pl.DataFrame, wrong: list[pl.Expr]) -> None:
        # Not pl.format: it panics where a filter has emptied the first chunk of a column (Polars 2.1).
        reason = pl.coalesce(
            pl.when(is_wrong).then(pl.concat_str(pl.lit(f"{column}: '"), text, pl.lit(f"' is {problem}")))
            for is_wrong, (column, problem, text, _) in zip(wrong, self._checks, strict=True)
        )
        reasons = rows.select(LINE, reason.alias("reason")).iter_rows()
        for (line, why), row in zip(reasons, rows.select(self._texts).iter_rows(), strict=True):
            self._into.reject(self._source.name, line, why, _row_text(row))


def delimited(
    source: Source,
    into: TraceBuilder,
    *,
    delimiter: str | None = ",",
    columns: Sequence[str] | None = None,
    quoted: bool = True,
    missing: Sequence[str] = (),
    optional_tail: int = 0,
    mend: Callable[[list[str]], list[str] | None] | None = None,
) -> Iterator[Cells]:
    """Yield the rows of a delimited text in batches.

    `columns` names the fields; None takes them from the first line. `delimiter` None means any run of
    blanks. A row may lack up to `optional_tail` fields at its end. `mend` is given the fields of a row that has
    too many and returns the right ones, or None to have it rejected. Quoted fields do not span lines: an
    unbalanced quote costs one row, not the rest of the file. Header names lose surrounding blanks.
    """
    names = list(columns) if columns is not None else None
    tables: list[pl.DataFrame] = []
    for first, block in source.blocks(into.rejecter(source.name)):
        text = source.as_utf8(block.removeprefix(codecs.BOM_UTF8) if first == 1 else block)
        number = first
        while names is None and text:
            line, _, text = text.partition(b"\n")
            number += 1
            fields = _fields(line.decode().rstrip("\r"), number - 1, delimiter, quoted, source, into)
            if fields is not None:
                names = [name.strip() for name in fields]
                _check_header(names, source)
        if names is None or not text:
            continue
        table = _whole_table(text, number, names, delimiter, quoted)
        if table is None:
            shape = _Shape(names, delimiter, quoted, optional_tail, mend)
            table = _line_by_line(text.decode(), number, shape, source, into)
        tables.append(table)
        if sum(map(len, tables)) >= BATCH_ROWS:
            yield Cells(pl.concat(tables), source, into, missing=missing)
            tables = []
    if any(map(len, tables)):
        yield Cells(pl.concat(tables), source, into, missing=missing)


def header(head: Head, delimiter: str = ",") -> set[str]:
    """Return the column names in the first line of a delimited text, to recognise it by."""
    first = head.lines[0] if head.lines else ""
    return {name.strip().strip('"') for name in first.split(delimiter)}


def records(
    items: Iterable[tuple[int, Mapping[str, Any]]],
    source: Source,
    into: TraceBuilder,
    *,
    missing: Sequence[str] = (),
) -> Cells:
    """Return cells made of flat records, for example of JSON objects; nested values become JSON text."""
    rows = list(items)
    names = list(dict.fromkeys(name for _, record in rows for name in record if name != LINE))
    table = pl.DataFrame(
        {
            LINE: pl.Series([line for line, _ in rows], dtype=pl.Int64),
            **{
                _as_text(name): pl.Series([_as_text(record.get(name)) for _, record in rows], dtype=pl.String)
                for name in names
            },
        }
    )
    return Cells(table, source, into, missing=missing)


def json_lines(
    source: Source, into: TraceBuilder, *, skip: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for every line that is a JSON object; others, except `skip`, become rejects."""
    for number, line in source.lines(into.rejecter(source.name)):
        if line in skip:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            into.reject(source.name, number, f"not JSON ({error})", line)
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            into.reject(source.name, number, "not a JSON object", line)


def json_document(source: Source) -> Any:
    """Return the whole source as one JSON document. Raises UnreadableSourceError if it is none."""
    try:
        return json.loads(source.read_text())
    except (ValueError, RecursionError) as error:
        raise UnreadableSourceError(
            f"{source.name} is not a whole JSON document: {error}",
            expected="one JSON document",
            remedy="Check that the file is not cut off",
        ) from None


class _Shape(NamedTuple):
    """What `delimited` was told about its rows."""

    names: list[str]
    delimiter: str | None
    quoted: bool
    optional_tail: int
    mend: Callable[[list[str]], list[str] | None] | None


def _whole_table(
    text: bytes, first: int, names: list[str], delimiter: str | None, quoted: bool
) -> pl.DataFrame | None:
    """Return the table of a block in which every line has all its fields, or None if anything is unusual."""
    if delimiter is None or len(delimiter.encode()) != 1 or len(names) < 2 or (quoted and b'"' in text):
        return None
    text = text.replace(b"\r\n", b"\n")
    lines = text.count(b"\n")
    if b"\r" in text or text.count(delimiter.encode()) != lines * (len(names) - 1):
        return None
    try:
        table = pl.read_csv(
            text, has_header=False, separator=delimiter, quote_char=None, schema=dict.fromkeys(names, pl.String)
        )
    except pl.exceptions.PolarsError:  # a line with too many fields makes up for one with too few
        return None
    if len(table) != lines:
        return None
    return table.select(pl.int_range(first, first + lines, dtype=pl.Int64).alias(LINE), pl.all())


def _line_by_line(text: str, first: int, shape: _Shape, source: Source, into: TraceBuilder) -> pl.DataFrame:
    """Return the table of the lines that have as many fields as there are names; the others become rejects."""
    rows: list[list[str | None]] = []
    lines: list[int] = []
    for number, raw in enumerate(text.split("\n"), start=first):
        line = raw.rstrip("\r")
        fields = _fields(line, number, shape.delimiter, shape.quoted, source, into)
        if fields is None:
            continue
        expected = len(shape.names)
        if len(fields) > expected and shape.mend:
            fields = shape.mend(fields) or fields
        lacking = expected - len(fields)
        if lacking < 0 or lacking > shape.optional_tail:
            into.reject(source.name, number, f"{len(fields)} fields where {expected} were expected", line)
            continue
        rows.append([*fields, *[None] * lacking])
        lines.append(number)
    return _text_table(shape.names, rows, lines)


def _fields(
    line: str, number: int, delimiter: str | None, quoted: bool, source: Source, into: TraceBuilder
) -> list[str] | None:
    """Return the fields of a line, None if it is blank or a reject by now."""
    if not line or line.isspace():
        return None
    try:
        return _split(line, delimiter, quoted)
    except csv.Error as error:
        into.reject(source.name, number, f"unbalanced quotes ({error})", line)
        return None


def _split(line: str, delimiter: str | None, quoted: bool) -> list[str]:
    if delimiter is None:
        return line.split()
    if quoted and '"' in line:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    return line.split(delimiter)


def _check_header(names: list[str], source: Source) -> None:
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise UnreadableSourceError(
            f"The header of {source.name} names the column {sorted(repeated)[0]!r} twice",
            expected="a header with each column once",
        )


def _text_table(names: list[str], rows: list[list[str | None]], lines: list[int]) -> pl.DataFrame:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    table = {name: pl.Series(column, dtype=pl.String) for name, column in zip(names, columns, strict=True)}
    return pl.DataFrame({LINE: pl.Series(lines, dtype=pl.Int64), **table})


def _row_text(row: tuple[str | None, ...]) -> str:
    shown = ", ".join(cell or "" for cell in row[:_SHOWN_CELLS])
    return shown + (", …" if len(row) > _SHOWN_CELLS else "")


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        # JSON may escape half a surrogate pair, which no UTF-8 text can hold.
        return value if value.isascii() else value.encode("utf-8", errors="replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(value)
