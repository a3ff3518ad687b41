"""Standard Workload Format, version 2.2: 18 columns, whole seconds where the trace has whole seconds."""

from __future__ import annotations

import math
import re
from typing import IO, TYPE_CHECKING

import polars as pl

from presage.traces.readers.swf import COLUMNS, KIB, SYNTHETIC_NOTE
from presage.traces.schema import Outcome, size
from presage.traces.writers._base import TextWriter

if TYPE_CHECKING:
    from presage.traces.trace import Trace

_STATUS = {
    Outcome.COMPLETED: 1,
    Outcome.FAILED: 0,
    Outcome.OUT_OF_MEMORY: 0,
    Outcome.NODE_FAILURE: 0,
    Outcome.TIMEOUT: 0,
    Outcome.CANCELLED: 5,
    Outcome.PREEMPTED: 5,
}
_LABELS = ("user", "group", "executable", "queue", "partition")
_OLD_HEADER = re.compile(r"^\s*;")


class SwfWriter(TextWriter):
    """One line per job.

    Reading an SWF log and writing it again keeps every column. From other formats, GPUs, node lists, states
    beyond completed/failed/cancelled and all tables but the jobs are lost; names become numbers, listed in
    the header; processors, of which SWF has whole numbers only, are rounded up.
    """

    format = "swf"
    suffixes = (".swf",)

    def write_text(self, trace: Trace, stream: IO[bytes]) -> None:
        origin_ms = _origin_ms(trace)
        numbers = {label: _numbers(trace.jobs[label]) for label in _LABELS}
        for line in _header(trace, origin_ms, numbers):
            stream.write(line.encode() + b"\n")
        _rows(trace, origin_ms, numbers).write_csv(stream, separator=" ", include_header=False)


def _origin_ms(trace: Trace) -> int:
    """Return the instant that SWF's zero stands for."""
    if _came_from_swf(trace) or not trace.manifest.absolute_time:
        return trace.manifest.origin_ms
    first = trace.jobs["submit_ms"].min()
    return int(first) // 1000 * 1000 if isinstance(first, int) else 0


def _came_from_swf(trace: Trace) -> bool:
    sources = trace.manifest.sources
    return bool(sources) and all(source.format == "swf" for source in sources)


def _numbers(labels: pl.Series) -> pl.DataFrame | None:
    """Return a table label → number in order of appearance, or None if the labels are numbers already."""
    known = labels.drop_nulls()
    if known.cast(pl.Int64, strict=False).null_count() == 0:
        return None
    return known.unique(maintain_order=True).to_frame("label").with_row_index("number", offset=1)


def _header(trace: Trace, origin_ms: int, numbers: dict[str, pl.DataFrame | None]) -> list[str]:
    manifest = trace.manifest
    if manifest.header and _came_from_swf(trace) and all(map(_OLD_HEADER.match, manifest.header)):
        return list(manifest.header)
    lines = ["; Version: 2.2", f"; Computer: {manifest.name or 'unknown'}"]
    if manifest.acknowledgement:
        lines.append(f"; Acknowledge: {manifest.acknowledgement}")
    lines.append(f"; MaxJobs: {len(trace)}")
    if manifest.absolute_time:
        lines.append(f"; UnixStartTime: {origin_ms // 1000}")
    if manifest.time_zone:
        lines.append(f"; TimeZoneString: {manifest.time_zone}")
    if manifest.machine.nodes is not None:
        lines.append(f"; MaxNodes: {manifest.machine.nodes}")
    if manifest.machine.cpus is not None:
        lines.append(f"; MaxProcs: {math.ceil(manifest.machine.cpus)}")
    if manifest.synthetic:
        lines.append(f"; Note: {SYNTHETIC_NOTE}, made by {manifest.generator.get('name', 'a generator')}")
    for label, title in (("queue", "Queue"), ("partition", "Partition")):
        table = numbers[label]
        if table is not None:
            lines += [f"; {title}: {number} {text}" for number, text in table.iter_rows()]
    return [line.replace("\n", " ") for line in lines]


def _rows(trace: Trace, origin_ms: int, numbers: dict[str, pl.DataFrame | None]) -> pl.DataFrame:
    occupied = pl.max_horizontal(size(), pl.lit(1.0))
    jobs = trace.jobs.with_columns(
        pl.col("cpus_alloc", "cpus_req").ceil(),  # before memory is divided by them, as a reader multiplies
        job=_job_number(trace.jobs["job_id"]),
        **{label: _numbered(trace.jobs[label], numbers[label]) for label in _LABELS},
    ).join(_preceding(trace), on="job_id", how="left", maintain_order="left")
    think = pl.coalesce("think", "x_think_s") if "x_think_s" in jobs.columns else pl.col("think")
    columns = {
        "job": pl.col("job"),
        "submit": (pl.col("submit_ms") - origin_ms) / 1000,
        "wait": pl.col("wait_s"),
        "run": pl.col("run_s"),
        "alloc": pl.col("cpus_alloc"),
        "cpu_time": (pl.col("cpu_used_s") / occupied).round(6),
        "mem_used": pl.col("mem_used_bytes") / KIB / occupied,
        "cpus_req": pl.col("cpus_req"),
        "limit": pl.col("limit_s"),
        "mem_req": pl.col("mem_req_bytes") / KIB / occupied,
        "status": _status(trace),
        **{label: pl.col(label) for label in _LABELS},
        "preceding": pl.col("preceding"),
        "think": think,
    }
    tail = [pl.col(name).fill_null("-1") for name in jobs.columns if name.startswith("x_swf_")]
    return jobs.select(*(_plain(columns[name]).alias(name) for name in COLUMNS), *tail)


def _plain(value: pl.Expr) -> pl.Expr:
    """Return the number as SWF text: -1 if unknown, no decimals if whole."""
    number = value.cast(pl.Float64)
    whole = number.cast(pl.Int64, strict=False)
    text = pl.when(number == whole).then(whole.cast(pl.String)).otherwise(number.cast(pl.String))
    return text.fill_null("-1")


def _job_number(ids: pl.Series) -> pl.Series:
    numbers = ids.cast(pl.Int64, strict=False)
    if numbers.null_count() or numbers.n_unique() != len(ids):
        return pl.int_range(1, len(ids) + 1, eager=True)
    return numbers


def _numbered(labels: pl.Series, numbers: pl.DataFrame | None) -> pl.Series:
    if numbers is None:
        return labels.cast(pl.Int64)
    return labels.replace_strict(numbers["label"], numbers["number"], return_dtype=pl.Int64)


def _preceding(trace: Trace) -> pl.DataFrame:
    """Return the first dependency of each job as SWF wants it: a job number and a think time."""
    ids = pl.DataFrame({"depends_on": trace.jobs["job_id"], "preceding": _job_number(trace.jobs["job_id"])})
    edges = trace.edges.unique("job_id", keep="first", maintain_order=True)
    named = edges.join(ids, on="depends_on", how="left", maintain_order="left")
    outside = pl.col("depends_on").cast(pl.Int64, strict=False)
    return named.select("job_id", preceding=pl.coalesce("preceding", outside), think="delay_s")


def _status(trace: Trace) -> pl.Expr:
    """Return the log's own status if it was SWF's, else the nearest SWF code."""
    codes = {outcome.value: code for outcome, code in _STATUS.items()}
    from_outcome = pl.col("outcome").cast(pl.String).replace_strict(codes, default=None, return_dtype=pl.Int64)
    if _came_from_swf(trace):
        return pl.coalesce(pl.col("status").cast(pl.Int64, strict=False), from_outcome)
    return from_outcome
