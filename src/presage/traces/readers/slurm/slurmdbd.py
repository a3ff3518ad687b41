"""Rows of slurmdbd's job table as CSV or as `mysql --batch` prints it: MIT SuperCloud, and a site's own dumps.

Times are seconds since 1970 and 0 for "not yet", limits are minutes, states are numbers, exit codes are those of
wait(2). 4294967294 means no value and 4294967295 no limit. TRES have numbers for names; those from 1001 on are
given by the site, so that the smallest one in the log is taken for GPUs and the manifest says so. Anonymised
tables may have ids that went through floating-point numbers, node lists as Python lists, and hashes of nothing.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from presage.traces.readers._base import NO, SURE, Reader
from presage.traces.readers._cells import LINE, Cells, delimited, header
from presage.traces.readers.slurm.node_lists import expand_nodes
from presage.traces.readers.slurm.records import add_records, leftover_name, note_unread
from presage.traces.readers.slurm.texts import (
    FIRST_SITE_ID,
    INFINITE_32,
    MISSING,
    NO_VALUE_32,
    TRES_COLUMNS,
    decoded,
    parse_gres,
    parse_memory,
    parse_state,
    parse_tres,
)
from presage.traces.schema import STRINGS

if TYPE_CHECKING:
    from presage.traces.builder import TraceBuilder
    from presage.traces.source import Head, Source

_OWN_COLUMNS = {"id_job", "time_submit", "time_start", "time_end", "timelimit", "state"}
_TIMES = {
    "submit_ms": "time_submit", "eligible_ms": "time_eligible", "start_ms": "time_start", "end_ms": "time_end",
}  # fmt: skip


class SlurmdbdReader(Reader):
    """Job tables of Slurm's accounting database."""

    format = "slurmdbd"
    scheduler = "slurm"

    def match(self, head: Head) -> int:
        return NO if head.is_binary or _delimiter(head) is None else SURE

    def read_one(self, source: Source, into: TraceBuilder) -> int:
        delimiter = _delimiter(source.head) or ","
        batches = list(delimited(source, into, delimiter=delimiter, quoted=delimiter == ",", missing=MISSING))
        rows = sum(len(cells.table) for cells in batches)
        gpu_id = _gpu_id(batches, into)
        records = [_records(cells, gpu_id, into) for cells in batches]
        if records:
            add_records(pl.concat(records, how="diagonal_relaxed"), into)
        return rows


def _delimiter(head: Head) -> str | None:
    return next((mark for mark in (",", "\t") if header(head, mark) >= _OWN_COLUMNS), None)


def _gpu_id(batches: list[Cells], into: TraceBuilder) -> int:
    """Return the TRES number that is read as GPUs: the smallest that the site gave."""
    texts = {
        text
        for cells in batches
        for column in ("tres_req", "tres_alloc")
        if column in cells
        for text in cells.table[column].unique().to_list()
        if text
    }
    ids = {int(number) for text in texts for number in re.findall(r"(?:^|,)(\d{4,9})=", text)}
    of_site = sorted(number for number in ids if number >= FIRST_SITE_ID)
    if not of_site:
        return FIRST_SITE_ID
    into.note(
        f"TRES {of_site[0]} is read as GPUs; numbers from {FIRST_SITE_ID} on have a meaning of the site's own"
    )
    return of_site[0]


def _records(cells: Cells, gpu_id: int, into: TraceBuilder) -> pl.DataFrame:
    table = cells.table
    own = [name for name in table.columns if name not in _USED and table[name].null_count() < len(table)]
    cells.table = _with_meanings(table, gpu_id, into)
    state = cells.checked("state", pl.col("state:word"), "not a state of Slurm")
    task = _value(cells.integer("id_array_task"))
    offset = pl.coalesce(_value(cells.integer("het_job_offset")), _value(cells.integer("pack_job_offset")))
    het = pl.coalesce(_label(cells, "het_job_id"), _label(cells, "pack_job_id"))
    return cells.frame(
        job_id=_label(cells, "id_job", required=True),
        array_id=pl.when(task.is_not_null()).then(_label(cells, "id_array_job")),
        array_task=task,
        het_id=pl.when(offset.is_not_null()).then(het),
        het_offset=offset,
        **{name: _epoch_ms(cells, column) for name, column in _TIMES.items()},
        **_labels(cells),
        **_resources(cells),
        state=state,
        status=cells.text("state"),
        **_ending(cells),
        has_start=pl.lit(True),
        has_nodes=cells.text("nodelist").is_not_null() if "nodelist" in cells else pl.lit(None, pl.Boolean),
        **{leftover_name(name): pl.col(name) for name in own},
    )


def _with_meanings(table: pl.DataFrame, gpu_id: int, into: TraceBuilder) -> pl.DataFrame:
    table = decoded(table, "state", parse_state, {"state:word": pl.String})
    table = decoded(table, "mem_req", parse_memory, {"mem_req:size_bytes": pl.Int64, "mem_req:per": pl.String})
    for column in ("tres_req", "tres_alloc"):
        fields = {f"{column}:{name}": dtype for name, dtype in TRES_COLUMNS.items()}
        table = decoded(table, column, partial(parse_tres, gpu_id=gpu_id), fields)
    table = decoded(table, "gres_used", parse_gres, {"gres_used:gpus": pl.Float64, "gres_used:type": pl.String})
    table = decoded(table, "nodelist", _node_names, {"nodelist:names": STRINGS})
    note_unread(table, into, nodelist="node_lists", tres_req="resources", tres_alloc="resources")
    return table


def _node_names(text: str) -> list[str] | None:
    if text.startswith("[") and text.endswith("]"):
        return expand_nodes(re.sub(r"['\"\s]", "", text[1:-1]))
    return expand_nodes(text)


def _label(cells: Cells, column: str, *, required: bool = False) -> pl.Expr:
    """Return an id as text, without the `.0` of tables that went through floating-point numbers."""
    text = cells.required(column) if required else cells.text(column)
    return text.str.strip_suffix(".0")


def _value(number: pl.Expr) -> pl.Expr:
    return pl.when(number < NO_VALUE_32).then(number)


def _epoch_ms(cells: Cells, column: str) -> pl.Expr:
    time_ms = cells.epoch_ms(column)
    return pl.when((time_ms > 0) & (time_ms < NO_VALUE_32 * 1000)).then(time_ms)


def _labels(cells: Cells) -> dict[str, pl.Expr]:
    return {
        "name": cells.text("job_name"),
        "kind": cells.text("job_type"),
        "user": _label(cells, "id_user"),
        "group": _label(cells, "id_group"),
        "account": cells.text("account"),
        "partition": cells.text("partition"),
        "qos": _label(cells, "id_qos"),
        "constraint": cells.text("constraints"),
        "priority": _value(cells.number("priority")),
    }


def _resources(cells: Cells) -> dict[str, pl.Expr]:
    cpus = pl.coalesce(_value(cells.count("cpus_req")), "tres_req:cpus")
    nodes = _value(cells.count("nodes_alloc"))
    times = pl.when(pl.col("mem_req:per") == "cpu").then(cpus).otherwise(pl.coalesce("tres_req:nodes", nodes, 1.0))
    minutes = cells.count("timelimit")
    return {
        "limit_s": pl.when(minutes == INFINITE_32)
        .then(pl.lit(float("inf")))
        .when((minutes > 0) & (minutes < NO_VALUE_32))
        .then(minutes * 60),
        "cpus_req": cpus,
        "nodes_req": pl.col("tres_req:nodes"),
        "mem_req_bytes": pl.coalesce(
            "tres_req:mem_bytes", (pl.col("mem_req:size_bytes") * times).round().cast(pl.Int64, strict=False)
        ),
        "gpus_req": pl.col("tres_req:gpus"),
        "req_known": pl.col("tres_req:cpus").is_not_null(),
        "cpus_alloc": pl.col("tres_alloc:cpus"),
        "nodes_alloc": pl.coalesce(
            pl.when(nodes > 0).then(nodes).cast(pl.Int64, strict=False), "tres_alloc:nodes"
        ),
        "gpus_alloc": pl.coalesce("tres_alloc:gpus", "gres_used:gpus"),
        "gpu_type": pl.col("gres_used:type"),
        "mem_alloc_bytes": pl.col("tres_alloc:mem_bytes"),
        "alloc_known": pl.col("tres_alloc:cpus").is_not_null(),
        "node_list": pl.col("nodelist:names"),
    }


def _ending(cells: Cells) -> dict[str, pl.Expr]:
    status = _value(cells.integer("exit_code"))
    signal = status % 128
    suspended = cells.count("time_suspended")
    return {
        "exit_code": status // 256,
        "signal": pl.when(signal > 0).then(signal),
        # While a job is suspended, the column holds the time at which that began.
        "suspended_s": pl.when(suspended < 1e9).then(suspended),
        "restarts": cells.integer("restart_cnt"),
    }


_USED = {
    LINE, "id_job", "id_array_job", "id_array_task", "het_job_id", "het_job_offset", "pack_job_id",
    "pack_job_offset", *_TIMES.values(), "job_name", "job_type", "id_user", "id_group", "account", "partition",
    "id_qos", "constraints", "priority", "state", "timelimit", "cpus_req", "nodes_alloc", "mem_req", "tres_req",
    "tres_alloc", "gres_used", "nodelist", "exit_code", "time_suspended", "restart_cnt",
}  # fmt: skip
